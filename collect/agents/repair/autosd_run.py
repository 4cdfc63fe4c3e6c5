"""One of AutoSD's debugger scripts, run to the end of the test in a session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from collect.agents.repair.autosd_script import Command, DebuggerScript, Print
from collect.agents.tools import ToolReply
from collect.records import ToolOutcome
from sandbox.debugger import Action, BreakpointRequest, DebugEvent, Debugger, Launch, StopReason
from sandbox.debugger.rendering import render

ACTION = "experiment/debugger"
NOT_COVERED = "[The breakpoint line was not covered by the test.]"


@dataclass(frozen=True)
class Shown:
    """What one `p` printed at one hit."""

    expression: str
    text: str
    ok: bool


@dataclass(frozen=True)
class ScriptRun:
    """Runs to each hit of the script's breakpoints, and prints there what it asks for."""

    debugger: Debugger
    script: DebuggerScript
    solution: str
    """The file of a breakpoint that names none."""
    max_hits: int

    def observe(self, test: str) -> ToolReply:
        """Run a test under the script. The debugger's record is that of the first stop."""
        points = tuple(self._placed(point) for point in self.script.breakpoints)
        started = self.debugger.start(Launch(test, points, stop_at_entry=False))
        if started.stop_reason is not StopReason.BREAKPOINT:
            return ToolReply(_not_reached(started), ToolOutcome.ERROR, started, action=ACTION)
        event, hits, shown = started, 0, list[Shown]()
        while event.stop_reason is StopReason.BREAKPOINT and hits < self.max_hits:
            shown += self._at_hit(hits, event)
            hits += 1
            event = self.debugger.control(Action.CONTINUE)
        outcome = ToolOutcome.OK if any(each.ok for each in shown) else ToolOutcome.ERROR
        text = "\n".join([*_values(shown), *self._remarks(started, event)])
        return ToolReply(text, outcome, started, action=ACTION)

    def _placed(self, point: BreakpointRequest) -> BreakpointRequest:
        return replace(point, file=point.file or self.solution) if point.line else point

    def _at_hit(self, hit: int, stop: DebugEvent) -> Iterator[Shown]:
        for command in self.script.at_hits[min(hit, len(self.script.at_hits) - 1)]:
            shown = self._do(command)
            if shown is not None and len(self.script.breakpoints) > 1:
                shown = replace(shown, text=f"(line {stop.line}) {shown.text}")
            if shown is not None:
                yield shown

    def _do(self, command: Command) -> Shown | None:
        match command:
            case Print(expression="locals()"):
                # Evaluated as an expression it would show the module's names among them.
                return _shown_names(self.debugger.locals())
            case Print(expression=expression):
                return _shown(expression, self.debugger.evaluate(expression))
            case BreakpointRequest():
                self.debugger.set_breakpoint(self._placed(command))
            case _:
                self.debugger.control(command)
        return None

    def _remarks(self, started: DebugEvent, ended: DebugEvent) -> Iterator[str]:
        yield from (f"[Note: {note}]" for note in started.notes)
        if ended.stop_reason is StopReason.BREAKPOINT:
            yield f"[These are the first {self.max_hits} executions; there are more.]"
        elif ended.stop_reason in (StopReason.INTERRUPTED, StopReason.KILLED):
            yield _stopped(ended)


def _shown(expression: str, event: DebugEvent) -> Shown:
    if event.error_kind is not None:
        return Shown(expression, f"*** {event.error}", ok=False)
    return Shown(expression, "\n".join(value.text for value in event.values), ok=True)


def _shown_names(event: DebugEvent) -> Shown:
    if event.error_kind is not None:
        return _shown("locals()", event)
    names = ", ".join(f"{value.name!r}: {value.text}" for value in event.values)
    return Shown("locals()", f"{{{names}}}", ok=True)


def _values(shown: list[Shown]) -> Iterator[str]:
    """By expression, as AutoSD's paper shows them: the value, or a list where there were more."""
    expressions = dict.fromkeys(each.expression for each in shown)
    if not expressions:
        yield "[The test ended before the script came to what it prints.]"
    for expression in expressions:
        of_it = [each for each in shown if each.expression == expression]
        label = f"{expression}: " if len(expressions) > 1 else ""
        # What fails each time fails alike, for the expression is wrong.
        if len(of_it) == 1 or not any(each.ok for each in of_it):
            yield f"{label}{of_it[0].text}"
        else:
            values = ", ".join(each.text for each in of_it)
            yield f"{label}At each loop execution, the expression was: [{values}]"


def _not_reached(started: DebugEvent) -> str:
    if started.stop_reason is None:
        return f"[{render(started)}]"
    notes = [f"[Note: {note}]" for note in started.notes]
    if started.stop_reason in (StopReason.INTERRUPTED, StopReason.KILLED):
        return "\n".join([NOT_COVERED, _stopped(started)])
    return "\n".join([NOT_COVERED, *notes])


def _stopped(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.KILLED:
        return f"[The test did not end, and was killed: {event.error}]"
    return f"[The test did not end, and was interrupted at {event.file}:{event.line}.]"
