"""Replies that are kept until their rollout has its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.models.base import Completion, Usage
from collect.rollouts.journal import Journal
from collect.store.files import TextFile
from collect.store.messages import Message, ToolCall


def journal(folder: Path) -> Journal:
    return Journal(TextFile(folder / "journal" / "r.jsonl"), "settings")


def said(content: str) -> Completion:
    call = ToolCall("1", content, content)
    message = Message("assistant", content, reasoning=content, tool_calls=(call,))
    return Completion(message, Usage(100, 20, 0), 0.01, 1.5, "tool_calls")


def test_a_reply_that_holds_half_a_character_is_kept(tmp_path: Path) -> None:
    completion = said("half \ud83d, whole \U0001f41b")
    journal(tmp_path).add(0, 0, "seen", completion)
    assert journal(tmp_path).reply(0, 0, "seen") == completion
    assert journal(tmp_path).reply(0, 0, "something else") is None


@pytest.mark.parametrize("broken", ["\0\0\0\0", '{"conversation": 0}', "[1"])
def test_a_reply_that_cannot_be_read_is_asked_for_again(tmp_path: Path, broken: str) -> None:
    written = journal(tmp_path)
    for step in range(3):
        written.add(0, step, "seen", said(f"reply {step}"))
    path = tmp_path / "journal" / "r.jsonl"
    lines = path.read_text().split("\n")
    path.write_text("\n".join([*lines[:2], broken, lines[3][:-20]]))
    again = journal(tmp_path)
    assert [again.reply(0, step, "seen") for step in range(3)] == [said("reply 0"), None, None]
    again.add(0, 1, "seen", said("anew"))
    assert path.read_text().split("\n")[:2] == lines[:2]
    assert journal(tmp_path).reply(0, 1, "seen") == said("anew")
