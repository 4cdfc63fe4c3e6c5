"""Stops, frames and values as the fields of an answer."""

from __future__ import annotations

import sys
import threading
import time
from typing import Dict, List, Optional, Sequence, Tuple

from .breakpoints import BreakpointTable
from .evaluation import Evaluator
from .frames import FrameAt, live_frames, qualified_name
from .values import ValueText, exception_text, type_name
from .wire import CONTROL, TICK, Interrupted, Json
from .workspace import Workspace

Items = Sequence[Tuple[str, object]]


class Describer:
    """Puts what the program holds into words, within the launch's limits."""

    def __init__(
        self, workspace: Workspace, table: BreakpointTable, evaluator: Evaluator, limits: Json
    ) -> None:
        self.workspace = workspace
        self.table = table
        self.evaluator = evaluator
        self.limits = limits

    def visible(self, frames: List[FrameAt]) -> List[FrameAt]:
        """The frames of the program; where there is none, also those of a test runner."""
        shown = [at for at in frames if not self.workspace.internal(at.frame.f_code.co_filename)]
        return shown or [
            at for at in frames if not at.frame.f_code.co_filename.startswith("<stepinto")
        ]

    def stop(
        self,
        frames: List[FrameAt],
        reason: str,
        exception: Optional[BaseException],
        returned: Optional[Tuple[str, object]],
    ) -> Json:
        thread = threading.current_thread()
        stop: Json = {
            "reason": reason,
            "depth": len(frames),
            "thread": None if thread is threading.main_thread() else thread.name,
        }
        if frames:
            stop.update(self._place(frames[0]), source=self._context(frames[0]))
        if exception is not None:
            stop["exception"] = self._exception(exception)
        if returned is not None:
            stop["return_value"] = self.values([returned])[0]
        return stop

    def native_threads(self) -> Dict[str, str]:
        """The name and the place of each thread, by the kernel's id of it."""
        frames, found = sys._current_frames(), {}
        # Not by `enumerate`: its lock may be held by what this interrupts.
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            at = self.visible(live_frames(frames.get(ident), None))[:1]
            place = [" at {file}:{line} in {function}".format(**self._place(one)) for one in at]
            found[str(getattr(thread, "native_id", ident))] = thread.name + "".join(place)
        return found

    def stack(self, frames: List[FrameAt]) -> Json:
        limit = self.limits["max_frames"]
        shown = [
            dict(
                self._place(at),
                index=index,
                source=self.workspace.line(at.frame.f_code.co_filename, at.line),
            )
            for index, at in enumerate(frames[:limit])
        ]
        more = len(frames) - limit
        return {
            "frames": shown,
            "notes": [f"{more} outer frames are not shown"] if more > 0 else [],
        }

    def bounded(self, items: Items, total: Optional[int] = None) -> Json:
        """As many values as the limits allow, and a note where there are more."""
        limit = self.limits["max_values"]
        total = len(items) if total is None else total
        notes = []
        if total > min(limit, len(items)):
            notes.append(f"{min(limit, len(items))} of {total} shown")
        return {"values": self.values(items[:limit]), "notes": notes}

    def values(self, items: Items) -> List[Json]:
        return [self._value(name, value) for name, value in items]

    def _value(self, name: str, value: object) -> Json:
        kind, evaluator = type_name(type(value)), self.evaluator
        if evaluator.deadline and time.monotonic() > evaluator.deadline:
            return {"name": name, "type": kind, "text": "<not shown: out of time>"}
        text, truncated = f"<repr did not end within {TICK:g} s>", False
        evaluator.value_started = time.monotonic()
        with evaluator.evaluating():
            try:
                text, truncated = ValueText(self.limits["value_chars"]).render(value)
            except Interrupted:
                raise
            except BaseException as error:
                text = f"<repr raised {type(error).__qualname__}>"
        evaluator.value_started = 0.0
        return {"name": name, "type": kind, "text": text, "truncated": truncated}

    def _exception(self, error: BaseException) -> Json:
        kind = type(error)
        builtin = kind.__module__ in ("builtins", "__main__")
        name = kind.__qualname__ if builtin else kind.__module__ + "." + kind.__qualname__
        message = "<str did not end>"
        with self.evaluator.evaluating():
            message = exception_text(error, self.limits["value_chars"])
        return {"type": name, "message": message}

    def _place(self, at: FrameAt) -> Json:
        code = at.frame.f_code
        return {
            "file": self.workspace.relative(code.co_filename),
            "line": at.line,
            "function": qualified_name(at.frame),
        }

    def _context(self, at: FrameAt) -> List[str]:
        """Numbered lines around a stop: `->` marks the current one, `*` a breakpoint."""
        filename = at.frame.f_code.co_filename
        lines = self.workspace.text(filename)
        watched = self.table.lines(self.workspace.canonical(filename))
        around = self.limits["context_lines"]
        shown = range(max(at.line - around, 1), min(at.line + around, len(lines)) + 1)
        return [
            "{:2} {:1} {:5}  {}".format(
                "->" if number == at.line else "",
                "*" if number in watched else "",
                number,
                lines[number - 1][:200].translate(CONTROL),
            ).rstrip()
            for number in shown
        ]
