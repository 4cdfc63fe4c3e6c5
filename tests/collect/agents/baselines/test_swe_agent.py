"""SWE-Agent: its form, and its rollouts in real sandboxes."""

from __future__ import annotations

import json
import time

import pytest

from collect.agents.baselines.swe_agent import SUBMIT, BashForm, observation
from collect.agents.tools import MalformedAction, ToolReply
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.rollouts.rollout import RolloutTrace
from collect.store.messages import Message
from collect.store.records import StopReason, ToolOutcome
from tests.repair_bug import repair
from tests.scripted_model import ScriptedBackend


def act(command: str) -> Message:
    return Message("assistant", f"THOUGHT: so\n\n```bash\n{command}\n```")


def play(*commands: str, attempts: int = 5, steps: int = 30) -> RolloutTrace:
    replies = [act(command) for command in commands]
    return replay(replies, attempts, steps)


def replay(replies: list[Message], attempts: int = 5, steps: int = 30) -> RolloutTrace:
    backend = ScriptedBackend("m", {"patch_coder": replies})
    return repair("swe_agent", backend, max_patch_attempts=attempts, max_shell_steps=steps)


def told(trace: RolloutTrace) -> list[str]:
    return [row.message.content for row in trace.logs[0].rows if row.message.role == "user"]


FIX = "sed -i 's/count >= counts/count > counts/' solution.py"


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("THOUGHT: t\n```bash\nls -la\n```", "ls -la"),
        ("```sh\nls\n```\nand that is all", "ls"),
        ("I saw\n```python\nx = 1\n```\nso\n```bash\nls\n```", "ls"),
        ("```bash\ncat <<'EOF' > a\n  x `y`\nEOF\n```", "cat <<'EOF' > a\n  x `y`\nEOF"),
        ("```bash\n\n```\n```bash\nls\n```", "ls"),
        ("```bash\nls\n```\nthen\n```bash\ncut", "ls"),
        ("  ```shell  \n  ls\n  ```\t\n", "ls"),
    ],
)
def test_one_command_a_reply(reply: str, command: str) -> None:
    [call] = BashForm().calls(Message("assistant", reply), 3)
    assert json.loads(call.arguments) == {"command": command}


def test_a_model_that_repeats_itself_does_not_hold_up_the_run() -> None:
    started = time.process_time()
    with pytest.raises(MalformedAction):
        BashForm().calls(Message("assistant", "```bash\n" * 100_000), 0)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "0 complete"),
        ("I am done.", "0 complete"),
        ("```\nls\n```", "0 complete"),
        ("```bash\nls\n```\n```bash\ncat a\n```", "2 complete"),
        ("```bash\ncat <<'EOF' > solution.py\nimport", "never closed"),
    ],
)
def test_any_other_number_is_a_format_error(reply: str, why: str) -> None:
    with pytest.raises(MalformedAction, match=why) as refused:
        BashForm().calls(Message("assistant", reply), 3)
    assert SUBMIT in str(refused.value)


def test_observations_give_the_return_code_and_a_bounded_output() -> None:
    assert observation(ToolReply("a\nb")) == (
        "<returncode>0</returncode>\n<output>\na\nb\n</output>"
    )
    failed = observation(ToolReply("a\n[exit code 3]", ToolOutcome.ERROR))
    assert failed == "<returncode>3</returncode>\n<output>\na\n</output>"
    killed = observation(ToolReply("[killed after 2 s]", ToolOutcome.ERROR))
    assert killed.startswith("<returncode>124</returncode>")
    assert "killed after 2 s" in killed
    printed = observation(ToolReply("[exit code 3]"))
    assert printed.startswith("<returncode>0</returncode>")
    long = observation(ToolReply("a" * 30_000 + "end"))
    assert "<warning>" in long
    assert "characters left out" in long
    assert "end\n</output>" in long
    assert len(long) < 11_000


@pytest.mark.slow
def test_a_submission_that_fails_is_told_why_and_the_conversation_goes_on() -> None:
    trace = play("nl -ba solution.py", SUBMIT, "false && echo x", FIX, SUBMIT)
    assert trace.failure is None
    assert trace.verdict.resolved
    assert trace.stop_reason is StopReason.FINISHED
    [log] = trace.logs
    assert (log.patch_attempt, log.steps, log.actions) == (2, 5, {"bash": 5})
    task, _, again, failed, fixed = told(trace)
    assert "Analyze the buggy code and test case in the given code file" in task
    assert "still fails" in again
    assert "test_the_first_of_several" in again
    assert failed.startswith("<returncode>1</returncode>")
    assert fixed.startswith("<returncode>0</returncode>")


@pytest.mark.slow
def test_only_the_submission_may_print_before_it_counts() -> None:
    prose = Message("assistant", "The program looks wrong.")
    trace = replay([prose, act(f"ls && {SUBMIT}"), act(f"{FIX}; {SUBMIT}")])
    assert trace.verdict.resolved
    [log] = trace.logs
    assert (log.steps, log.patch_attempt) == (3, 1)
    outcomes = [row.tool_outcome for row in log.rows if row.tool_outcome]
    assert outcomes == [ToolOutcome.INVALID, ToolOutcome.OK]
    assert "Format error" in told(trace)[1]


@pytest.mark.slow
def test_a_program_that_is_gone_or_no_text_is_put_back() -> None:
    trace = play(
        f"rm solution.py && {SUBMIT}",
        f"rm solution.py && mkdir solution.py && {SUBMIT}",
        f"printf '\\377' > solution.py && {SUBMIT}",
        f"{FIX} && {SUBMIT}",
    )
    assert trace.verdict.resolved
    _, gone, folder, binary = told(trace)
    assert "was deleted, or is no file any more. It was put back" in gone
    assert "It was put back" in folder
    assert "not UTF-8 text" in binary


@pytest.mark.slow
def test_tests_and_what_steers_them_are_not_its_to_change() -> None:
    hook = "def pytest_runtest_call(item):\\n    item.obj = lambda: None\\n"
    cheat = f"echo > test_solution.py; printf '{hook}' > conftest.py; {SUBMIT}"
    trace = play(cheat, cheat, attempts=2)
    assert not trace.verdict.resolved
    assert trace.stop_reason is StopReason.ATTEMPT_LIMIT
    assert "still fails" in told(trace)[1]


@pytest.mark.slow
def test_out_of_steps_the_program_as_it_stands_is_the_patch() -> None:
    trace = play("ls", "ls", FIX, "ls", steps=2)
    assert trace.verdict.resolved
    assert trace.logs[0].patch_attempt == 2


@pytest.mark.slow
def test_the_oracle_tries_candidates_until_one_passes() -> None:
    backend = OracleBackend("m", OracleConfig(backend="oracle", candidates=2))
    trace = repair("swe_agent", backend)
    assert trace.failure is None
    assert trace.verdict.resolved
    [log] = trace.logs
    assert log.steps == 5 * log.patch_attempt
