"""What is particular to one language."""
