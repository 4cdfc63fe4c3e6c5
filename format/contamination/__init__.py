"""How much of a benchmark is in training data already."""
