"""Checks of rows, tokenizer, templates and weights before training."""
