"""InspectCoder, its ablations and baselines (arXiv:2510.18327).

One loop for all (`rounds`): diagnose and patch a one-file program, run its public tests, continue
with the first that fails. Systems differ in how they reach the next version of the code.
"""
