"""Verdicts out of well-formed and malformed replies."""

from __future__ import annotations

import pytest

from collect.agents.baselines.ldb import wrong_blocks

REPLIES = {
    "one a line": (
        '{"block": "BLOCK-0", "correct": true, "explanation": "It sets up."}\n'
        '{"block": "BLOCK-1", "correct": false, "explanation": "It\'s off by one: use n + 1."}'
    ),
    "strings for booleans": (
        '{"block": "BLOCK-0", "correct": "True", "explanation": "It sets up."}\n'
        '{"block": "[BLOCK-1]", "correct": "False", "explanation": "It\'s off by one: use n + 1."}'
    ),
    "a fenced list in prose": (
        "Let me see [the blocks]:\n```json\n[\n"
        '  {"block": "BLOCK-0", "correct": true, "explanation": "It sets up."},\n'
        '  {"block": 1, "correct": false, "explanation": "It\'s off by one: use n + 1."}\n'
        "]\n```\nSo {that} is it."
    ),
    "Python's literals": (
        "{'block': 'BLOCK-0', 'correct': True, 'explanation': 'It sets up.'}\n"
        "{'block': 'BLOCK-1', 'correct': False, "
        "'explanation': \"It's off by one: use n + 1.\"}"
    ),
    "by the blocks' names": (
        '{"BLOCK-0": {"correct": true, "explanation": "It sets up."},\n'
        ' "BLOCK-1": {"correct": false, "explanation": "It\'s off by one: use n + 1."}}'
    ),
    "under a key": (
        '{"verdicts": [{"Block": "BLOCK-0", "Correct": true, "Explanation": "It sets up."}, '
        '{"block": "block 1", "correct": "no", "explanation": "It\'s off by one: use n + 1."}]}'
    ),
    "broken quotes": (
        "{'block': 'BLOCK-0', 'correct': True, 'explanation': 'It sets up.'\n"
        "{'block': 'BLOCK-1', 'correct': False, 'explanation': 'It's off by one: use n + 1.'}"
    ),
    "without quotes": (
        "block: BLOCK-0\ncorrect: true\nexplanation: It sets up.\n"
        "block: BLOCK-1\ncorrect: false\nexplanation: It's off by one: use n + 1."
    ),
    "prose": (
        "[BLOCK-0]\nFeedback: CORRECT. It sets up.\n"
        "[BLOCK-1]\nFeedback: INCORRECT. It's off by one: use n + 1."
    ),
}


@pytest.mark.parametrize("form", REPLIES)
def test_verdicts_are_read_in_any_form(form: str) -> None:
    assert wrong_blocks(REPLIES[form]) == ["1"]


def test_a_reply_that_was_cut_keeps_its_verdicts() -> None:
    assert wrong_blocks('{"block": "BLOCK-2", "correct": False, "explanation": "cut o') == ["2"]
    assert wrong_blocks('{"block": "BLOCK-2", "correct": fal') == []


@pytest.mark.parametrize(
    "reply",
    [
        *("", "{", "[]", "{}" * 100, "All is correct.", "[" * 5_000, "{" * 5_000, "{'a': " * 3_000),
        '{"block": "BLOCK-2", "explanation": "Hm."}',
        '{"correct": "maybe", "explanation": null}',
    ],
)
def test_what_holds_no_verdict_gives_none(reply: str) -> None:
    assert wrong_blocks(reply) == []


def test_one_good_object_among_broken_ones_is_kept() -> None:
    reply = '{"block": "BLOCK-0", "correct": yes\n{"block": "BLOCK-1", "correct": false}'
    assert wrong_blocks(reply) == ["1"]
