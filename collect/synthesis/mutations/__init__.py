"""Realistic edits that break a correct Python program, found on its syntax tree."""
