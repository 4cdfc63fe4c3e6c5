"""One YAML a run, and how it is read."""
