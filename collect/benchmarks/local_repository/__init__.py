"""One bug of the user's own: a repository, in a folder or at a git URL, whose tests fail."""
