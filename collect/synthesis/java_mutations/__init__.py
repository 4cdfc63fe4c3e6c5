"""Realistic edits that break a correct Java program, found on its syntax tree.

An edit may not compile: the caller has to check.
"""

from collect.synthesis.java_mutations.finding import find_java_mutations

__all__ = ["find_java_mutations"]
