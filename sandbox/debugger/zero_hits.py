"""What "hit 0 times" means: never reached, or perhaps reached unseen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from sandbox.debugger.records import Action, Breakpoint, DebugEvent, State, StopReason

CHILD_PROCESSES = (
    "the program has started child processes, which are not debugged: a breakpoint neither stops "
    "nor counts there, so one that was hit 0 times may have been reached in one"
)
HIDDEN = (
    "another tracer, such as coverage's, or a RecursionError ended the debugger's while the "
    "program ran, and hid what ran then: a breakpoint that was hit 0 times may have been reached"
)
NOT_REACHED = "not reached in this run"
NOT_SINCE = "not reached in this run after it was set"
OR_FALSE = ", or not with a true condition"
NOT_RAISED = (
    "no such exception came to Python code of the program in this run; one that compiled code "
    "raises and handles itself is not seen"
)
NOT_UNHANDLED = "no such exception went unhandled in this run"
LISTS = (Action.START, Action.RESTART, Action.LIST_BREAKPOINTS)
"""What shows breakpoints that were not hit."""


class ZeroHits:
    """What is known in one run of breakpoints that were not hit."""

    def __init__(self) -> None:
        self.child_processes = False
        """Whether the program is known to have started some."""
        self.hidden = False
        """Whether another tracer is known to have hidden what ran."""
        self._over = False
        """Whether the program has come to its end, rather than that the debugger lost it."""
        self._from_start: Set[int] = frozenset()
        """Numbers of the breakpoints that were set before the program ran."""
        self._in_run: Set[int] = frozenset()
        """Numbers of those that were set before it ended."""
        self._unseen: dict[int, str] = {}
        """By number: why a breakpoint may miss executions of its line."""

    def learn(
        self, answer: dict[str, Any], event: DebugEvent, points: Mapping[int, dict[str, Any]]
    ) -> None:
        """Learn from an answer, after which these breakpoints are set."""
        self._unseen = {number: point.get("unseen", "") for number, point in points.items()}
        # After the program's end a number may be given again.
        self._in_run &= points.keys()
        self.child_processes |= bool(answer.get("child_processes"))
        self.hidden |= bool(answer.get("hidden"))
        if event.action in (Action.START, Action.RESTART):
            self._from_start = set(points)
        if event.stop_reason is not None:
            self._in_run = set(points)
            ended = event.stop_reason is StopReason.EXITED and event.kill_reason is None
            self._over = ended or event.state is State.POST_MORTEM

    def notes(self, event: DebugEvent, points: Iterable[Breakpoint]) -> Iterator[str]:
        """What to say of those that were not hit: each reason to doubt, or that there is none."""
        unhit = [point for point in points if not point.hits and point.number in self._in_run]
        ended = event.stop_reason is StopReason.EXITED
        failed = event.state is State.POST_MORTEM and event.stop_reason is not None
        asked = unhit and (event.action in LISTS or event.state is State.POST_MORTEM)
        if self.child_processes and (asked or ended):
            yield CHILD_PROCESSES
        if self.hidden and (asked or ended or failed):
            yield HIDDEN
        if self._over and event.action in LISTS and not (self.child_processes or self.hidden):
            yield from self._never(unhit)

    def _never(self, unhit: Iterable[Breakpoint]) -> Iterator[str]:
        """That breakpoints were not reached; those of which the same is true in one note."""
        numbers: dict[str, list[int]] = {}
        for point in unhit:
            numbers.setdefault(self._meaning(point), []).append(point.number)
        for meaning, those in numbers.items():
            named = "breakpoint" if len(those) == 1 else "breakpoints"
            yield f"{named} {', '.join(map(str, those))}: {meaning}"

    def _meaning(self, point: Breakpoint) -> str:
        if point.exception:
            return NOT_UNHANDLED if point.uncaught else NOT_RAISED
        meaning = NOT_REACHED if point.number in self._from_start else NOT_SINCE
        meaning += OR_FALSE if point.condition else ""
        unseen = self._unseen.get(point.number)
        return f"{meaning}; it {unseen}" if unseen else meaning
