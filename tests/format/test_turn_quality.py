"""The label of each turn, from what is recorded of its calls."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from collect.store.messages import Message
from collect.store.records import Conversation, MessageRow, Role, ToolOutcome
from format.config import FormatConfig
from format.turn_quality import TurnQuality, trained_turns, turn_qualities
from sandbox.debugger import Action, DebugEvent, ErrorKind, State
from tests.format.sessions import Session, failed, see, stop

INVALID, REFUSED, ERROR = ToolOutcome.INVALID, ToolOutcome.REFUSED, ToolOutcome.ERROR


def labels(session: Session) -> list[str]:
    return [label.value for label in turn_qualities(session.answer("Done."))]


def test_a_turn_whose_model_did_not_see_everything_is_not_trained() -> None:
    conversation = Session().debug(stop()).debug(see(("n", "1")), what="locals").answer("Done.")
    rows = list(conversation.messages)
    last = max(at for at, row in enumerate(rows) if row.message.role == "assistant")
    rows[last] = replace(rows[last], elided=(3,))
    qualities = turn_qualities(replace(conversation, messages=tuple(rows)))
    assert qualities[-1] is TurnQuality.SHORTENED
    assert list(trained_turns(qualities, FormatConfig().masked_turns))[-1] is False


def test_a_reply_that_was_cut_is_not_trained() -> None:
    conversation = Session().debug(stop()).answer("Done")
    rows = list(conversation.messages)
    rows[-1] = replace(rows[-1], finish_reason="length")
    qualities = turn_qualities(replace(conversation, messages=tuple(rows)))
    assert qualities[-1] is TurnQuality.CUT
    assert list(trained_turns(qualities, FormatConfig().masked_turns)) == [True, False]


def test_what_became_of_the_calls() -> None:
    session = Session().call("debug_jump", "There is no such tool.", INVALID)
    session.debug(failed(ErrorKind.NOT_ALLOWED)).debug(failed(ErrorKind.EVALUATION))
    session.debug(stop()).debug(failed(ErrorKind.TIMEOUT, Action.CONTINUE)).debug(see(("n", "1")))
    session.debug(stop(line=50))
    assert labels(session) == [
        *("invalid", "refused", "tool_error", "recovery", "timeout", "recovery", "ok", "ok")
    ]


def test_a_failed_shell_command_timed_out_only_where_it_was_killed() -> None:
    session = Session().call(
        "bash", "0 1 2\n[killed after 120 s, the most a command may take]", ERROR, command="./run"
    )
    session.call("bash", "[killed after 3 s] said a log\n[exit code 1]", ERROR, command="cat log")
    assert labels(session) == ["timeout", "tool_error", "ok"]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (None, "repeated"),
        (see(("k", "2")), "repeated"),
        (stop(), "ok"),
        (DebugEvent(Action.RUN_CODE, "{}", State.RUNTIME), "ok"),
    ],
)
def test_a_look_again_with_no_change_between(between: DebugEvent | None, expected: str) -> None:
    session = Session().debug(stop()).debug(see(("n", "<A at 0x7f01>")), what="locals")
    if between is not None:
        session.debug(between, what="other")
    session.debug(see(("n", "<A at 0x8f02>")), what="locals")
    assert labels(session)[-2] == expected


def test_another_answer_or_other_arguments_are_no_repetition() -> None:
    session = Session().debug(see(("n", "1")), what="locals")
    session.debug(see(("n", "2")), what="locals").debug(see(("n", "2")), what="locals", frame=1)
    assert labels(session) == ["ok"] * 4


def test_going_on_is_none_and_restarting_twice_is_one() -> None:
    restart = stop(action=Action.RESTART)
    session = Session().debug(stop()).debug(stop(), action="continue")
    session.debug(restart, action="restart").debug(restart, action="restart").debug(stop())
    session.debug(restart, action="restart")
    assert labels(session) == ["ok", "ok", "ok", "repeated", "recovery", "ok", "ok"]


def test_running_the_tests_again_after_an_edit_is_no_repetition() -> None:
    session = Session()
    for name in ("bash", "bash", "edit_file", "bash"):
        session.call(name, "1 failed in 0.31 s" if name == "bash" else "Edited.", command="pytest")
    assert labels(session) == ["ok", "repeated", "recovery", "ok", "ok"]


def test_an_answer_that_was_not_enough_is_invalid() -> None:
    session = Session().debug(stop())
    session.rows.append(MessageRow(Message("assistant", "It is 5.")))
    session.say("Your answer has no well-formed block.")
    assert labels(session) == ["ok", "invalid", "ok"]
    again = replace(session.answer("Done."), role=Role.PATCH_CODER)
    assert turn_qualities(again)[1] is TurnQuality.OK


def test_actions_in_the_text_have_their_outcome_too() -> None:
    assert [label.value for label in turn_qualities(_acting_in_text())] == ["invalid", "recovery"]


def _acting_in_text() -> Conversation:
    session = Session()
    for outcome in (INVALID, ToolOutcome.OK):
        session.rows.append(MessageRow(Message("assistant", "### ACTION")))
        session.rows.append(MessageRow(Message("user", "### OBSERVATION"), tool_outcome=outcome))
    conversation = session.answer("Done.")
    messages = conversation.messages[:-1]
    return replace(conversation, role=Role.INSPECTOR, messages=messages, events=(), tools="[]")


def test_equal_arguments_are_equal_in_any_order() -> None:
    session = Session().call("grep", "No matches.", pattern="a", path="b")
    session.call("grep", "No matches.", path="b", pattern="a")
    call = session.rows[-2].message.tool_calls[0]
    assert json.loads(call.arguments) == {"path": "b", "pattern": "a"}
    assert labels(session) == ["ok", "repeated", "ok"]


def test_masked_turns_are_not_trained() -> None:
    given = (TurnQuality.OK, TurnQuality.REFUSED, TurnQuality.RECOVERY)
    assert trained_turns(given, (TurnQuality.REFUSED,)) == (True, False, True)
