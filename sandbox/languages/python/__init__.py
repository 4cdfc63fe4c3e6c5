"""Python projects: what they declare, and how they look once they are installed."""
