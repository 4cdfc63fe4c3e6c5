"""Self-repair benchmarks: a program written for a problem, kept where it fails the tests.

BigCodeBench-R and LiveCodeBench-R (InspectCoder, section 3.2) are made so: one solution a problem,
written by a model, and what fails for a reason beyond syntax, and not on private tests alone.
"""
