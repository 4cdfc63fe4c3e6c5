"""Reasoning in a reply's text, by the forms in which servers and models leave it there."""

from __future__ import annotations

import time

import pytest

from collect.store.messages import Message
from collect.store.thinking import split_thinking


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>\nIs it 7?\n</think>\n\nIt is 7.", "Is it 7?", "It is 7."),
        ("\n<think>a</think>b", "a", "b"),
        ("<think></think>\n\nIt is 7.\n", "", "It is 7.\n"),
        ("<think>a</think>\n<think>b</think>c", "a\n\nb", "c"),
        ("<think>a</think>b\n<think>c</think>\nd", "a\n\nc", "b\n\nd"),
        ("Is it 7?\n</think>\n\nIt is 7.", "Is it 7?", "It is 7."),
        ("It must be.</think>It is 7.", "It must be.", "It is 7."),
        ("</think>It is 7.", "", "It is 7."),
        ("<think>Is it", "Is it", ""),
        ("<think>a <think>b</think> c</think>d", "a <think>b</think> c", "d"),
        ("<think>Where is <think> read?</think>d", "Where is <think> read?", "d"),
        ("<think>It looks for `</think>`.</think>d", "It looks for `</think>`.", "d"),
        ("<THINKING>a</THINKING>b", "a", "b"),
        ("<thought>a</thought>b", "a", "b"),
        ("<seed:think>a</seed:think>b", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("◁think▷a◁/think▷b", "a", "b"),
    ],
)
def test_it_is_split_from_what_is_said(text: str, thought: str, said: str) -> None:
    assert split_thinking(text) == (thought, said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It is 7.",
        "The parser strips `<think>a</think>`.",
        "`cut` is '<think>' there, and '</think>' here.",
        "The tag </think> ends it, and <think> begins it.",
        "It reads:\n<think>\nand never comes to its end.",
        "if x <think> y: <b>7</b>",
    ],
)
def test_a_text_about_tags_is_said(text: str) -> None:
    assert split_thinking(text) == ("", text)


@pytest.mark.parametrize(
    "text",
    ["<think>", "</think>", "<think></think>", "x\n<think>", "x<think>", "<think>\n", "[THINK]x"],
)
@pytest.mark.parametrize("end", ["", "</think>", "<think>"])
def test_repeated_tags_are_read_at_once(text: str, end: str) -> None:
    started = time.process_time()
    split_thinking(text * 100_000 + end)
    assert time.process_time() - started < 20


def test_a_message_keeps_its_content() -> None:
    text = "<think>Is it 7?</think>It is 7."
    message = Message("assistant", text, reasoning="I look.")
    assert (message.content, message.said) == (text, "It is 7.")
    assert message.thought == "I look.\n\nIs it 7?"
    assert Message("assistant", text, reasoning="Is it 7?").thought == "Is it 7?"
    for role in ("user", "tool"):
        assert (Message(role, text).said, Message(role, text).thought) == (text, "")
