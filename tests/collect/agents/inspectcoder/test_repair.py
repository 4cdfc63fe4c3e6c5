"""Whole repairs over real sandboxes and sessions, with scripted replies and with the oracle."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from collect.agents.inspectcoder.react import STATE_HEADING
from collect.errors import FailureKind
from collect.rollouts.rollout import RolloutTrace
from collect.store.messages import Message, ToolCall
from collect.store.records import Role, StopReason, ToolOutcome
from sandbox import SandboxConfig
from sandbox.debugger import StopReason as DebugStopReason
from tests.repair_bug import BUG, BUGGY, CORRECT, FAULT_LINE, repair
from tests.sandbox.image import TAG
from tests.scripted_model import ScriptedBackend

WRONG = BUGGY.replace(".lower()", "")
GOLD_LINE = "        if best is None or count > counts[best]:"


def program(code: str) -> str:
    return f"Here it is.\n\n```python\n{code}```"


def act(*calls: str, thought: str = "I look.") -> str:
    block = "\n".join(calls)
    return f"### THOUGHT\n{thought}\n### ACTION\n```\n{block}\n```"


def scripted(inspector: list[str], patch_coder: list[str]) -> ScriptedBackend:
    replies = {"inspector": inspector, "patch_coder": patch_coder}
    return ScriptedBackend(
        "m",
        {role: [Message("assistant", text) for text in texts] for role, texts in replies.items()},
    )


def observations(trace: RolloutTrace) -> list[str]:
    inspectors = [log for log in trace.logs if log.role is Role.INSPECTOR]
    return [row.message.content for row in inspectors[0].rows if row.tool_outcome is not None]


@pytest.fixture
def sandbox_config(backend: str) -> SandboxConfig:
    return SandboxConfig.model_validate({"backend": backend, "image": TAG})


@pytest.mark.parametrize("form", [pytest.param("react", marks=pytest.mark.slow), "tools"])
def test_the_oracle_inspects_tries_and_repairs(form: str, sandbox_config: SandboxConfig) -> None:
    trace = repair("inspectcoder", sandbox=sandbox_config, inspector_form=form)
    assert trace.failure is None
    assert (trace.verdict.resolved, trace.stop_reason) == (True, StopReason.FINISHED)
    inspector, coder = trace.logs
    assert (inspector.role, coder.role) == (Role.INSPECTOR, Role.PATCH_CODER)
    stops = [row.event for row in inspector.events if row.event.stop_reason]
    assert (stops[1].file, stops[1].line) == ("solution.py", FAULT_LINE)
    assert stops[1].stop_reason is DebugStopReason.BREAKPOINT
    assert inspector.actions["interact_code/modification"] >= 1
    assert inspector.actions["propose_repair"] == 1
    assert "The root cause of the bug is that" in inspector.final_answer
    assert GOLD_LINE.strip() in inspector.final_answer
    assert inspector.final_answer in coder.rows[1].message.content


def test_a_failed_patch_is_the_next_round_s_program() -> None:
    proposal = act('propose_repair("The root cause of the bug is line 14.")')
    backend = scripted([proposal], [program(WRONG)])
    trace = repair("inspectcoder", backend, max_patch_attempts=2)
    assert (trace.verdict.resolved, trace.stop_reason) == (False, StopReason.ATTEMPT_LIMIT)
    assert [log.patch_attempt for log in trace.logs] == [1, 1, 2, 2]
    second_inspector, second_coder = trace.logs[2], trace.logs[3]
    task = second_inspector.rows[1].message.content
    assert ".lower()" not in task
    assert "1. The root cause of the bug is line 14.\nThen: test_solution.py::" in task
    assert " failed: AssertionError" in task or " failed: assert " in task
    assert "19 steps left" in second_inspector.rows[0].message.content
    scratchpad = second_coder.rows[1].message.content
    assert scratchpad.index("## Code Version 1") < scratchpad.index("## Code Version 2")
    assert ".lower()" not in trace.patch.replace('-        word = word.strip(".,").lower()', "")


@pytest.mark.slow
def test_a_reply_without_a_program_counts_as_an_attempt_and_is_told() -> None:
    proposal = act('propose_repair("x")')
    backend = scripted([proposal], ["I would change line 14."])
    trace = repair("inspectcoder", backend, max_patch_attempts=2, max_reminders=0)
    assert trace.patch == ""
    assert "no fenced code block" in trace.logs[3].rows[1].message.content
    assert "## Code Version 2" not in trace.logs[3].rows[1].message.content


def test_a_patch_coder_is_reminded_of_the_program() -> None:
    proposal = act('propose_repair("x")')
    backend = scripted([proposal], ["I would change line 14.", program(WRONG)])
    trace = repair("inspectcoder", backend, max_patch_attempts=1)
    _, coder = trace.logs
    assert [row.message.role for row in coder.rows[2:]] == ["assistant", "user", "assistant"]
    assert "no fenced code block" in coder.rows[3].message.content
    assert trace.patch, "the second reply is the patch"


def test_public_tests_decide_when_to_stop_and_all_tests_the_verdict() -> None:
    shortcut = (
        'def top_word(text, stop_words=()):\n    return {"b a b a c": "a"}.get(text, "tea")\n'
    )
    code = shortcut + 'def top_words(texts):\n    return ["x", "y"]\n'
    trace = repair("simple_debugging", scripted([], [program(code)]))
    assert trace.stop_reason is StopReason.FINISHED
    assert not trace.verdict.resolved
    failed = {test.name for test in trace.verdict.tests if test.after != "passed"}
    assert failed == {"test_private.py::test_many", "test_private.py::test_nothing"}


def test_an_inspection_step_by_step() -> None:
    steps = [
        act(f"set_breakpoint({FAULT_LINE})", 'control_execution("continue")'),
        act('interact_code("print(sorted(counts.items())")', "set_breakpoint(1)"),
        act("interact_code(\"counts['a'] = 3\")", 'control_execution("continue")'),
        "I am not sure what to do.",
        act('control_execution("sideways")'),
        act('propose_repair("The root cause of the bug is that ties go to the last.")'),
    ]
    backend = scripted(steps, [program(CORRECT)])
    trace = repair("inspectcoder", backend)
    assert all(not tools for _, _, tools in backend.requests), "it acts in its text"
    assert trace.verdict.resolved
    stopped, broken, went_on, no_action, invalid = observations(trace)
    assert f"Paused at solution.py:{FAULT_LINE} in top_word (breakpoint 1)" in stopped
    assert "| if best is None or count >= counts[best]: (paused here)" in stopped
    assert "SyntaxError" in broken
    assert "1 more actions were left out" in broken
    assert "ran to its end without an exception and was started again" in went_on
    assert "test_the_first_of_several at test_solution.py:9" in went_on
    assert "no action in your response" in no_action
    assert "Input should be 'continue' or 'restart'" in invalid
    log = trace.logs[0]
    outcomes = [row.tool_outcome for row in log.rows if row.tool_outcome is not None]
    ok, error, bad = ToolOutcome.OK, ToolOutcome.ERROR, ToolOutcome.INVALID
    assert outcomes == [ok, error, ok, bad, bad]
    assert log.actions["interact_code/modification"] == 1


@pytest.mark.slow
def test_a_failing_experiment_ends_post_mortem_and_is_restarted() -> None:
    steps = [
        act('control_execution("continue")'),
        act('control_execution("continue")'),
        act('control_execution("restart")'),
        act('propose_repair("The root cause of the bug is known.")'),
    ]
    trace = repair("inspectcoder", scripted(steps, [program(CORRECT)]))
    failed, refused, again = observations(trace)
    assert "post mortem: an exception ended the run" in failed
    assert "State: post mortem, since an exception" in failed
    assert "not possible post mortem" in refused
    allowed = "control_execution restart, interact_code, set_breakpoint, propose_repair"
    assert f"The debugger now allows: {allowed}\n" in refused
    assert "test_the_first_of_several at test_solution.py:9" in again
    # The task shows the program, and the test is withheld but for the line where it stops.
    assert "Paused at test_solution.py:" in again
    assert "def test_" not in again
    assert again.count("assert top_word(") == 2, "the current line, and the stack's"


@pytest.mark.slow
def test_steps_are_shared_by_all_rounds_and_end_in_a_forced_plan() -> None:
    look = act('interact_code("print(1)")')
    backend = scripted([look, look, "The root cause is unknown."], [program(WRONG)])
    trace = repair("inspectcoder", backend, max_reasoning_steps=2)
    assert trace.stop_reason is StopReason.STEP_LIMIT
    inspector, coder = trace.logs
    assert inspector.stop_reason is StopReason.STEP_LIMIT
    assert "You have 1 step left" in observations(trace)[0]
    assert "The root cause is unknown." in coder.rows[1].message.content


@pytest.mark.slow
def test_a_changed_program_can_be_tried_to_the_end_of_the_test() -> None:
    """As the Inspector's prompt says; and the test then begins again."""
    steps = [
        act(f"interact_code({f'exec({CORRECT!r}, globals())'!r})", 'control_execution("continue")'),
        act('propose_repair("x")'),
    ]
    trace = repair("inspectcoder", scripted(steps, [program(CORRECT)]))
    told = observations(trace)[0]
    assert "The test ran to its end without an exception" in told
    assert "the files are as they were" in told
    assert "nothing that interact_code changed is left" not in told, "once is enough"


@pytest.mark.slow
def test_tools_called_in_one_message_show_the_session_s_state_once_after_the_last() -> None:
    calls = [
        ToolCall("a", "set_breakpoint", json.dumps({"line": FAULT_LINE})),
        ToolCall("b", "control_execution", json.dumps({"cmd": "continue"})),
    ]
    plan = ToolCall("c", "propose_repair", json.dumps({"plan": "x"}))
    look = ToolCall("d", "interact_code", json.dumps({"code": "print(1)"}))
    steps = ((*calls,), (look,), (plan,))
    replies = {
        "inspector": [Message("assistant", tool_calls=called) for called in steps],
        "patch_coder": [Message("assistant", program(CORRECT))],
    }
    backend = ScriptedBackend("m", replies)
    set_one, moved, looked, _ = observations(
        repair("inspectcoder", backend, inspector_form="tools")
    )
    assert STATE_HEADING not in set_one + looked
    assert f"top_word at solution.py:{FAULT_LINE}" in moved.partition(STATE_HEADING)[2]


@pytest.mark.slow
def test_a_forced_plan_may_come_as_a_call() -> None:
    call = ToolCall("c", "propose_repair", json.dumps({"plan": "The cause is line 13."}))
    replies = {
        "inspector": [Message("assistant", tool_calls=(call,))],
        "patch_coder": [Message("assistant", program(CORRECT))],
    }
    look = ToolCall("l", "interact_code", json.dumps({"code": "print(1)"}))
    replies["inspector"].insert(0, Message("assistant", "I look.", tool_calls=(look,)))
    backend = ScriptedBackend("m", replies)
    trace = repair("inspectcoder", backend, inspector_form="tools", max_reasoning_steps=1)
    assert trace.verdict.resolved
    inspector = trace.logs[0]
    assert inspector.final_answer == "The cause is line 13."
    looked, handed_on = (row.message for row in inspector.rows if row.message.role == "tool")
    assert "steps left" not in looked.content + handed_on.content, "the forced plan says it"


@pytest.mark.slow
def test_what_a_killed_test_leaves_behind_decides_nothing() -> None:
    test = """\
import os

from solution import top_word


def test_in_a_folder():
    os.mkdir("data")
    assert top_word("b a b a c") == "a"
    os.rmdir("data")
"""
    name = "test_solution.py::test_in_a_folder"
    messy = replace(
        BUG,
        files={**BUG.files, "test_solution.py": test.encode()},
        hidden_files={},
        fail_to_pass=(name,),
        pass_to_pass=(),
    )
    trace = repair("inspectcoder", instance=messy)
    assert trace.failure is None, trace.failure
    assert (trace.verdict.resolved, trace.logs[-1].patch_attempt) == (True, 1)
    assert "data" not in trace.patch


@pytest.mark.slow
def test_a_shell_s_other_files_are_no_part_of_the_patch() -> None:
    forge = "mkdir test_solution && touch conftest.py notes.txt"
    commands = [forge, "echo SUBMIT_REPAIRED_PROGRAM"]
    texts = [f"THOUGHT: x\n\n```bash\n{command}\n```" for command in commands]
    backend = scripted([], texts)
    trace = repair("swe_agent", backend, max_patch_attempts=1)
    assert (trace.patch, trace.verdict.resolved) == ("", False)


def test_a_simulated_debugger_is_a_model_and_opens_no_session() -> None:
    trace = repair("inspectcoder_no_debugger")
    roles = [log.role for log in trace.logs]
    assert roles == [Role.SIMULATOR, Role.INSPECTOR, Role.PATCH_CODER]
    assert not any(log.events for log in trace.logs)
    assert trace.logs[1].actions["set_breakpoint"] >= 1


def test_the_raw_terminal_shows_pdb_s_own_words() -> None:
    steps = [
        act(f"b solution.py:{FAULT_LINE}", "c", "p counts", "p nonsense", "!x = 1", "p x"),
        act('propose_repair("The root cause of the bug is known.")'),
    ]
    trace = repair("inspectcoder_no_inspectware", scripted(steps, [program(CORRECT)]))
    assert trace.verdict.resolved
    [seen] = observations(trace)
    assert "(Pdb)" in seen
    assert "Counter({'b': 2, 'a': 2, 'c': 1})" in seen
    assert "NameError" in seen
    assert "## PDB Session State" not in seen


@pytest.mark.slow
def test_without_inspection_prints_are_left_out() -> None:
    steps = [
        act(
            f"set_breakpoint({FAULT_LINE})",
            'control_execution("continue")',
            'interact_code("print(counts)")',
        ),
        act('interact_code("best = 5; print(best)")', 'propose_repair("x")'),
    ]
    backend = scripted(steps, [program(CORRECT)])
    trace = repair("inspectcoder_no_inspection", backend)
    assert "Refused: values can't be inspected here" in observations(trace)[0]
    assert "Counter" not in observations(trace)[0]
    prompt = backend.requests[0][1][0].content
    assert "values cannot be inspected" in prompt
    assert "order.totals" not in prompt


@pytest.mark.slow
def test_a_rewritten_program_that_hangs_is_a_failed_attempt() -> None:
    code = "def top_word(text, stop_words=()):\n    while True: pass\ndef top_words(): pass\n"
    endless = replace(BUG, pass_to_pass=(), fail_to_pass=BUG.fail_to_pass[:1])
    backend = scripted([], [program(code)])
    trace = repair(
        "simple_debugging", backend, instance=endless, test_timeout=5, max_patch_attempts=1
    )
    assert trace.failure is None, trace.failure
    assert [test.after for test in trace.verdict.tests] == ["timed_out"]


def test_a_bug_that_does_not_fail_is_the_benchmark_s_fault() -> None:
    correct = replace(BUG, files={**BUG.files, "solution.py": CORRECT.encode()})
    trace = repair("simple_debugging", scripted([], []), instance=correct)
    assert trace.failure is not None
    assert trace.failure.kind is FailureKind.INFRASTRUCTURE
    assert "all public tests pass before the repair" in trace.failure.message


@pytest.mark.slow
def test_without_a_correct_program_the_oracle_says_so() -> None:
    unknown = replace(BUG, gold_patch="")
    trace = repair("inspectcoder", instance=unknown)
    assert trace.failure is not None
    assert trace.failure.kind is FailureKind.MODEL
    assert "comes without a correct program" in trace.failure.message


@pytest.mark.slow
def test_actions_are_counted_as_json() -> None:
    trace = repair("inspectcoder")
    counts = trace.logs[0].actions
    assert json.loads(json.dumps(counts))["set_breakpoint"] >= 1
