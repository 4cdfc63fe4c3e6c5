"""The records of a debug session, the same for every language and stored unchanged, and its limits.

The states are InspectWare's (InspectCoder, section 2.5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class State(StrEnum):
    """The state of a session, which determines the allowed actions."""

    START = "start"
    """Nothing launched yet."""
    RUNTIME = "runtime"
    """Paused before a line of the running program."""
    RUNTIME_ERROR = "runtime_error"
    """Paused at an exception that was just raised; the program can go on."""
    POST_MORTEM = "post_mortem"
    """An exception ended the test or program; its frames can be read, but nothing can run on."""
    DONE = "done"
    """The program is gone."""


class StopReason(StrEnum):
    """Why the program last stopped."""

    ENTRY = "entry"
    """At the start of the test function or script."""
    BREAKPOINT = "breakpoint"
    """At one, or if none was hit after a call of a debugger in the code, such as `breakpoint()`."""
    STEP = "step"
    EXCEPTION = "exception"
    """An exception was raised, or has ended the test."""
    INTERRUPTED = "interrupted"
    """The time-out passed; the event shows where the program was."""
    EXITED = "exited"
    """The program ended by itself."""
    KILLED = "killed"
    """The session had to be ended; `DebugEvent.error` gives the reason."""


class Action(StrEnum):
    """All actions of a session."""

    START = "start"
    CONTINUE = "continue"
    COLLECT = "collect"
    """Continue past the hits of a breakpoint, and record expressions at each."""
    STEP_OVER = "step_over"
    STEP_INTO = "step_into"
    STEP_OUT = "step_out"
    RESTART = "restart"
    LOCALS = "locals"
    EVALUATE = "evaluate"
    STACK = "stack"
    THREADS = "threads"
    FIELDS = "fields"
    RUN_CODE = "run_code"
    SET_BREAKPOINT = "set_breakpoint"
    REMOVE_BREAKPOINT = "remove_breakpoint"
    LIST_BREAKPOINTS = "list_breakpoints"
    RAW = "raw"
    """A line typed into the debugger's own terminal, if the session has one."""
    CLOSE = "close"


CONTROL_ACTIONS = (Action.CONTINUE, Action.STEP_OVER, Action.STEP_INTO, Action.STEP_OUT)


class ErrorKind(StrEnum):
    """Why an action was not carried out, or how a session was lost."""

    NOT_ALLOWED = "not_allowed"
    """The state forbids the action; nothing changed."""
    BAD_REQUEST = "bad_request"
    """No such frame, file, line, function, test or breakpoint; nothing changed."""
    EVALUATION = "evaluation"
    """The expression or code raised; the program has not moved."""
    LAUNCH_FAILED = "launch_failed"
    """The test could not be collected or the program could not be started."""
    BUILD_FAILED = "build_failed"
    """The program does not compile; the message holds the compiler's errors."""
    NO_SUCH_TEST = "no_such_test"
    """The launch names no test that exists; the message names the nearest."""
    TIMEOUT = "timeout"
    """The action ran past its time-out and was interrupted; the session goes on."""
    UNRESPONSIVE = "unresponsive"
    """The interrupt went unanswered too, or the debugger was lost, so the program was killed."""
    CRASHED = "crashed"
    """A signal killed the interpreter."""


class KillReason(StrEnum):
    """Why a program was interrupted, killed or lost."""

    ENDLESS_LOOP = "endless_loop"
    """Busy in the program's own code."""
    WAITING_FOR_STDIN = "waiting_for_stdin"
    DEADLOCK = "deadlock"
    """All threads wait for a lock or for each other."""
    NATIVE_CODE = "native_code"
    """Busy or blocked in native code, a system call or a sleep, which no interrupt reaches."""
    EXITED = "exited"
    """The program ended, or closed the debugger's link, before it answered."""
    CRASHED = "crashed"
    """A signal killed the interpreter."""
    OUT_OF_MEMORY = "out_of_memory"
    INTERFERENCE = "interference"
    """The program answered in the debugger's place, or broke the debugger in its process."""


@dataclass(frozen=True)
class Frame:
    """One stack frame, index 0 the innermost."""

    index: int
    file: str
    """Relative to the workspace if below it, otherwise absolute."""
    line: int
    """1-based."""
    function: str
    source: str
    """The line's text without indentation; empty if there is no source."""


@dataclass(frozen=True)
class Value:
    """One rendered value."""

    name: str
    type: str
    text: str
    """Its representation, bounded in size."""
    truncated: bool = False
    """Whether `text` was cut."""
    failed: bool = False
    """Whether the expression raised, or could not be evaluated: `text` is then its error."""


@dataclass(frozen=True)
class Hit:
    """One hit of a breakpoint, and the values collected there."""

    number: int
    """Which hit of the breakpoint it is, from 1."""
    file: str
    line: int
    function: str
    values: tuple[Value, ...]
    """Before the line ran."""


@dataclass(frozen=True)
class ThreadStack:
    """A thread of the program and its stack."""

    name: str
    current: bool
    """Whether it is the stopped thread, which the other actions look at."""
    doing: str
    """running, waiting, blocked on a lock ..., in the debugger's words; empty if unknown."""
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Breakpoint:
    """One breakpoint: on a line, a function or an exception."""

    number: int
    file: str
    """Empty for an exception breakpoint."""
    line: int
    """The actual one: the first executable line from the requested one on; 0 for an exception."""
    function: str | None = None
    """Set for a function breakpoint."""
    condition: str | None = None
    temporary: bool = False
    """Removes itself once hit."""
    hits: int = 0
    exception: str | None = None
    """Set for an exception breakpoint: the exception's class."""
    uncaught: bool = False
    """For an exception breakpoint: stop only if nothing in the program handles the exception."""
    pending: bool = False
    """Its class is not loaded yet (Java); it is bound on loading."""
    watch: tuple[str, ...] = ()
    """Expressions that are evaluated at each of its stops."""


@dataclass(frozen=True)
class RelatedException:
    """A cause of an exception, or a member of a group, in the tree of these."""

    relation: str
    """In the debugger's words: `caused by`, `member 2 of 3`, `suppressed`."""
    depth: int
    """1 for one that belongs to the exception itself, 2 for one that belongs to that."""
    type: str
    message: str
    """Its first line, bounded."""
    notes: tuple[str, ...] = ()
    file: str | None = None
    """Its innermost frame, in Java the one that created it; None if it was not raised."""
    line: int | None = None
    function: str | None = None
    frame: int | None = None
    """The index of that frame, which its callers follow; None in Java, where it has ended."""


@dataclass(frozen=True)
class ExceptionInfo:
    """An exception that was raised."""

    type: str
    message: str
    notes: tuple[str, ...] = ()
    """What the program has added to it (`add_note`)."""
    related: tuple[RelatedException, ...] = ()
    """The tree of its causes and members, in reading order; of a large one the first and last."""
    unlisted: int = 0
    """How many of the tree are left out before the last."""


@dataclass(frozen=True)
class BreakpointRequest:
    """A breakpoint to set: a file and a line, a function (`name`, `Class.name`, `file:name`), or an
    exception."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    condition: str | None = None
    """An expression of the program's language. The condition of an exception breakpoint
    sees the exception as `__exception__`."""
    temporary: bool = False
    exception: str | None = None
    """An exception's class, including its subclasses: `KeyError`, `java.io.IOException`."""
    uncaught: bool = False
    """With `exception`: stop only if nothing in the program handles it."""
    watch: tuple[str, ...] = ()
    """Expressions to evaluate at each of its stops."""


@dataclass(frozen=True)
class Launch:
    """A program to debug, with its first breakpoints."""

    test: str
    """Python: a pytest node id, a unittest name (`pkg.module.Class.method`), a script with
    arguments, or the command that runs one of these. Java: a test (`pkg.Class#method` or
    `pkg.Class`; `pkg.Class#method[3]` for one of its invocations), or a main class with
    arguments."""
    breakpoints: tuple[BreakpointRequest, ...] = ()
    stop_at_entry: bool = True
    """Stop at the first line of the test function, or of the script."""
    stdin: str = ""
    """The program's standard input."""
    watch: tuple[str, ...] = ()
    """Expressions to evaluate at every stop of the session."""


@dataclass(frozen=True)
class DebugEvent:
    """The answer to one action: the request, the result, and what was seen.

    An event with an `error` of kind not_allowed, bad_request or evaluation changed nothing.
    """

    action: Action
    arguments: str
    """The request's arguments as a JSON object."""
    state: State
    """After the action."""
    stop_reason: StopReason | None = None
    """Set if the program stopped or ended during this action."""
    file: str | None = None
    line: int | None = None
    function: str | None = None
    depth: int | None = None
    """Number of the program's frames, without debugger and test runner; 1 is the outermost."""
    thread: str | None = None
    exception: ExceptionInfo | None = None
    return_value: Value | None = None
    """The return value of the function that a step just left."""
    exit_code: int | None = None
    """The program's exit code, if it ended."""
    output: str = ""
    """The program's output since the last stop, bounded."""
    output_truncated: bool = False
    frames: tuple[Frame, ...] = ()
    values: tuple[Value, ...] = ()
    """What an inspection found, or the watched expressions at a stop."""
    collected: tuple[Hit, ...] = ()
    """The hits that the action `collect` passed, and the last, if the program stays there."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """After a breakpoint action or a start all breakpoints; after a stop those that were hit."""
    threads: tuple[ThreadStack, ...] = ()
    """All threads, the current one first, after the action `threads`."""
    next_start: int | None = None
    """Start of an inspection's next page; None if all was shown."""
    source: tuple[str, ...] = ()
    """Numbered lines around the stop, the current one marked."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader: a breakpoint that was moved, the nearest valid names ..."""
    error_kind: ErrorKind | None = None
    error: str | None = None
    kill_reason: KillReason | None = None
    """Why the program was interrupted, killed or lost, if it was."""
    allowed: tuple[Action, ...] = ()
    """The actions that the state allows, if the action was refused."""
    seconds: float = 0.0

    @property
    def stops_program(self) -> bool:
        """Whether the program stopped, so that it has frames to inspect, rather than ended."""
        return self.stop_reason not in (None, StopReason.EXITED, StopReason.KILLED)

    @property
    def hit(self) -> tuple[Breakpoint, ...]:
        """The breakpoints at which it stopped. A start lists all, including those not hit and those
        that other threads have reached; an overloaded function's may be at several lines."""
        entry = self.stop_reason is StopReason.ENTRY
        if not entry and self.stop_reason not in (StopReason.BREAKPOINT, StopReason.EXCEPTION):
            return ()
        if self.action not in (Action.START, Action.RESTART):
            return self.breakpoints
        hit = tuple(point for point in self.breakpoints if point.hits)
        here = tuple(point for point in hit if (point.file, point.line) == (self.file, self.line))
        return here if entry else here or hit


@dataclass(frozen=True)
class Snapshot:
    """The session's whole state between two actions (InspectCoder, listing 3)."""

    state: State
    frames: tuple[Frame, ...] = ()
    """Index 0 the innermost, if the program is paused."""
    breakpoints: tuple[Breakpoint, ...] = ()


@dataclass(frozen=True)
class DebugLimits:
    """Bounds of a session. Times are in seconds, sizes in characters."""

    start_timeout: PositiveFloat = 60.0
    """Seconds from the launch to the first stop or the end."""
    build_timeout: PositiveFloat = 300.0
    """Seconds for a build tool (Maven, Gradle, a compiler), before the launch."""
    action_timeout: PositiveFloat = 30.0
    """Seconds of one action, after which the program is interrupted."""
    watch_timeout: PositiveFloat = 3.0
    """Seconds of one watched expression."""
    interrupt_grace: NonNegativeFloat = 3.0
    """Seconds in which an interrupted program must show where it is."""
    value_chars: PositiveInt = 600
    """Characters of one value."""
    value_depth: PositiveInt = 6
    """Nesting of containers."""
    value_items: PositiveInt = 100
    """Items per container."""
    value_lines: PositiveInt = 40
    """Lines of one value."""
    output_chars: PositiveInt = 4_000
    """Characters of the program's output since the last answer; the end is kept."""
    max_frames: PositiveInt = 40
    """Frames of one stack."""
    max_values: PositiveInt = 60
    """Variables, items or threads in one answer, which says where the next ones begin."""
    collected_chars: PositiveInt = 6_000
    """Characters of the values that one action collects; a value has at most a quarter of
    `value_chars`."""
    context_lines: NonNegativeInt = 4
    """Source lines shown above and below a stop."""
