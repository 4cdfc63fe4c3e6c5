"""Evaluate breakpoint conditions in the running program, and end those that run too long."""

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
    """The program's frame at the breakpoint."""
    started: float


RUNNING_CONDITIONS: Dict[int, Running] = {}
"""Keyed by thread."""


def condition_holds(
    point: Breakpoint, frame: types.FrameType, raised: Optional[BaseException] = None
) -> Tuple[bool, Optional[str]]:
    """Whether to stop, and a note. A condition that fails or runs too long stops too.

    The condition of an exception breakpoint sees the exception as `__exception__`.
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
    """End conditions that run too long; called in the main thread's handler, at `frame`.

    Returns the program's frame to show for the main thread.
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
