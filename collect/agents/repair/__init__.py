"""InspectCoder, its ablations, and the baselines it is compared with (arXiv:2510.18327).

One loop for all (`rounds`): diagnose and patch a program of one file, run its public tests, go on
with the first that fails. What differs is how a system comes to its next version of the code.
"""
