"""Random actions against hostile programs, and what must hold after each of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    Launch,
    State,
    StopReason,
    open_debugger,
)
from sandbox.debugger.rendering import render
from sandbox.debugger.session import ALLOWED
from tests.debugger_sessions import descendants, ended
from tests.interpreters import Interpreter

HOSTILE = Path(__file__).parent / "hostile"
LIMITS = DebugLimits(start_timeout=60, action_timeout=0.5, watch_timeout=0.5, interrupt_grace=4)
SLACK = 10.0
"""Seconds above the deadlines that a busy machine may take."""
LAUNCHING = (Action.START, Action.RESTART)
RUNNING = (
    Action.CONTINUE,
    Action.COLLECT,
    Action.STEP_OVER,
    Action.STEP_INTO,
    Action.STEP_OUT,
    *LAUNCHING,
)
UNCHANGED = (ErrorKind.NOT_ALLOWED, ErrorKind.BAD_REQUEST, ErrorKind.EVALUATION)
TRIES = 3
OWN_MARKS = 60
"""Characters that a cut may add to a text at its limit."""


@dataclass(frozen=True)
class Language:
    """What the fuzzer throws at the programs of one language."""

    name: str
    suffix: str
    programs: Mapping[str, str]
    """Text of each hostile program, by name."""
    expressions: tuple[str, ...]
    snippets: tuple[str, ...]
    functions: tuple[str, ...]
    exceptions: tuple[str, ...]
    interpreter: Interpreter | None = None


def load_programs(language: str, suffix: str) -> dict[str, str]:
    """The hostile programs of a language."""
    files = sorted((HOSTILE / language).glob(f"*{suffix}"))
    return {path.name: path.read_text("utf-8") for path in files}


@dataclass
class Fuzzed:
    """One session under random actions, checked after each."""

    language: Language
    program: str
    actions: int = 0
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = descendants()
        found = self.language.interpreter
        config = SandboxConfig(
            python=found.path if found else None,
            readable_paths=found.readable_paths if found else (),
            memory_mb=2048,
        )
        self.sandbox = open_sandbox(config)
        self.text = self.language.programs[self.program]
        self.sandbox.write_files({self.program: self.text.encode()})
        self.debugger = open_debugger(self.language.name, self.sandbox, LIMITS)

    @property
    def paused(self) -> bool:
        """Whether the program can run on."""
        return self.debugger.state in (State.RUNTIME, State.RUNTIME_ERROR)

    @property
    def frames(self) -> bool:
        """Whether there is something to look at."""
        return self.paused or self.debugger.state is State.POST_MORTEM

    def start(self, points: tuple[BreakpointRequest, ...], stop_at_entry: bool) -> DebugEvent:
        self.sandbox.write_files({self.program: self.text.encode()})
        target = self.program.removesuffix(".java")
        launch = Launch(target, points, stop_at_entry=stop_at_entry, stdin="one\ntwo\n")
        return self.checked(Action.START, lambda: self.debugger.start(launch))

    def checked(self, action: Action, act: Callable[[], DebugEvent], **asked: object) -> DebugEvent:
        """Do one action, and hold its answer against everything that is promised."""
        before, began = self.debugger.state, time.monotonic()
        event = act()
        seconds = time.monotonic() - began
        self.actions += 1
        told = event.error if event.stop_reason is StopReason.KILLED else ""
        self.trace.append(f"{before} {action} {asked} -> {event.state} {event.stop_reason} {told}")
        try:
            self._check(event, action, before, seconds, asked)
        except AssertionError as error:
            told = "\n".join(self.trace[-30:])
            raise AssertionError(f"{error}\n{self.program}:\n{told}\n{event}") from error
        return event

    def _check(
        self,
        event: DebugEvent,
        action: Action,
        before: State,
        seconds: float,
        asked: Mapping[str, object],
    ) -> None:
        assert event.action is action, "the answer to another action"
        given = json.loads(event.arguments)
        assert all(given.get(name) == value for name, value in asked.items()), "other arguments"
        assert event.state is self.debugger.state
        allowed_time = LIMITS.start_timeout if action in LAUNCHING else LIMITS.action_timeout
        assert seconds < allowed_time + LIMITS.interrupt_grace + SLACK, f"took {seconds:.1f} s"
        check_transition(event, before)
        check_bounds(event)
        check_place(event, self.program, self.text)
        check_text(event)

    def synchronised(self, token: int) -> None:
        """The next answer is the answer to the next question."""
        if not self.frames:
            return
        # A busy machine may not answer in time; no question's answer is another's.
        for number in range(token * TRIES, (token + 1) * TRIES):
            expression = f"{number} + 1"
            event = self.checked(
                Action.EVALUATE, partial(self.debugger.evaluate, expression), expression=expression
            )
            if event.error_kind is not ErrorKind.TIMEOUT or event.state is State.DONE:
                break
        if event.error_kind is None:
            assert event.values[0].text == str(number + 1), f"desynchronised: {event}"
        else:
            told = f"{event.error_kind}: {event.error}"
            assert event.state is State.DONE or "no frame" in (event.error or ""), told

    def close(self) -> None:
        """End the session and its sandbox; nothing may be left running."""
        self.debugger.close()
        self.sandbox.close()
        assert ended(lambda: descendants() - self._before), "processes are left behind"


def check_transition(event: DebugEvent, before: State) -> None:
    """What the state machine promises (InspectCoder, section 2.5.1)."""
    allowed = Action.CONTINUE if event.action is Action.COLLECT else event.action
    if allowed not in ALLOWED[before]:
        assert event.error_kind is ErrorKind.NOT_ALLOWED
        assert event.allowed == ALLOWED[before]
    else:
        assert event.error_kind is not ErrorKind.NOT_ALLOWED
    if event.error_kind in UNCHANGED and event.action not in LAUNCHING:
        assert event.state is before
        assert event.stop_reason is None
    ended_in_inspection = event.state is State.DONE and event.stop_reason is not None
    if event.action not in RUNNING and not ended_in_inspection:
        assert event.state is before
        assert event.stop_reason is None
    if event.state is State.DONE and before is not State.DONE:
        assert event.stop_reason in (StopReason.EXITED, StopReason.KILLED)
        assert event.exit_code is not None or event.kill_reason is not None
    not_set = event.action is Action.COLLECT and event.error_kind is ErrorKind.BAD_REQUEST
    if event.action in RUNNING and event.error_kind is not ErrorKind.NOT_ALLOWED and not not_set:
        assert event.stop_reason is not None, f"{event.error_kind}: {event.error}"


def check_bounds(event: DebugEvent) -> None:
    """Nothing is longer than the limits."""
    assert len(event.output) <= LIMITS.output_chars + 2 * OWN_MARKS
    assert len(event.values) <= LIMITS.max_values
    assert len(event.frames) <= LIMITS.max_frames
    assert len(event.error or "") <= 10_000
    collected = [value for hit in event.collected for value in hit.values]
    for value in (*event.values, *collected):
        assert len(value.text) <= LIMITS.value_chars + OWN_MARKS, len(value.text)


def check_place(event: DebugEvent, program: str, text: str) -> None:
    """A stop is where it says."""
    if event.file != program or event.stop_reason in (StopReason.EXITED, StopReason.KILLED):
        return
    assert event.line is not None
    assert event.line > 0
    assert event.function
    marked = [line for line in event.source if line.startswith("->")]
    assert len(marked) == 1, event.source
    lines = text.splitlines()
    if event.line <= len(lines) and "__file__" not in text:
        assert lines[event.line - 1].strip() in marked[0]


def check_text(event: DebugEvent) -> None:
    """No value can be taken for the debugger's own words."""
    rendered = render(event)
    assert rendered or event.action is Action.EVALUATE
    for value in (*event.values, *(each for hit in event.collected for each in hit.values)):
        assert "\x1b" not in value.text
        assert "\r" not in value.text
    own = [line for line in rendered.splitlines()[1:] if line.startswith("Paused at")]
    assert not own, own
