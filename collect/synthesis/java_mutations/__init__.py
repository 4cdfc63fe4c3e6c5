"""Realistic edits that break a correct Java program, found on its syntax tree.

An edit may not compile: the caller has to check.
"""
