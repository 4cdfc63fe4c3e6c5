"""The program's threads.

While one thread is stopped the others run on, until they need a lock that it holds or reach a
breakpoint. At a breakpoint a thread waits; it is served when the thread before it has been told to
go on, and its stop is the answer to that request. A step belongs to one thread: the others neither
end nor disturb it, except that a breakpoint of theirs is a stop, which the stepping thread may have
to wait for.
"""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Dict, List, NamedTuple, Optional

from .frames import FrameAt, live_frames, qualified_name
from .own import get_ident, sleep

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
