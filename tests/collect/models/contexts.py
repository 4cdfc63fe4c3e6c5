"""Conversations to open models for."""

from __future__ import annotations

from collect.benchmarks.base import Instance
from collect.models.base import ConversationContext


def context(
    role: str = "main",
    index: int = 0,
    instance_id: str = "bug-1",
    variant: str = "debug2fix",
    attempt: int = 0,
) -> ConversationContext:
    """A conversation about a bug of which only the id matters."""
    instance = Instance(
        id=instance_id,
        benchmark="test",
        language="python",
        repository="repository",
        problem_statement="It fails.",
        fail_to_pass=("test_a.py::test_a",),
        pass_to_pass=(),
        gold_patch="",
    )
    return ConversationContext(instance, variant, attempt, role, index)
