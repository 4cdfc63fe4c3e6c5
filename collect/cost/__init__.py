"""A run's cost: estimates, checks before the start, and confirmation above a limit."""
