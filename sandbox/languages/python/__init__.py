"""Python projects: their interpreter and environment, what they declare, and how they look once
they are installed."""
