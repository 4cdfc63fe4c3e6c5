"""Self-repair benchmarks: programs written for problems, if they fail the tests.

BigCodeBench-R and LiveCodeBench-R (InspectCoder, section 3.2) are made in this way: a model writes
one solution per problem, which is kept if it fails for a reason other than syntax, and not only on
private tests.
"""
