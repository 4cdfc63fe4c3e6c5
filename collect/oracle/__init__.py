"""The oracle: a scripted teacher that knows the gold patch and drives the same tools as any model.

It makes the pipeline run without a key or a GPU, gives cold-start data, and bounds every score
from above. What it does is never a model's result: its rows say `teacher = "oracle"`.
"""

from collect.oracle.backend import OracleBackend

__all__ = ["OracleBackend"]
