"""The facts of a debug session, read off its conversation."""

from __future__ import annotations

from dataclasses import replace

from collect.questions.grounding import changed_by
from collect.store.records import Conversation, Role, StopReason, ToolOutcome
from eval.qualitative.failure_modes import session_of
from sandbox.debugger import Action, Breakpoint, ErrorKind, State, Value
from sandbox.debugger import StopReason as DebugStopReason
from tests.format.sessions import Session, failed, raised, see, stop

TESTS = ["tests/test_cart.py::test"]
PATCH = (
    "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -42 +42 @@\n-        return 1\n+        return 2\n"
)


def modes(conversation: Conversation) -> list[str]:
    return list(session_of(conversation, TESTS, changed_by(PATCH)).modes)


def launched() -> Session:
    """A session that stopped at a breakpoint, and saw `rate`."""
    point = Breakpoint(1, "shop/cart.py", 42, hits=1)
    entry = stop(action=Action.START, breakpoints=(point,))
    return Session().debug(entry, test=TESTS[0]).debug(see(("rate", "0.5"), ("total", "80")))


def test_of_a_raw_terminal_only_the_answer_tells() -> None:
    held = Session().answer("`rate` is 0.75.", "rate = 0.75", "shop/cart.py:42")
    assert modes(held) == ["static_analysis", "ungrounded"]
    assert modes(replace(held, variant="inspectcoder_no_inspectware")) == ["ungrounded"]


def test_a_sound_answer() -> None:
    held = launched().answer("`rate` is 0.5.", "rate = 0.5", "shop/cart.py:42")
    assert modes(held) == []
    assert session_of(held, TESTS, changed_by(PATCH)).touched


def test_a_misread_value_is_one_that_was_seen_with_another() -> None:
    held = launched().answer("`rate` is 0.75 there.", "rate = 0.75", "shop/cart.py:42")
    assert modes(held) == ["misread_value", "ungrounded"]


def test_values_watched_at_a_stop_are_an_inspection() -> None:
    point = Breakpoint(1, "shop/cart.py", 99)
    watched = stop(values=(Value("rate", "", "0.5"),), stop_reason=DebugStopReason.STEP)
    watched = replace(watched, breakpoints=(point,))
    held = Session().debug(watched).answer("`rate` is 0.5.", "rate = 0.5", "shop/cart.py:42")
    assert modes(held) == []
    unwatched = Session().debug(replace(watched, values=())).answer("It is not reached.")
    assert modes(unwatched) == ["breakpoint_never_hit"]


def test_a_made_up_value_is_of_something_never_seen() -> None:
    held = launched().answer("`discount` is 0.75.", "discount = 0.75", "shop/cart.py:42")
    assert modes(held) == ["ungrounded"]


def test_a_session_that_never_started() -> None:
    refused = replace(failed(ErrorKind.NO_SUCH_TEST, Action.START), state=State.START)
    held = Session().debug(refused, test="x").answer("I do not know.")
    assert modes(held) == ["session_failed"]


def test_a_program_that_ends_before_any_stop() -> None:
    ended = replace(stop(action=Action.START), stop_reason=DebugStopReason.EXITED)
    assert modes(Session().debug(ended).answer("It passes.")) == ["session_failed"]


def test_a_breakpoint_that_is_never_hit() -> None:
    point = Breakpoint(1, "shop/cart.py", 99)
    entry = stop(
        "tests/test_cart.py",
        5,
        "test",
        action=Action.START,
        stop_reason=DebugStopReason.ENTRY,
        breakpoints=(point,),
    )
    assert modes(Session().debug(entry).answer("It is not reached.")) == ["breakpoint_never_hit"]
    at_entry = Session().debug(entry).debug(see(("rate", "0.5"))).answer("It is not reached.")
    assert modes(at_entry) == ["breakpoint_never_hit"]


def test_a_stop_at_an_exception_is_a_hit() -> None:
    point = Breakpoint(1, "", 0, exception="KeyError")
    entry = raised("KeyError", "'tea'", "shop/cart.py")
    held = Session().debug(replace(entry, action=Action.START, breakpoints=(point,)))
    assert modes(held.answer("A KeyError.", location="shop/cart.py:9")) == []


def test_an_answer_may_find_nothing() -> None:
    for answer, evidence, finds in (
        ("I could not establish this.", "none", False),
        ("I could not establish this.", "the line was not reached", True),
        ("`total` is 80.", "none", True),
    ):
        held = launched().answer(answer, evidence, "unknown")
        session = session_of(held, TESTS, ())
        assert (session.modes, session.finds) == ((), finds), answer


def test_reading_alone_is_static_analysis() -> None:
    held = Session().call("read_file", "  42 return rate * total", path="shop/cart.py")
    assert modes(held.answer("It multiplies.")) == ["static_analysis"]


def test_no_usable_call() -> None:
    held = Session().call("debug_start", "There is no such tool.", ToolOutcome.INVALID)
    assert modes(held.answer("It multiplies."))[0] == "unusable_calls"


def test_no_answer_block() -> None:
    held = replace(launched().answer("80"), answer=None)
    assert modes(held) == ["no_answer"]
    forced = replace(held, stop_reason=StopReason.STEP_LIMIT)
    assert modes(forced) == ["out_of_steps", "no_answer"]


def test_an_empty_answer_is_a_failed_request() -> None:
    held = launched().answer("80")
    assert modes(replace(held, final_answer=""))[0] == "subagent_error"
    assert modes(replace(held, stop_reason=StopReason.FAILURE))[0] == "subagent_error"


def test_a_plan_is_an_answer() -> None:
    plan = "The root cause is at shop/cart.py:42. To fix the bug, multiply by 3."
    held = replace(launched().answer(""), role=Role.INSPECTOR, answer=None, final_answer=plan)
    assert modes(held) == []


def test_a_main_agent_that_debugs_by_itself_answers_nobody() -> None:
    held = replace(launched().answer("`rate` is 7."), role=Role.MAIN, answer=None)
    assert not session_of(held, TESTS, []).answers
    assert modes(held) == []
