"""Describe stops, frames and values as the fields of an answer."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from .breakpoints import BreakpointTable
from .evaluation import Evaluator
from .frames import FrameAt, live_frames, qualified_name
from .own import get_ident, monotonic, sleep
from .values import Rendered, exception_text, render, type_name
from .wire import CONTROL, TICK, Interrupted, Json, Refusal
from .workspace import Workspace

SAMPLE = 0.002
"""Seconds for which threads are watched to tell running from waiting ones."""


class ThreadAt(NamedTuple):
    """One thread and its position."""

    name: str
    current: bool
    doing: str
    frames: List[FrameAt]
    """All its frames, including the debugger's and the test runner's; those of the stop are not
    here."""


def all_threads() -> List[ThreadAt]:
    """Every thread that runs Python code, the current one first."""
    before = processor_times()
    if len(before) > 1:
        sleep(SAMPLE)
    after = processor_times()
    names = {ident: thread.name for ident, thread in threading._active.items()}  # type: ignore[attr-defined]
    own = get_ident()
    found = [ThreadAt(names.get(own, str(own)), True, "stopped", [])]
    for ident, frame in sys._current_frames().items():
        if ident != own:
            busy = after.get(ident, 0.0) - before.get(ident, 0.0) > SAMPLE / 10
            name, frames = names.get(ident, f"thread {ident}"), live_frames(frame)
            at = frames[0].frame if frames else frame
            found.append(ThreadAt(name, False, doing(frame, at, busy), frames))
    return found


def processor_times() -> Dict[int, float]:
    """The processor time of each thread in seconds."""
    found = {}
    for ident in sys._current_frames():
        try:
            found[ident] = time.clock_gettime(time.pthread_getcpuclockid(ident))
        except OSError:
            continue  # the thread is ending
    return found


def doing(frame: types.FrameType, at: types.FrameType, busy: bool) -> str:
    """What a thread is doing; `at` is its innermost frame outside the debugger."""
    if in_a_stop(frame):
        return "at a breakpoint too: it is served when this thread goes on"
    if busy:
        return "running"
    return f"waiting in {qualified_name(at)}"


def in_a_stop(frame: Optional[types.FrameType]) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<stepinto session>":
            return True
        frame = frame.f_back
    return False


Items = Sequence[Tuple[str, object]]


class Describer:
    """Describes the program's state within the launch's limits."""

    def __init__(
        self, workspace: Workspace, table: BreakpointTable, evaluator: Evaluator, limits: Json
    ) -> None:
        self.workspace = workspace
        self.table = table
        self.evaluator = evaluator
        self.limits = limits

    def visible(self, frames: List[FrameAt]) -> List[FrameAt]:
        """The program's frames; if there are none, also those of a test runner."""
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
        # `current_thread` would create a record for a thread that has none.
        thread = threading._active.get(get_ident())  # type: ignore[attr-defined]
        main = threading.main_thread()
        stop: Json = {
            "reason": reason,
            "depth": len(frames),
            "thread": None if thread is main else getattr(thread, "name", str(get_ident())),
        }
        if frames:
            stop.update(self._place(frames[0]), source=self._context(frames[0]))
        if exception is not None:
            kind = type(exception)
            builtin = kind.__module__ in ("builtins", "__main__")
            name = kind.__qualname__ if builtin else kind.__module__ + "." + kind.__qualname__
            message = "<str did not end>"
            with self.evaluator.evaluating():
                message = exception_text(exception, self.evaluator.bounds)
            stop["exception"] = {"type": name, "message": message}
        if returned is not None:
            stop["return_value"] = self.values([returned])[0]
        return stop

    def native_threads(self) -> Dict[str, str]:
        """The name and the location of each thread, by the kernel's id."""
        frames, found = sys._current_frames(), {}
        # `enumerate` would take a lock that the interrupted code may hold.
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            at = self.visible(live_frames(frames.get(ident)))[:1]
            place = [" at {file}:{line} in {function}".format(**self._place(one)) for one in at]
            found[str(getattr(thread, "native_id", ident))] = thread.name + "".join(place)
        return found

    def stack(self, frames: List[FrameAt], start: Optional[int] = None) -> Json:
        """As many frames as the limits allow; a page of them if `start` is given."""
        first, limit = start or 0, self.limits["max_frames"]
        require_page(first, len(frames), "frames")
        shown = [
            dict(
                self._place(at),
                index=index,
                source=self.workspace.line(at.frame.f_code.co_filename, at.line),
            )
            for index, at in enumerate(frames[first : first + limit], first)
        ]
        more = len(frames) - first - len(shown)
        answer: Json = {"frames": shown}
        if more > 0:
            answer["notes"] = [f"{more} outer frames are not shown"]
            if start is not None:
                answer["next_start"] = first + len(shown)
        return answer

    def threads(self, stopped: List[FrameAt]) -> Json:
        """Every thread and its frames; `stopped` are those of the one that stopped."""
        every, limit = all_threads(), self.limits["max_values"]
        shown = []
        for thread in every[:limit]:
            frames = stopped if thread.current else self.visible(thread.frames)
            stack = self.stack(frames)["frames"]
            shown.append({**thread._asdict(), "frames": stack})
        left = len(every) - len(shown)
        notes = [f"{left} more threads are not shown"] if left else []
        return {"threads": shown, "notes": notes}

    def page(self, items: Items, start: int, total: int) -> Json:
        """One page of values, beginning with the `start`-th of `total`."""
        require_page(start, total, "values")
        shown = self.values(items[: self.limits["max_values"]])
        answer: Json = {"values": shown}
        if start + len(shown) < total:
            answer["next_start"] = start + len(shown)
            range_text = f"{start} to {start + len(shown) - 1}, " if start else ""
            answer["notes"] = [f"{range_text}{len(shown)} of {total} shown"]
        return answer

    def values(self, items: Items) -> List[Json]:
        return [self.value(name, value)[0] for name, value in items]

    def value(self, name: str, value: object, start: int = 0) -> Tuple[Json, Optional[int]]:
        """One value's text from its `start`-th character on, and the start of its next page."""
        kind, evaluator = type_name(type(value)), self.evaluator
        if evaluator.deadline and monotonic() > evaluator.deadline:
            return {"name": name, "type": kind, "text": "<not shown: out of time>"}, None
        shown = Rendered(f"<repr did not end within {TICK:g} s>", False, None)
        evaluator.value_started = monotonic()
        with evaluator.evaluating():
            try:
                shown = render(value, evaluator.bounds, start)
            except Interrupted:
                raise
            except BaseException as error:
                text = f"<repr raised {type_name(type(error))}>"
                shown = Rendered(text, False, None)
        evaluator.value_started = 0.0
        fields = {"name": name, "type": kind, "text": shown.text, "truncated": shown.truncated}
        return fields, shown.next_start

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


def require_page(start: int, total: int, what: str) -> None:
    """Refuse a page that begins after the end."""
    if start < 0 or (start and start >= total):
        raise Refusal(f"there are {total} {what}, so no page begins at {start}; start below that")
