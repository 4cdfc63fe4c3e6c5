"""A run on a Ray cluster while what it stands on is killed: `python -m tests.chaos`."""
