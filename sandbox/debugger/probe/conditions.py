"""Breakpoint conditions: evaluated in the running program, and ended where they never end."""

from __future__ import annotations

import types
from typing import Dict, NamedTuple, Optional, Tuple

from .frames import frame_locals
from .interruption import interruptible, raise_in
from .own import get_ident, monotonic
from .points import Breakpoint
from .values import exception_text, type_name
from .window import Bounds
from .wire import TICK, Interrupted

MESSAGE = Bounds(chars=200, depth=1, items=1, lines=3)


class Running(NamedTuple):
    """A condition that is being evaluated."""

    frame: types.FrameType
    """Of the program, where the breakpoint is."""
    started: float


RUNNING_CONDITIONS: Dict[int, Running] = {}
"""By the thread that evaluates it."""


def condition_holds(
    point: Breakpoint, frame: types.FrameType, raised: Optional[BaseException] = None
) -> Tuple[bool, Optional[str]]:
    """Whether to stop. A condition that fails, or never ends, stops too, and says so.

    That of an exception breakpoint sees the exception as `__exception__`.
    """
    if point.code is None:
        return True, None
    thread = get_ident()
    RUNNING_CONDITIONS[thread] = Running(frame, monotonic())
    try:
        names = {**frame.f_globals, **frame_locals(frame)}
        if raised is not None:
            names["__exception__"] = raised
        return bool(eval(point.code, names)), None
    except Interrupted:
        message = "the condition of breakpoint {} did not end and was interrupted"
        return True, message.format(point.number)
    except BaseException as error:
        message = "the condition of breakpoint {} raised {}: {}"
        text = exception_text(error, MESSAGE)
        return True, message.format(point.number, type_name(type(error)), text)
    finally:
        del RUNNING_CONDITIONS[thread]


def interrupt_conditions(frame: Optional[types.FrameType]) -> Optional[types.FrameType]:
    """End conditions that do not end by themselves; in the main thread's handler, at `frame`.

    Gives the frame of the program that is to be shown as the main thread's.
    """
    now, own = monotonic(), get_ident()
    for thread, other in list(RUNNING_CONDITIONS.items()):
        if now - other.started > TICK / 4 and thread != own:
            raise_in(thread, Interrupted)
    running = RUNNING_CONDITIONS.get(own)
    if running is None:
        return frame
    if now - running.started > TICK / 4 and interruptible(frame):
        raise Interrupted
    return running.frame
