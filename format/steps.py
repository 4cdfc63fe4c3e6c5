"""Rows of single steps, in TRL's form of a prompt and its completion.

A conversation gives one row for each of its trained turns: the context that the model saw then, and
what it said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from format.columns import Column, Kind
from format.rows import COLUMNS, is_assistant

FOLDER = "steps"
KEYS = (
    "conversation_id",
    "rollout_id",
    "role",
    "benchmark",
    "instance_id",
    "repository",
    "language",
    "system",
    "variant",
    "teacher",
    "model",
    "attempt",
    "category",
    "difficulty",
)
"""The columns of a conversation's row that its steps have too."""
STEP_COLUMNS = {
    "prompt": Column("all messages before the turn, as the model was sent them", Kind.OBJECTS),
    "completion": Column("the turn: one message of the assistant", Kind.OBJECTS),
    "tools": COLUMNS["tools"],
    "step": Column("which of the conversation's assistant turns it is, from 0", Kind.INTEGER),
    "steps": Column("how many assistant turns the conversation has", Kind.INTEGER),
    "turn_quality": Column("the turn's label: timeout, tool_error, recovery, ok ..."),
    **{name: COLUMNS[name] for name in KEYS},
}


def step_rows(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps of a conversation's row, those that are trained on; messages are JSON texts."""
    messages = row["messages"]
    turns = [i for i, message in enumerate(messages) if is_assistant(message)]
    facts = {name: row[name] for name in ("tools", *KEYS)}
    for step, (index, trained) in enumerate(zip(turns, row["trained_turns"], strict=True)):
        if trained:
            yield facts | {
                "prompt": messages[:index],
                "completion": [messages[index]],
                "step": step,
                "steps": len(turns),
                "turn_quality": row["turn_quality"][step],
            }
