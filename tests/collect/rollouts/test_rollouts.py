"""Whole rollouts over real sandboxes and debug sessions, and what interrupts them."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collect.agents import debug2fix
from collect.agents.config import AgentsConfig
from collect.agents.conversation import ConversationLog
from collect.agents.rollout_context import RoleModel
from collect.agents.subagent_task import read_subagent_task
from collect.agents.systems import SYSTEMS
from collect.benchmarks.base import Instance, TestResults
from collect.benchmarks.bundled import BundledBenchmark
from collect.code.patches import changed_lines
from collect.config import RuntimeConfig
from collect.errors import (
    ConfigError,
    ContextTooLong,
    FailureKind,
    InfrastructureFailure,
    ModelFailure,
)
from collect.models.base import (
    Completion,
    ConversationContext,
    Model,
    ModelBackend,
    Sampling,
    Usage,
)
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, RolloutTrace, run_rollout
from collect.rollouts.rows import RunIdentity
from collect.rollouts.stage import do_rollouts, look_before_collect
from collect.store.messages import Message, ToolCall, ToolSchema
from collect.store.records import SESSION_START, TASK_MESSAGE, Role, StopReason, ToolOutcome
from collect.store.run_store import RunStore
from configs.loading import RunConfig, load_config
from sandbox import Sandbox, SandboxConfig
from sandbox.debugger import StopReason as DebugStopReason
from sandbox.errors import SandboxUnavailable
from tests.repair_bug import BUG, FAILING, RepairBugs
from tests.sandbox.image import TAG
from tests.scripted_model import ScriptedBackend

ROOT = Path(__file__).resolve().parents[3]
BENCHMARK = BundledBenchmark()
INSTANCE = next(i for i in BENCHMARK.instances() if i.id == "ledgerbook__quarter_end_gain")
FAULT = "ledgerbook/rates.py"
FAULT_LINE = changed_lines(INSTANCE.gold_patch)[0].start
TEST = INSTANCE.fail_to_pass[0]
BLOCK = (
    "<debug_answer>\n**Question**: q\n**Answer**: a\n**Evidence**: e\n**Location**: l:1\n"
    "</debug_answer>"
)


@pytest.fixture
def sandbox_config(backend: str) -> SandboxConfig:
    return SandboxConfig.model_validate({"backend": backend, "image": TAG})


def rollout(
    variant: str,
    backend: ModelBackend,
    sandbox: SandboxConfig | None = None,
    agents: AgentsConfig | None = None,
) -> RolloutTrace:
    role_model = RoleModel(backend, Sampling())
    settings = RolloutSettings(
        BENCHMARK,
        sandbox or SandboxConfig(),
        agents or AgentsConfig(main_max_reminders=0),
        {"m": role_model},
        threading.Event(),
    )
    sub = "m" if SYSTEMS[variant].subagent else None
    return run_rollout(RolloutSpec(INSTANCE, variant, "m", sub, 0), settings)


def call(name: str, arguments: str = "{}", identifier: str = "c") -> Message:
    return Message("assistant", tool_calls=(ToolCall(identifier, name, arguments),))


def observations(trace: RolloutTrace, role: Role = Role.MAIN) -> list[tuple[str, ToolOutcome]]:
    return [
        (row.message.content, row.tool_outcome)
        for log in trace.logs
        if log.role is role
        for row in log.rows
        if row.tool_outcome is not None
    ]


@pytest.mark.docker
def test_a_bug_is_repaired_in_a_container(image: str) -> None:
    """Whose files, commands and tests are the container's."""
    old, new = (
        re.findall(rf"^[{sign}](?![{sign}])(.*)", INSTANCE.gold_patch, re.M) for sign in "-+"
    )
    edit = json.dumps({"path": FAULT, "old_string": old[0], "new_string": new[0]})
    replies = [
        call("bash", '{"command": "pwd"}'),
        call("edit_file", edit),
        Message("assistant", "Done."),
    ]
    sandbox = SandboxConfig(backend="docker", image=image)
    trace = rollout("baseline", ScriptedBackend("m", {"main": replies}), sandbox)
    assert trace.failure is None
    assert trace.verdict.resolved


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend", ["local", pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)
def test_the_oracle_resolves_a_bug_in_its_debugger(sandbox_config: SandboxConfig) -> None:
    backend = OracleBackend("oracle", OracleConfig(backend="oracle"))
    trace = rollout("debug2fix_tool_limit", backend, sandbox_config)
    assert trace.failure is None
    assert trace.verdict.resolved
    assert f"+++ b/{FAULT}" in trace.patch
    main, sub = trace.logs
    assert (main.role, sub.role) == (Role.MAIN, Role.DEBUG_SUBAGENT)
    assert (sub.parent_index, sub.parent_call_id) == (0, _subagent_call(main.sent()))
    stops = [row.event for row in sub.events if row.event.stop_reason]
    assert any(
        event.stop_reason is DebugStopReason.BREAKPOINT and event.file == FAULT for event in stops
    )
    assert FAULT in sub.final_answer


def _subagent_call(messages: list[Message]) -> str:
    calls = [call for message in messages for call in message.tool_calls]
    return next(call.id for call in calls if call.name == "debug_subagent")


def test_variants_differ_in_tools_and_prompt_alone() -> None:
    tools = {}
    prompts = {}
    variants = [system.name for system in debug2fix.SYSTEMS]
    for variant in variants:
        backend = ScriptedBackend("m", {"main": [Message("assistant", "Done.")]})
        assert rollout(variant, backend).stop_reason is StopReason.FINISHED
        [(_, messages, schemas)] = backend.requests
        tools[variant] = {schema["function"]["name"] for schema in schemas}
        prompts[variant] = messages[0].content
    plain = {"bash", "read_file", "grep", "edit_file"}
    debug = {"debug_start_session", "debug_control", "debug_inspect", "debug_breakpoint"}
    assert tools["baseline"] == plain
    assert tools["debug_tools_only"] == plain | debug
    assert tools["debug2fix"] == plain | {"debug_subagent"}
    assert tools["debug2fix_tool_limit"] == plain | {"debug_subagent"}
    assert all(text.startswith(prompts["baseline"]) for text in prompts.values())
    assert len(set(prompts.values())) == len(variants)


def test_the_tool_limit_refuses_every_edit_until_the_subagent_was_called(
    sandbox_config: SandboxConfig,
) -> None:
    writes = [
        call("edit_file", f'{{"path": "{FAULT}", "old_string": "x", "new_string": "y"}}'),
        call("bash", f'{{"command": "echo x >> {FAULT}"}}'),
        call("bash", f"{{\"command\": \"python -c \\\"open('{FAULT}', 'a').write('x')\\\"\"}}"),
        call("bash", f'{{"command": "sed -i s/a/b/ {FAULT}"}}'),
    ]
    look = call("bash", f'{{"command": "cat {FAULT} | head -3; python -m pytest -q | tail -1"}}')
    ask = call("debug_subagent", f'{{"question": "q", "test": "{TEST}"}}')
    backend = ScriptedBackend(
        "m",
        {
            "main": [*writes, look, ask, writes[1], Message("assistant", "Done.")],
            "debug_subagent": [Message("assistant", BLOCK)],
        },
    )
    trace = rollout("debug2fix_tool_limit", backend, sandbox_config)
    outcomes = [outcome for _, outcome in observations(trace)]
    assert outcomes == [ToolOutcome.REFUSED] * 4 + [ToolOutcome.OK] * 3
    assert trace.patch.count("\n+") == 2, "only the last write took effect"
    looked = observations(trace)[4][0]
    assert "1 failed" in looked


def test_a_subagent_out_of_steps_is_made_to_answer() -> None:
    steps = [call("list_files", identifier=str(n)) for n in range(3)]
    backend = ScriptedBackend(
        "m",
        {
            "main": [
                call("debug_subagent", f'{{"question": "q", "test": "{TEST}"}}'),
                Message("assistant", "Done."),
            ],
            "debug_subagent": [*steps, Message("assistant", BLOCK)],
        },
    )
    agents = AgentsConfig(main_max_reminders=0, sub_max_steps=3)
    sub = (trace := rollout("debug2fix", backend, agents=agents)).logs[1]
    assert (sub.steps, sub.stop_reason) == (4, StopReason.STEP_LIMIT)
    assert sub.rows[-2].message.role == "user"
    assert "used up your debugging steps" in sub.rows[-2].message.content
    assert observations(trace)[0][0] == BLOCK


@pytest.mark.parametrize(
    ("first", "second", "steps"),
    [
        pytest.param("list_files", "list_files", 3, id="equal calls"),
        pytest.param("list_files", "debug_inspect", 5, id="other calls"),
        pytest.param("debug_inspect", "no_tool", 3, id="other invalid calls"),
    ],
)
def test_a_subagent_that_gets_nowhere_is_made_to_answer(
    first: str, second: str, steps: int
) -> None:
    calls = [call(name, identifier=str(n)) for n, name in enumerate([first, second] * 2)]
    backend = ScriptedBackend(
        "m",
        {
            "main": [
                call("debug_subagent", f'{{"question": "q", "test": "{TEST}"}}'),
                Message("assistant", "Done."),
            ],
            "debug_subagent": [*calls[: steps - 1], Message("assistant", BLOCK)],
        },
    )
    agents = AgentsConfig(main_max_reminders=0, sub_max_steps=4, sub_max_repeats=2)
    sub = rollout("debug2fix", backend, agents=agents).logs[1]
    assert (sub.steps, sub.stop_reason) == (steps, StopReason.STEP_LIMIT)
    assert sub.final_answer == BLOCK


def test_a_subagent_without_the_block_is_reminded_once() -> None:
    backend = ScriptedBackend(
        "m",
        {
            "main": [
                call("debug_subagent", f'{{"question": "q", "test": "{TEST}"}}'),
                Message("assistant", "Done."),
            ],
            "debug_subagent": [Message("assistant", "x is 1")] * 2,
        },
    )
    trace = rollout("debug2fix", backend)
    roles = [row.message.role for row in trace.logs[1].rows]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert observations(trace)[0] == ("x is 1", ToolOutcome.OK)


def investigation(
    agents: AgentsConfig, *steps: Message, test: str = TEST, **asked: object
) -> ConversationLog:
    """The Debug Subagent's conversation if it makes these steps, and then answers."""
    question = json.dumps({"question": "q", "test": test, **asked})
    script = {
        "main": [call("debug_subagent", question), Message("assistant", "Done.")],
        "debug_subagent": [*steps, Message("assistant", BLOCK)],
    }
    trace = rollout("debug2fix", ScriptedBackend("m", script), agents=agents)
    assert trace.failure is None
    return trace.logs[1]


def test_a_subagent_finds_its_session_at_the_callers_lines_and_variables() -> None:
    log = investigation(
        AgentsConfig(),
        call("debug_inspect", '{"what": "locals"}', "c1"),
        call("debug_start_session", "{}", "c2"),
        path=FAULT,
        lines=[FAULT_LINE],
        variables=["1 + 1", "gone"],
    )
    task, started = log.rows[TASK_MESSAGE].message.content, log.events[0]
    assert f"Paused at {FAULT}:{FAULT_LINE} in " in task
    assert read_subagent_task(task) is not None
    assert "\nWatched:\n1 + 1 = 2  (int)\nnot available here: gone" in task
    assert [value.failed for value in started.event.values] == [False, True]
    assert (started.message_index, started.tool_call_id) == (TASK_MESSAGE, SESSION_START)
    assert (started.event.file, started.event.line) == (FAULT, FAULT_LINE)
    assert "started for you" in log.rows[0].message.content
    again = log.events[-1].event
    assert (again.file, again.stop_reason) == (TEST.partition("::")[0], DebugStopReason.ENTRY)
    assert log.actions == {"debug_inspect": 1, "debug_start_session": 1}


def test_a_session_whose_lines_are_nowhere_begins_at_the_test_and_says_so() -> None:
    task = investigation(AgentsConfig(), path="shop/none.py", lines=[3, 3])
    told = task.rows[TASK_MESSAGE].message.content
    assert f"Paused at {TEST.partition('::')[0]}" in told
    assert told.count("\nNote: breakpoint not set: there is no file shop/none.py") == 1


def test_a_session_without_lines_begins_at_the_test_and_one_that_fails_is_told_of() -> None:
    task = investigation(AgentsConfig()).rows[TASK_MESSAGE].message.content
    assert f"Paused at {TEST.partition('::')[0]}" in task
    log = investigation(
        AgentsConfig(), call("debug_inspect", '{"what": "locals"}'), test="tests/none.py::test_x"
    )
    assert "Error (no_such_test)" in log.rows[TASK_MESSAGE].message.content
    assert "Call debug_start_session first." in log.rows[3].message.content


def test_a_start_without_a_test_takes_the_last_that_there_is() -> None:
    log = investigation(
        AgentsConfig(),
        call("debug_start_session", json.dumps({"test": TEST}), "c1"),
        call("debug_start_session", '{"stop_at_test": true}', "c2"),
        test="tests/none.py::test_x",
    )
    answers = [row.message.content for row in log.rows if row.message.role == "tool"]
    assert [f"Paused at {TEST.partition('::')[0]}" in answer for answer in answers] == [True] * 2


def test_calls_in_one_message_say_where_they_looked_and_do_not_run_on_after_an_error() -> None:
    batch = [
        ("debug_inspect", {"what": "evaluate", "expression": "1 + 1"}),
        ("debug_control", {"action": "continue"}),
        ("debug_inspect", {"what": "evaluate", "expression": "1 + 2"}),
        ("debug_inspect", {"what": "evaluate", "expression": "gone"}),
        ("debug_breakpoint", {"action": "set", "location": "no_such_function"}),
        ("debug_control", {"action": "restart"}),
        ("debug_control", {"action": "continue"}),
        ("debug_breakpoint", {"action": "collect", "location": FAULT}),
        ("debug_inspect", {"what": "evaluate", "expression": "1 + 3"}),
    ]
    calls = [ToolCall(str(n), name, json.dumps(given)) for n, (name, given) in enumerate(batch)]
    message = Message("assistant", "", tool_calls=tuple(calls))
    log = investigation(AgentsConfig(), message, path=FAULT, lines=[FAULT_LINE])
    answers = [row.message.content for row in log.rows if row.message.role == "tool"]
    ended = log.events[2].event
    place = f"At {ended.file}:{ended.line} in {ended.function}:\n"
    assert answers[0] == "1 + 1 = 2  (int)"
    assert answers[2] == f"{place}1 + 2 = 3  (int)"
    assert answers[3].startswith(f"{place}Error (evaluation): NameError")
    withheld = "Not carried out, since debug_breakpoint failed before it in this message"
    assert all(answers[n].startswith(withheld) for n in (5, 6, 7))
    assert answers[8] == f"{place}1 + 3 = 4  (int)"
    assert [row.tool_outcome for row in log.rows if row.message.role == "tool"] == [
        *[ToolOutcome.OK] * 3,
        *[ToolOutcome.ERROR] * 2,
        *[ToolOutcome.REFUSED] * 3,
        ToolOutcome.OK,
    ]


def test_a_subagent_may_have_to_start_its_session_itself() -> None:
    log = investigation(AgentsConfig(start_session="model"), path=FAULT, lines=[FAULT_LINE])
    assert "Paused at" not in log.rows[TASK_MESSAGE].message.content
    assert "Start with debug_start_session" in log.rows[0].message.content
    assert not log.events


class SmallModel:
    """A model with room for so many characters, that repeats one reply until it may end."""

    name = "small"

    def __init__(self, chars: int, replies: Sequence[Message]) -> None:
        self._chars, self._replies = chars, list(replies)
        self.seen: list[list[Message]] = []

    def open(self, context: ConversationContext) -> Model:
        return self

    def close(self) -> None: ...

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        size = sum(len(each.content) for each in messages)
        if size > self._chars:
            raise ContextTooLong(f"{size} characters")
        self.seen.append(list(messages))
        return Completion(self._replies.pop(0), Usage(size // 4, 1), 0.0, 0.0, "stop")


LONG = [call("bash", f'{{"command": "seq {n}000 {n}900"}}', str(n)) for n in range(1, 7)]


@pytest.mark.parametrize(
    ("chars", "tokens"),
    [
        pytest.param(14_000, None, id="server"),
        pytest.param(10**6, 3_500, id="budget", marks=pytest.mark.slow),
    ],
)
def test_a_full_context_leaves_out_the_oldest_tool_results(chars: int, tokens: int | None) -> None:
    model = SmallModel(chars, [*LONG, Message("assistant", "Done.")])
    agents = AgentsConfig(main_context_tokens=tokens)
    trace = rollout("baseline", model, agents=agents)
    assert trace.failure is None, trace.failure
    rows = trace.logs[0].rows
    last = model.seen[-1]
    assert sum(len(each.content) for each in last) <= 14_000
    assert last[:3] == [row.message for row in rows[:3]], "prompt and task stay"
    assert "6900" in last[-1].content, "and so does the newest result"
    assert last[3].content.startswith("[a tool result of 4")
    assert "1900" in rows[3].message.content, "the record keeps it"
    left_out = [row.elided for row in rows if row.message.role == "assistant"]
    assert left_out[0] == ()
    assert 3 in left_out[-1]


@pytest.mark.slow
def test_what_does_not_fit_without_tool_results_ends_the_rollout() -> None:
    trace = rollout("baseline", SmallModel(100, []))
    assert trace.failure is not None
    assert trace.failure.type == "ContextTooLong"


@pytest.mark.parametrize("reminders", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_main_agent_that_has_done_nothing_is_reminded_once(reminders: int) -> None:
    look = call("grep", '{"pattern": "x", "path": "README.md"}')
    said = [Message("assistant", "I would call bash."), Message("assistant", "No.")]
    trace = rollout(
        "baseline",
        ScriptedBackend("m", {"main": [look, *said]}),
        agents=AgentsConfig(main_max_reminders=reminders),
    )
    assert trace.failure is None
    users = [row.message.content for row in trace.logs[0].rows if row.message.role == "user"]
    assert len(users) == 1 + reminders
    assert not reminders or "make the call itself" in users[1]


def test_a_main_agent_that_has_worked_is_not_reminded() -> None:
    script = [call("bash", '{"command": "true"}'), Message("assistant", "Done.")]
    trace = rollout("baseline", ScriptedBackend("m", {"main": script}), agents=AgentsConfig())
    assert [row.message.role for row in trace.logs[0].rows].count("user") == 1


def test_malformed_calls_never_end_a_rollout() -> None:
    backend = ScriptedBackend(
        "m",
        {
            "main": [
                call("bash", '{"command": '),
                call("no_such_tool"),
                call("read_file", '{"path": "missing.py"}'),
                call("read_file", '{"path": "/etc/passwd", "start_line": "x"}'),
                Message("assistant", "I give up."),
            ]
        },
    )
    trace = rollout("baseline", backend)
    outcomes = [outcome for _, outcome in observations(trace)]
    invalid, error = ToolOutcome.INVALID, ToolOutcome.ERROR
    assert outcomes == [invalid, invalid, error, invalid]
    assert trace.failure is None
    assert not trace.verdict.resolved


HOOK = """
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""


def run_script(script: str, sandbox: SandboxConfig | None = None) -> RolloutTrace:
    """A rollout whose agent runs one shell script and stops."""
    replies = [call("bash", json.dumps({"command": script})), Message("assistant", "Done.")]
    return rollout("baseline", ScriptedBackend("m", {"main": replies}), sandbox)


@pytest.mark.parametrize(
    "script",
    [
        f"cat >conftest.py <<'END'\n{HOOK}\nEND",
        f"cat >x.py <<'END'\n{HOOK}\nEND\nprintf '[pytest]\\naddopts = -p x\\n' >pytest.ini",
        f"sed -i 's/^def .*/    import pytest; pytest.xfail()\\n&/' {FAULT}",
        "printf 'import os\\nos._exit(0)\\n' >pytest.py",
        pytest.param(
            "echo 'import os; os._exit(0)' >>ledgerbook/__init__.py", marks=pytest.mark.slow
        ),
    ],
)
def test_no_verdict_is_made_up(script: str, sandbox_config: SandboxConfig) -> None:
    trace = run_script(script, sandbox_config)
    assert trace.failure is None
    assert not trace.verdict.resolved


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "mkdir x && cd x && for n in $(seq 120); do mkdir x && cd x; done",
            marks=pytest.mark.slow,
        ),
        "for n in $(seq 10); do yes text | head -c 1000000 >$n.txt; done",
    ],
)
def test_a_workspace_beyond_bounds_is_the_models_failure(script: str) -> None:
    trace = run_script(script)
    assert trace.failure is not None
    assert trace.failure.kind is FailureKind.MODEL
    assert trace.verdict.tests


def test_a_module_in_the_place_of_pythons_is_no_part_of_the_patch() -> None:
    trace = run_script("echo x = 1 >statistics.py; echo x = 1 >shop.py")
    assert trace.verdict.left_out == ("statistics.py",)
    assert "shop.py" in trace.patch
    assert "statistics.py" not in trace.patch


UNUSABLE = [
    ("bash", json.dumps({"command": "echo \0"})),
    ("bash", '{"command": "echo \\ud800"}'),
    ("bash", json.dumps({"command": "echo " + "x" * 200_000})),
    ("grep", json.dumps({"pattern": "x" * 200_000})),
    ("edit_file", '{"path": "x\\u0000", "old_string": "", "new_string": ""}'),
    ("edit_file", '{"path": "x.py", "old_string": "", "new_string": "\\ud800"}'),
    ("read_file", f'{{"path": "x", "start_line": {"1" * 5000}}}'),
    ("bash", "[" * 100_000),
    ("debug_start_session", json.dumps({"test": TEST, "breakpoints": ["x.py:" + "9" * 5000]})),
]


def test_arguments_that_nothing_can_be_given_are_the_models_mistakes(
    sandbox_config: SandboxConfig,
) -> None:
    calls = [call(name, arguments) for name, arguments in UNUSABLE]
    backend = ScriptedBackend("m", {"main": [*calls, Message("assistant", "Done.")]})
    trace = rollout("debug_tools_only", backend, sandbox_config)
    assert trace.failure is None
    outcomes = [outcome for _, outcome in observations(trace)]
    assert len(outcomes) == len(UNUSABLE)
    # A session starts all the same: its breakpoint is noted as one that could not be set.
    assert ToolOutcome.OK not in outcomes[:-1]


class FailingBackend:
    """Fails at a step of the main agent, after it has fixed the bug or before."""

    name = "m"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def open(self, context: ConversationContext) -> Model:
        return self

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        raise self._error

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("error", "kind", "tested"),
    [
        (ModelFailure("too long"), FailureKind.MODEL, True),
        (InfrastructureFailure("server down"), FailureKind.INFRASTRUCTURE, False),
        (ZeroDivisionError("a defect"), FailureKind.INFRASTRUCTURE, False),
    ],
)
def test_failures_are_data(error: Exception, kind: FailureKind, tested: bool) -> None:
    trace = rollout("baseline", FailingBackend(error))
    assert trace.failure is not None
    assert trace.failure.kind is kind
    assert str(error) in trace.failure.message
    assert bool(trace.verdict.tests) is tested
    assert [row.message.role for row in trace.logs[0].rows] == ["system", "user"]


def oracle_config(folder: Path, *overrides: str) -> RunConfig:
    base = [
        f"runs_folder={folder}",
        "run=test",
        "collect.benchmark.split=all",
        "collect.benchmark.limit=4",
    ]
    return load_config(ROOT / "configs" / "quickstart.yaml", [*base, *overrides])


def collect(folder: Path, *overrides: str) -> RunStore:
    from collect.rollouts.stage import run_collect

    config = oracle_config(folder, *overrides)
    run_collect(config, config.collect, config.folder)
    return RunStore(config.folder)


def test_a_second_start_does_nothing_and_other_settings_are_refused(tmp_path: Path) -> None:
    limit = "collect.benchmark.limit=1"
    first = sorted(r.started_at for r in collect(tmp_path, limit).read_rollouts())
    again = sorted(r.started_at for r in collect(tmp_path, limit).read_rollouts())
    assert len(first) == 1
    assert first == again
    told = r"other settings \(agents.sub_max_steps: was 12, is 3\); they must not be mixed"
    with pytest.raises(ConfigError, match=told):
        collect(tmp_path, limit, "agents.sub_max_steps=3")
    others = "collect.benchmark.instances=[lrustore__old_price]"
    with pytest.raises(ConfigError, match=told):
        collect(tmp_path, others, "agents.sub_max_steps=3")


def test_models_of_what_is_done_are_not_opened(tmp_path: Path) -> None:
    """A server for each of an iteration's students would not fit a GPU."""
    second = ("models.second={backend: oracle}", "collect.sub=second", "collect.benchmark.limit=1")
    collect(tmp_path, *second, "collect.variants=[debug2fix]")
    config = oracle_config(tmp_path, *second, "collect.variants=[debug2fix, baseline]")
    found = look_before_collect(config, config.collect, config.folder)
    assert [each.name for each in found if each.name.startswith("model ")] == ["model oracle"]


def test_a_relay_that_would_be_a_main_agent_is_refused_at_the_start(tmp_path: Path) -> None:
    relay = "models.relay={backend: relay, student: oracle, teacher: oracle}"
    config = oracle_config(tmp_path, relay, "collect.main=relay", "collect.benchmark.limit=1")
    with pytest.raises(ConfigError, match="the Debug Subagent alone; take another model in debug"):
        look_before_collect(config, config.collect, config.folder)


@pytest.mark.slow
def test_a_later_start_counts_the_rollouts_of_all_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collect(tmp_path, "collect.benchmark.limit=1")
    first = capsys.readouterr().err
    assert "1/1 resolved 1 (100%) tokens " in first
    collect(tmp_path, "collect.benchmark.limit=2")
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("2/2 resolved 2 (100%) tokens ")


@pytest.mark.slow
def test_killed_ten_times_it_ends_with_one_row_each(tmp_path: Path) -> None:
    variants = "collect.variants=[baseline, debug2fix_tool_limit]"
    overrides = [
        f"runs_folder={tmp_path}",
        "run=test",
        "collect.benchmark.split=all",
        "collect.benchmark.limit=4",
        "collect.attempts=2",
        variants,
    ]
    command = [sys.executable, "-m", "stepinto", "collect", "configs/quickstart.yaml", *overrides]
    chance = random.Random(7)
    for _ in range(10):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.5, 4.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    store = RunStore(tmp_path / "test")
    rows = list(store.read_rollouts())
    keys = Counter((row.instance_id, row.attempt, row.variant) for row in rows)
    assert len(keys) == 4 * 2 * 2
    assert set(keys.values()) == {1}
    held = Counter(row.rollout_id for row in store.read_conversations())
    expected = {row.rollout_id: 1 + row.sub_calls for row in rows}
    assert held == expected
    assert all(row.failure_kind is None for row in rows)


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_next_start_goes_on(tmp_path: Path) -> None:
    overrides = [f"runs_folder={tmp_path}", "run=test", "collect.benchmark.split=all"]
    command = [sys.executable, "-m", "stepinto", "collect", "configs/quickstart.yaml", *overrides]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    store = RunStore(tmp_path / "test")
    assert 1 <= len(list(store.read_rollouts())) < len(BENCHMARK.instances())
    assert not list((tmp_path / "test").rglob(".tmp-*"))
    assert not _children_left()


def _children_left() -> list[str]:
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True)
    mine = str(os.getpid())
    return [
        line
        for line in listed.stdout.splitlines()
        if "bwrap" in line and line.split(maxsplit=1)[0] == mine
    ]


def test_the_sandbox_is_tried_out_with_a_public_test(tmp_path: Path) -> None:
    tried: list[list[str]] = []

    class Recorded(RepairBugs):
        def run_tests(
            self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]
        ) -> TestResults:
            tried.append(list(tests))
            raise SandboxUnavailable("seen enough")

    bug = replace(BUG, fail_to_pass=BUG.fail_to_pass[::-1])
    assert bug.fail_to_pass[0].partition("::")[0] in bug.hidden_files
    spec = RolloutSpec(bug, "baseline", "oracle", None, 0)
    with pytest.raises(SandboxUnavailable, match="seen enough"):
        do_rollouts(RuntimeConfig(), Recorded(bug), [spec], RunIdentity("test", 0), tmp_path)
    assert tried == [[FAILING]]
