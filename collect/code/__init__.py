"""Source code and patches, read: Python, Java, unified diffs."""
