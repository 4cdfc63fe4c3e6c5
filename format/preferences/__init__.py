"""Pairs of attempts at one question: which is better, and why."""
