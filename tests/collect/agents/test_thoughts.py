"""What an agent thinks is no answer and no action, wherever its server leaves it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collect.agents.baselines.autosd import ScientificForm
from collect.agents.baselines.swe_agent import BashForm
from collect.agents.conversation import ConversationLog
from collect.agents.inspectcoder.react import ReactForm
from collect.agents.subagent_task import parse_answer
from collect.agents.tools import TextForm
from collect.store.messages import Message
from collect.store.records import MODEL_TEACHER, Role

BLOCK = "<debug_answer>\n**Answer**: {}\n**Evidence**: n = 7\n**Location**: a.py:3\n</debug_answer>"


def log_of(text: str) -> ConversationLog:
    log = ConversationLog(0, Role.DEBUG_SUBAGENT, "small", MODEL_TEACHER, "{}", [])
    log.add(Message("assistant", text))
    return log


def test_a_draft_is_no_answer() -> None:
    draft, answer = BLOCK.format("Perhaps 5."), BLOCK.format("It is 7.")
    log = log_of(f"<think>\n{draft}\n</think>\n\n{answer}")
    assert log.final_answer == answer
    thinking_alone = log_of(f"<think>\n{draft}\n</think>\n\nI go on.")
    assert parse_answer(thinking_alone.final_answer) is None
    assert log.rows[0].message.content.startswith("<think>"), "the record has it as it came"


@pytest.mark.parametrize(
    ("form", "action"),
    [
        (ReactForm, '### ACTION\n```\ninteract_code("{}")\n```'),
        (BashForm, "```bash\n{}\n```"),
        (ScientificForm, "Experiment: `{}`\n"),
    ],
)
def test_a_draft_is_no_action(form: Callable[[], TextForm], action: str) -> None:
    text = f"{action.format('print(1)')}\n</think>\n\n{action.format('print(2)')}"
    (call,) = form().calls(Message("assistant", text), 1)
    assert "print(2)" in call.arguments
