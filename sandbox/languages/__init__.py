"""What the sandbox knows of each language."""
