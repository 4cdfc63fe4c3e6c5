"""The oracle as a Debug Subagent that answers one runtime question.

It knows the question as a place and an expression, and reads code like any subagent. It answers
only with what it saw in its own session: it is never given the true answer.
"""

from collect.oracle.questions.answering import OracleAnswerer

__all__ = ["OracleAnswerer"]
