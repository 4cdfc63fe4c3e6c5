"""The oracle: a scripted teacher that knows the gold patch and uses the same tools as any model.

It runs the pipeline without a key or GPU, provides cold-start data, and is an upper bound for every
score. Its results are never a model's: its rows say `teacher = "oracle"`.
"""

from collect.oracle.backend import OracleBackend

__all__ = ["OracleBackend"]
