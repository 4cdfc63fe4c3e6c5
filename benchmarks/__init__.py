"""Measurements to run by hand: `python -m benchmarks.NAME`."""
