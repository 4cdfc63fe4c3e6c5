"""The program's threads.

While one thread is stopped the others run on, as they do at any lock that the stopped one holds:
each until it comes to a breakpoint itself. There it waits; it is served when the thread before it
has been told to go on, and that order's answer is its stop. A step is a thread's own: what the
others do meanwhile neither ends nor disturbs it, except that a breakpoint of theirs is a stop,
and a new one for the step's own thread to wait behind.
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
"""Seconds for which the threads are watched, to tell those that run from those that wait."""


class ThreadAt(NamedTuple):
    """One thread, and where it is."""

    name: str
    current: bool
    doing: str
    frames: List[FrameAt]
    """All of them, the debugger's and the test runner's too; those of the stop are not here."""


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
    """The seconds that each thread has computed for."""
    found = {}
    for ident in sys._current_frames():
        try:
            found[ident] = time.clock_gettime(time.pthread_getcpuclockid(ident))
        except OSError:
            continue  # the thread ends at this moment
    return found


def doing(frame: types.FrameType, at: types.FrameType, busy: bool) -> str:
    """What a thread is at; `at` is its innermost frame that is not the debugger's."""
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
