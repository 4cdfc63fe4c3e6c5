"""The ways to train: on conversations, on pairs of them, and on rewards; a file each."""
