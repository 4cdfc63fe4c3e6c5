"""Python projects: their interpreter and their environment."""
