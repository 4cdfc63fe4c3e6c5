"""LDB's conversation: verdicts on the blocks of a real trace, then the repaired program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collect.rollouts.rollout import RolloutTrace
from collect.store.messages import Message
from collect.store.records import Role, StopReason
from tests.repair_bug import BUG, BUGGY, CORRECT, repair
from tests.scripted_model import ScriptedBackend

VERDICTS = (
    '{"block": "BLOCK-0", "correct": true, "explanation": "Fine."}\n'
    '{"block": "BLOCK-8", "correct": false, "explanation": "Ties go to the last word."}'
)
WRONG = BUGGY.replace(".lower()", "")


def program(code: str) -> str:
    return f"Here it is.\n\n```python\n{code}```"


def scripted(*replies: str) -> ScriptedBackend:
    return ScriptedBackend("m", {"patch_coder": [Message("assistant", text) for text in replies]})


def said(trace: RolloutTrace) -> list[str]:
    """What the user says, in order."""
    [log] = trace.logs
    return [row.message.content for row in log.rows if row.message.role == "user"]


@pytest.mark.slow
def test_verdicts_then_the_program() -> None:
    trace = repair("ldb_block", scripted(VERDICTS, program(CORRECT)))
    assert (trace.verdict.resolved, trace.stop_reason) == (True, StopReason.FINISHED)
    asked, request = said(trace)
    assert BUG.problem_statement in asked
    assert 'assert top_word("b a b a c") == "a"' in asked
    assert "AssertionError: assert 'b' == 'a'" in asked
    assert "[BLOCK-0]\n    # text='b a b a c'  stop_words=()\n    counts = Counter()\n" in asked
    assert "blocks left out" in asked
    assert "[BLOCK-9]" in asked
    assert "[BLOCK-10]" not in asked
    assert request.startswith("You found a mistake in BLOCK-8. Write the repaired program")
    assert trace.logs[0].role is Role.PATCH_CODER


@pytest.mark.slow
def test_the_conversation_goes_on_over_the_attempts() -> None:
    replies = (VERDICTS, program(WRONG), "It all looks odd.", program(CORRECT))
    trace = repair("ldb_line", scripted(*replies))
    assert trace.verdict.resolved
    [log] = trace.logs
    assert (log.patch_attempt, log.steps) == (2, 4)
    second, request = said(trace)[2:]
    assert second.startswith("The repaired program still fails.")
    assert BUG.problem_statement not in second
    assert ".lower()" not in second
    assert "[BLOCK-29]" in second
    assert request.startswith("Write the repaired program"), "no verdicts: no blocks are named"


@pytest.mark.slow
def test_malformed_verdicts_and_missing_programs_end_nothing() -> None:
    replies = ("{'block': [}", "I'd rather not.", '[{"block": null', "Still not.")
    trace = repair("ldb_function", scripted(*replies), max_patch_attempts=2)
    assert trace.failure is None
    assert trace.stop_reason is StopReason.ATTEMPT_LIMIT
    assert len(said(trace)) == 4
    assert "no fenced code block" in said(trace)[2]


@pytest.mark.slow
def test_without_a_trace_the_program_is_asked_for_at_once() -> None:
    code = f"import os\n{BUGGY}".replace("    best = None\n", "    os._exit(3)\n")
    bug = replace(BUG, files={**BUG.files, "solution.py": code.encode()})
    trace = repair("ldb_block", scripted(program(CORRECT)), instance=bug)
    assert trace.verdict.resolved
    [asked] = said(trace)
    assert "There is no execution trace of this test: the traced run ended with exit" in asked
    assert "[BLOCK-" not in asked
