"""Watched expressions: evaluated at a stop, or collected at many hits of a breakpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.records import DebugEvent, Hit, State, StopReason, Value

MAX_ERROR = 160
"""Characters of the error of an expression that fails."""


@dataclass(frozen=True)
class Watching:
    """Watches by the moves of a session."""

    evaluate: Callable[[str], DebugEvent]
    go_on: Callable[[float], DebugEvent]
    """Continue for some seconds at most."""
    watched_at: Callable[[DebugEvent], Iterable[str]]
    """The expressions watched at a stop."""
    limits: DebugLimits

    def shown(self, stop: DebugEvent, expressions: Iterable[str] | None = None) -> DebugEvent:
        """The stop with the values of the expressions, by default those that are watched there.

        An expression that ends the program is reported instead of the stop.
        """
        if not stop.stops_program or not stop.file:
            return stop
        values, output = list[Value](), stop.output
        for expression in self.watched_at(stop) if expressions is None else expressions:
            seen = self.evaluate(expression)
            output += seen.output
            if seen.state is State.DONE:
                note = f"this came of evaluating the watched expression {expression}"
                notes = (*stop.notes, *seen.notes, note)
                ended = replace(seen, action=stop.action, arguments=stop.arguments)
                return replace(ended, output=output, notes=notes)
            error = (seen.error or "").partition("\n")[0]
            cut = len(error) > MAX_ERROR
            failed = Value(expression, "", error[:MAX_ERROR], truncated=cut, failed=True)
            values += seen.values or [failed]
        return replace(stop, values=(*stop.values, *values), output=output)

    def collect(self, number: int, expressions: tuple[str, ...], hits: int) -> DebugEvent:
        """Continue to the `hits`-th hit of a breakpoint, past other line and function breakpoints,
        and evaluate at each. Returns the last stop, which may be another one, with the hits.
        """
        found, space = list[Hit](), self.limits.collected_chars
        output, notes = "", dict[str, None]()
        deadline = time.monotonic() + self.limits.action_timeout
        most = min(hits, self.limits.max_values)
        while True:
            stop = self.go_on(max(deadline - time.monotonic(), 0.0))
            hit = next((point for point in stop.hit if point.number == number), None)
            if hit is None and stop.stop_reason is StopReason.BREAKPOINT:
                if time.monotonic() < deadline:
                    output += stop.output
                    notes |= dict.fromkeys(stop.notes)
                    continue
                notes["the time-out passed at this other breakpoint: collect again to go on"] = None
            if hit is None or not stop.file:
                stop = self.shown(stop)
            else:
                stop = self.shown(stop, expressions or None)
            output += stop.output
            notes |= dict.fromkeys(stop.notes)
            if hit is None or not stop.file or not stop.stops_program:
                break
            chars = max(self.limits.value_chars // 4, 1)
            values = tuple(
                value
                if len(value.text) <= chars
                else replace(value, text=value.text[:chars], truncated=True)
                for value in stop.values
            )
            place = stop.file, stop.line or 0, stop.function or ""
            found.append(Hit(hit.hits, *place, values))
            stop = replace(stop, values=())
            space -= sum(len(value.text) for value in values)
            full = len(found) == most or space <= 0 or time.monotonic() > deadline
            if full and len(found) < hits:
                notes["this is as much as one answer holds: collect again to go on"] = None
            if full or stop.state is State.POST_MORTEM:
                break
        kept = output[-self.limits.output_chars :]
        return replace(
            stop,
            collected=tuple(found),
            output=kept,
            output_truncated=stop.output_truncated or kept != output,
            notes=tuple(notes),
        )
