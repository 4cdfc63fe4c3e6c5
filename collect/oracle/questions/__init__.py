"""The oracle as a Debug Subagent that is asked one runtime question.

It knows what is asked, as a place and an expression, and reads code as any subagent can. What it
answers it has seen in its own session: the true answer is never given to it.
"""

from collect.oracle.questions.answering import OracleAnswerer

__all__ = ["OracleAnswerer"]
