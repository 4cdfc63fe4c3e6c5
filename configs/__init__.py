"""A run's YAML config, and how it is read."""
