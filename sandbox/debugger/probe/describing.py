"""Describe the program's state: stops, frames, threads and values, within limits."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import TYPE_CHECKING, NamedTuple, Sequence

from .awaiting import waiting_task
from .causes import Raised, on_one_line, split_compiled
from .interpreter import (
    FrameAt,
    forget_locals,
    live_frames,
    qualified_name,
)
from .own import get_ident, monotonic, sleep
from .unhandled import thread_name, thread_names
from .values import Field, Rendered, render, type_name
from .wire import CONTROL, TICK, Interrupted, Json, Refusal

if TYPE_CHECKING:
    from .session import Session

SAMPLE = 0.002
"""Seconds for which threads are watched to tell running from waiting ones."""


LEFT = "before: an exception has left these frames"
"""What a thread is doing that has raised the exception of a stop and gone on."""


class ThreadAt(NamedTuple):
    """One thread and its position."""

    name: str
    current: bool
    doing: str
    frames: list[FrameAt]
    """All its frames, with the debugger's and the test runner's, but not those of the stop."""


def all_threads() -> list[ThreadAt]:
    """Every thread that runs Python code, the current one first."""
    before = processor_times()
    if len(before) > 1:
        sleep(SAMPLE)
    after = processor_times()
    names, own = thread_names(), get_ident()
    found = [ThreadAt(names.get(own, str(own)), True, "stopped", [])]
    for ident, frame in sys._current_frames().items():
        if ident != own:
            busy = after.get(ident, 0.0) - before.get(ident, 0.0) > SAMPLE / 10
            name, frames = names.get(ident, f"thread {ident}"), live_frames(frame)
            at = frames[0].frame if frames else frame
            found.append(ThreadAt(name, False, doing(frame, at, busy), frames))
    return found


def processor_times() -> dict[int, float]:
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


def in_a_stop(frame: types.FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<stepinto session>":
            return True
        frame = frame.f_back
    return False


class Describer:
    """Describes the program's state within the launch's limits."""

    def __init__(self, session: Session, limits: Json) -> None:
        self.workspace, self.table = session.workspace, session.table
        self.evaluator, self.limits = session.evaluator, limits
        self.read: set[int] = set()
        """The ids of the frames whose variables were read at this stop."""

    def forget(self, frames: list[FrameAt], stopped: types.FrameType | None) -> None:
        """Let go of the variables that were read, as the program goes on."""
        for at in frames:
            if id(at.frame) in self.read:
                forget_locals(at.frame, at.frame is stopped)
        self.read = set()

    def visible(self, frames: list[FrameAt]) -> list[FrameAt]:
        """The program's frames; if there are none, also those of a test runner."""
        shown = [at for at in frames if not self.workspace.internal(at.frame.f_code.co_filename)]
        return shown or [
            at for at in frames if not at.frame.f_code.co_filename.startswith("<stepinto")
        ]

    def passed(self, error: BaseException) -> list[FrameAt]:
        """The frames that an exception has passed and that can be looked at."""
        return self.visible(split_compiled(error)[1])

    def stop(
        self,
        frames: list[FrameAt],
        reason: str,
        raised: Raised | None,
        returned: tuple[str, object] | None,
    ) -> Json:
        stop: Json = {
            "reason": reason,
            "depth": len(frames),
            "thread": self.named(thread_name()),
        }
        if frames:
            stop.update(self.place(frames[0]), source=self._context(frames[0]))
        if raised is not None:
            stop["exception"] = raised.describe(len(frames))
        if returned is not None:
            stop["return_value"] = self.values([returned])[0]
        return stop

    @staticmethod
    def named(thread: str) -> str | None:
        """A thread's name as a stop tells it: None for the main thread."""
        return None if thread == threading.main_thread().name else thread

    def native_threads(self) -> dict[str, str]:
        """The name and the location of each thread, by the kernel's id."""
        frames, found = sys._current_frames(), {}
        # `enumerate` would take a lock that the interrupted code may hold.
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            at = self.visible(live_frames(frames.get(ident)))[:1]
            place = [" at {file}:{line} in {function}".format(**self.place(one)) for one in at]
            found[str(getattr(thread, "native_id", ident))] = thread.name + "".join(place)
        return found

    def stack(self, frames: list[FrameAt], start: int | None = None, before: int = 0) -> Json:
        """As many frames as the limits allow; a page of them if `start` is given. The index of the
        first frame is the number of those `before`."""
        first, limit = start or 0, self.limits["max_frames"]
        require_page(first, len(frames), "frames")
        line = self.workspace.line
        shown = [
            dict(
                self.place(at),
                index=index,
                source=line(at.frame.f_code.co_filename, at.line, at.frame.f_code),
            )
            for index, at in enumerate(frames[first : first + limit], before + first)
        ]
        more = len(frames) - first - len(shown)
        answer: Json = {"frames": shown}
        if more > 0:
            answer["notes"] = [f"{more} outer frames are not shown"]
            if start is not None:
                answer["next_start"] = before + first + len(shown)
        return answer

    def awaited(self) -> list[str]:
        """A note on the asyncio task that waits for the one that runs, if that is known."""
        waiting = waiting_task()
        if waiting is None:
            return []
        name, frames = waiting
        mine = [at for at in frames if self.workspace.mine(at.frame.f_code.co_filename)]
        note = f"this task is awaited by task {on_one_line(name)}"
        for at in (mine or frames)[:1]:
            note += " at {file}:{line} in {function}".format(**self.place(at))
        return [note]

    def threads(self, stopped: list[FrameAt], raised_in: str | None) -> Json:
        """Every thread and its frames; `stopped` are those of the stop. If an exception has left
        these, `raised_in` is the thread that they were in."""
        every, limit = all_threads(), self.limits["max_values"]
        own = every[0]
        every[0] = own._replace(frames=stopped)
        if raised_in is not None:
            live = live_frames(sys._getframe(1))
            now = [at for at in live if not self.workspace.internal(at.frame.f_code.co_filename)]
            if now or raised_in != own.name:
                before = ThreadAt(raised_in, True, LEFT, stopped)
                every[:1] = [before, own._replace(current=False, frames=now)]
        shown = []
        for thread in every[:limit]:
            frames = stopped if thread.current else self.visible(thread.frames)
            stack = self.stack(frames)["frames"]
            shown.append({**thread._asdict(), "frames": stack})
        left = len(every) - len(shown)
        notes = [f"{left} more threads are not shown"] if left else []
        notes += self.awaited()
        return {"threads": shown, "notes": notes}

    def page(self, items: Sequence[Field], start: int, total: int) -> Json:
        """One page of values, beginning with the `start`-th of `total`."""
        require_page(start, total, "values")
        shown = self.values(items[: self.limits["max_values"]])
        answer: Json = {"values": shown}
        if start + len(shown) < total:
            answer["next_start"] = start + len(shown)
            range_text = f"{start} to {start + len(shown) - 1}, " if start else ""
            answer["notes"] = [f"{range_text}{len(shown)} of {total} shown"]
        return answer

    def values(self, items: Sequence[Field]) -> list[Json]:
        return [self.value(name, value)[0] for name, value in items]

    def value(self, name: str, value: object, start: int = 0) -> tuple[Json, int | None]:
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

    def place(self, at: FrameAt) -> Json:
        code = at.frame.f_code
        self.read.add(id(at.frame))
        return {
            "file": self.workspace.relative(code.co_filename),
            "line": at.line,
            "function": qualified_name(at.frame),
        }

    def _context(self, at: FrameAt) -> list[str]:
        """Numbered lines around a stop: `->` marks the current one, `*` a breakpoint."""
        filename = at.frame.f_code.co_filename
        lines = self.workspace.text_of(at.frame.f_code)
        watched = {p.line for p in self.table.by_path.get(self.workspace.canonical(filename), ())}
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
