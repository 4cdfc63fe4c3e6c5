"""Find the program's frames and their variables."""

from __future__ import annotations

import dis
import sys
import types
from typing import Iterator, List, NamedTuple, Optional

from .interpreter import import_standard
from .wire import Json

DEEPEST = 20_000


CALLBACKS = frozenset(f"<stepinto {name}>" for name in ("hook", "tracer"))
"""The debugger's functions that CPython calls at an event; whatever they call is not the
program's."""


class FrameAt(NamedTuple):
    """A frame and its current line, which for a traceback is not `f_lineno`."""

    frame: types.FrameType
    line: int


def running_frames() -> Iterator[types.FrameType]:
    """Every frame of every thread."""
    for innermost in list(sys._current_frames().values()):
        frame: Optional[types.FrameType] = innermost
        while frame is not None:
            yield frame
            frame = frame.f_back


ENTRY = "<stepinto entry>"
"""Frames outside it only started the probe."""


def live_frames(frame: Optional[types.FrameType]) -> List[FrameAt]:
    """A frame and its callers, innermost first, up to the debuggee's entry.

    In endless recursion only the `DEEPEST` innermost, since all would take too long.
    """
    found: List[FrameAt] = []
    while frame is not None and frame.f_code.co_filename != ENTRY and len(found) < DEEPEST:
        if frame.f_code.co_filename in CALLBACKS:
            found = []
        else:
            found.append(FrameAt(frame, frame.f_lineno))
        frame = frame.f_back
    return found


def traceback_frames(error: BaseException) -> List[FrameAt]:
    """The frames that an exception passed through, innermost first."""
    found = []
    entry = error.__traceback__
    while entry is not None:
        found.append(FrameAt(entry.tb_frame, entry.tb_lineno))
        entry = entry.tb_next
    return found[::-1]


def qualified_name(frame: types.FrameType) -> str:
    """`Cart.total`, also before CPython 3.11 gave code objects that name."""
    code = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is not None:
        return str(name).replace("<locals>.", "")
    if code.co_argcount and code.co_varnames[0] in ("self", "cls"):
        owner = frame.f_locals.get(code.co_varnames[0])
        kind = owner if isinstance(owner, type) else type(owner)
        for base in kind.__mro__:
            if base is not object and code.co_name in base.__dict__:
                return "{}.{}".format(base.__qualname__.replace("<locals>.", ""), code.co_name)
    return code.co_name


def frame_locals(frame: types.FrameType) -> Json:
    """The variables of a frame, as a snapshot.

    Leaves out variables of inlined comprehensions that an inner function captures: CPython 3.13
    crashes some lines after they are read.
    """
    values, code = frame.f_locals, frame.f_code
    if sys.version_info[:2] != (3, 13) or not code.co_cellvars or values is frame.f_globals:
        return dict(values)
    cleared = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname == "LOAD_FAST_AND_CLEAR"
    }
    unsafe = cleared.intersection(code.co_cellvars)
    return {name: values[name] for name in values if name not in unsafe}


def assign_locals(frame: types.FrameType, values: Json) -> None:
    """Set variables of a running frame, by PEP 667 from 3.13 on, before that by a C call."""
    if not values:
        return
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):
        ctypes = import_standard("ctypes")
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def keep_cells(frame: Optional[types.FrameType]) -> None:
    """Keep what inner functions have changed in a frame's variables, before a trace function ends.

    Before 3.12, CPython then writes the frame's variables back as they were last read.
    """
    if frame is not None and sys.version_info < (3, 12):
        _ = frame.f_locals


def delete_locals(frame: types.FrameType, names: List[str]) -> bool:
    """Delete variables of a running frame; False if CPython can't.

    From 3.12 on its bytecode does not check whether a variable that was once set still exists.
    """
    optimized = frame.f_code.co_flags & 0x1
    if optimized and sys.version_info >= (3, 12):
        return False
    variables = frame.f_locals
    for name in names:
        del variables[name]
    if optimized:
        ctypes = import_standard("ctypes")
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(1))
    return True
