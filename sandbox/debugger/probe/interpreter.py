"""CPython internals that differ by version: bytecode, imports, stack, and frames' variables."""

from __future__ import annotations

import dis
import sys
import types
from functools import lru_cache
from typing import Any, Iterator, NamedTuple

from .wire import Json

STARTUP_PATH = list(sys.path)
PROLOGUE = {
    "RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP", "GEN_START", "NOP",
    "CACHE", "EXTENDED_ARG",
}  # fmt: skip


NO_LINE = sys.version_info[:2] == (3, 13)
"""Whether `sys.monitoring` reports no line of a body on the line of its `def` or `lambda`."""


def entry_offset(code: types.CodeType) -> int:
    """The offset of a function's first line event, after the compiler's prefix."""
    instructions = [*dis.get_instructions(code)]
    first = next((at.offset for at in instructions if at.opname not in PROLOGUE), 0)
    starts = [offset for offset, line in dis.findlinestarts(code) if line]
    entry = max((offset for offset in starts if offset <= first), default=first)
    # A body on the line of its `def` or `lambda` begins after RESUME, where no line starts.
    resumes = next((n for n, at in enumerate(instructions) if at.opname == "RESUME"), None)
    if resumes is None or entry > instructions[resumes].offset:
        return entry
    return instructions[resumes + (not NO_LINE)].offset


def line_at(code: types.CodeType, offset: int) -> int:
    """The line of the instruction at an offset."""
    line = code.co_firstlineno
    for start, number in dis.findlinestarts(code):
        if start > offset:
            break
        line = number or line
    return line


def instruction_lines(code: types.CodeType) -> dict[int, int | None]:
    """The line of each instruction by its offset; None if it has none, so that no event has it."""
    found: dict[int, int | None] = {}
    starts: dict[int, int | None] = dict(dis.findlinestarts(code))
    if sys.version_info >= (3, 10):
        starts = {start: line for start, _, line in code.co_lines()}
    line: int | None = None
    for at in dis.get_instructions(code):
        line = starts.get(at.offset, line)
        found[at.offset] = line
    return found


def body_lines(code: types.CodeType) -> set[int]:
    """The lines that a code object runs, without the line that only enters it."""
    if not code.co_flags & 0x2:
        return {line for _, line in dis.findlinestarts(code) if line}
    first = entry_offset(code)
    lines = {line for offset, line in dis.findlinestarts(code) if line and offset >= first}
    return lines | {line_at(code, first)}


LOOP_HEADS = {"FOR_ITER", "GET_ANEXT", "EXTENDED_ARG"}
APPENDS = {"LIST_APPEND", "SET_ADD", "MAP_ADD"}


class Inlined(NamedTuple):
    """The comprehensions inlined in a function (3.12 on), by their bytecode offsets.

    `sys.settrace` reports each iteration as if its line began again: 3.12 at the head of the loop,
    3.13 at the jump back to it; and each line of a comprehension on several lines.
    """

    turns: set[int]
    """Where an iteration begins within one line."""
    inside: dict[int, int]
    """Offsets that run for each iteration, with the number of comprehensions around them, of which
    each may have several loops."""


NONE_INLINED = Inlined(set(), {})


def inlined_comprehensions(code: types.CodeType) -> Inlined:
    found = Inlined(set(), {})
    if sys.version_info < (3, 12):
        return found
    instructions = {at.offset: at for at in dis.get_instructions(code)}
    jumps: dict[int, list[int]] = {}
    for at in instructions.values():
        if at.opname == "JUMP_BACKWARD" and instructions[at.argval].opname in LOOP_HEADS:
            jumps.setdefault(at.argval, []).append(at.offset)
    lines = {at.offset: at.positions and at.positions.lineno for at in instructions.values()}
    heads = set()
    for at in instructions.values():
        if at.opname in APPENDS:
            around = [head for head in jumps if head < at.offset < jumps[head][-1]]
            # The argument of an append is the number of its comprehension's loops plus one.
            loops = sorted(around, reverse=True)[: (at.arg or 1) - 1]
            for head in loops:
                line = lines[head]
                within = [jump for jump in jumps[head] if lines[jump] == line]
                found.turns.update(within, [head] if within else [])
            heads.update(loops[-1:])
    for head in heads:
        for offset in range(head, jumps[head][-1] + 1):
            found.inside[offset] = found.inside.get(offset, 0) + 1
    return found


SUSPENDS = {"YIELD_VALUE", "YIELD_FROM", "SEND", "RETURN_GENERATOR"}
RETURNS = {"RETURN_VALUE", "RETURN_CONST"}


def way_out(frame: types.FrameType) -> str:
    """How a frame is being left: `returns`, `suspends` (it may be resumed), or `raises`."""
    code, at = frame.f_code.co_code, frame.f_lasti
    name = dis.opname[code[at]]
    if name in SUSPENDS:
        return "suspends"
    # An await before 3.11 suspends at the instruction before it, a yield from 3.13 on after it.
    if sys.version_info < (3, 11) and dis.opname[code[min(at + 2, len(code) - 2)]] == "YIELD_FROM":
        return "suspends"
    if name == "RESUME" and at >= 2 and dis.opname[code[at - 2]] == "YIELD_VALUE":
        return "suspends"
    return "returns" if name in RETURNS else "raises"


def import_standard(name: str) -> Any:
    """Import a standard module late, even if the workspace has a module of that name."""
    path, sys.path = sys.path, STARTUP_PATH
    try:
        return __import__(name)
    finally:
        sys.path = path


class PendingCall:
    """What CPython is asked to call in the main thread between two instructions: `PyObject_IsTrue`,
    which runs a subclass's `__bool__`. Any other value of that than False is an error."""

    def __init__(self, ctypes: Any) -> None:
        self._add: Any = ctypes.pythonapi.Py_AddPendingCall
        self._arguments = ctypes.pythonapi.PyObject_IsTrue, ctypes.py_object(self)

    def add(self) -> None:
        self._add(*self._arguments)


class RecursionLimit:
    """The program's recursion limit, to which the levels that the debugger takes are added: the
    program sees its own, and reaches it as deep as without a debugger."""

    def __init__(self) -> None:
        self._set = sys.setrecursionlimit
        self.limit = sys.getrecursionlimit()
        self.below = self.traced = 0
        """Levels below the program, and those that tracing a call takes."""

    def begin(self, below: int) -> None:
        """Called before the program begins, so many levels deeper than without a debugger."""
        self.below = max(below, 0)
        sys.getrecursionlimit = lambda: self.limit
        sys.setrecursionlimit = self.set
        self.set(self.limit)

    def trace(self, levels: int) -> None:
        """Called when the levels change that tracing takes."""
        if levels != self.traced:
            self.traced = levels
            self.set(self.limit)

    def set(self, limit: int) -> None:
        """`sys.setrecursionlimit`, for the program."""
        # What CPython refuses it also refuses with more.
        more = self.below + self.traced if type(limit) is int and 0 < limit < 2**30 else 0
        self._set(limit + more)
        self.limit = limit


LIMIT = RecursionLimit()


def depth() -> int:
    """The number of frames of this thread, without the one of this function."""
    frame: types.FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        count += 1
        frame = frame.f_back
    return count


class MoreStack:
    """Extra stack for the debugger if the program is deep in a recursion."""

    def __enter__(self) -> None:
        self.limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self.limit + 300)

    def __exit__(self, *_: object) -> None:
        try:
            sys.setrecursionlimit(self.limit)
        except RecursionError:
            return  # it is still that deep; a little more stack does no harm


DEEPEST = 20_000
CALLBACKS = ("<stepinto tracer>", "<stepinto monitor>")
"""The modules whose functions CPython calls at an event: what they call is not the program's."""


class FrameAt(NamedTuple):
    """A frame and its current line, which for a traceback is not `f_lineno`."""

    frame: types.FrameType
    line: int


def running_frames() -> Iterator[types.FrameType]:
    """Every frame of every thread."""
    for innermost in list(sys._current_frames().values()):
        frame: types.FrameType | None = innermost
        while frame is not None:
            yield frame
            frame = frame.f_back


ENTRY = "<stepinto entry>"
"""Frames outside it only started the probe."""


def live_frames(frame: types.FrameType | None) -> list[FrameAt]:
    """A frame and its callers, innermost first, up to the debuggee's entry.

    In endless recursion only the `DEEPEST` innermost, since all would take too long.
    """
    found: list[FrameAt] = []
    while frame is not None and frame.f_code.co_filename != ENTRY and len(found) < DEEPEST:
        if frame.f_code.co_filename in CALLBACKS:
            found = []
        else:
            found.append(FrameAt(frame, frame.f_lineno))
        frame = frame.f_back
    return found


def traceback_frames(error: BaseException) -> list[FrameAt]:
    """The frames that an exception passed through, innermost first."""
    found = []
    entry = error.__traceback__
    while entry is not None:
        found.append(FrameAt(entry.tb_frame, entry.tb_lineno))
        entry = entry.tb_next
    return found[::-1]


DEEPEST_WRAPPED = 10
"""Most decorators around a method that are looked through."""
LONGEST_EMPTY = 6
"""Bytes of the code that `PyCode_NewEmpty` makes, which does not run."""


def is_compiled(code: types.CodeType) -> bool:
    """Whether a traceback's code stands for compiled code (Cython, mypyc, a module in C): its frame
    has no variables, and no event told of it."""
    return not code.co_consts and not code.co_names and len(code.co_code) <= LONGEST_EMPTY


def qualified_name(frame: types.FrameType) -> str:
    """`Cart.total`, also before CPython 3.11 gave code objects that name."""
    code = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is not None:
        return str(name).replace("<locals>.", "")
    if code.co_argcount and code.co_varnames[0] in ("self", "cls"):
        owner = frame.f_locals.get(code.co_varnames[0])
        kind = defining_class(code, owner)
        if kind is None:
            kind = next((base for base, _ in methods_named(code, owner)), None)
        if kind is not None:
            qualified = str(type.__dict__["__qualname__"].__get__(kind))
            return "{}.{}".format(qualified.replace("<locals>.", ""), code.co_name)
    return code.co_name


def methods_named(code: types.CodeType, owner: object) -> Iterator[tuple[type, object]]:
    """The methods of a code's name, each with its class, by a method's first argument."""
    kind = owner if issubclass(type(owner), type) else type(owner)
    for base in type.__dict__["__mro__"].__get__(kind):
        members = type.__dict__["__dict__"].__get__(base)
        private = f"_{type.__dict__['__name__'].__get__(base).lstrip('_')}{code.co_name}"
        for name in (code.co_name, private):
            if base is not object and name in members:
                yield base, members[name]


def defining_class(code: types.CodeType, owner: object) -> type | None:
    """The class whose method has the code, by the method's first argument."""
    for base, method in methods_named(code, owner):
        if any(each is code for each in codes_of(method)):
            return base
    return None


def codes_of(method: Any) -> Iterator[types.CodeType]:
    """The code of what a class has as a method, and of what that wraps."""
    if type(method) in (staticmethod, classmethod):
        method = method.__func__
    parts = [method.fget, method.fset, method.fdel] if type(method) is property else [method]
    for _ in range(DEEPEST_WRAPPED):
        functions = [part for part in parts if type(part) is types.FunctionType]
        yield from (part.__code__ for part in functions)
        parts = [vars(part).get("__wrapped__") for part in functions]


@lru_cache(maxsize=1000)
def inlined(code: types.CodeType) -> frozenset[str]:
    """The variables of comprehensions that CPython 3.12 and later run in a function's own frame."""
    instructions = dis.get_instructions(code) if sys.version_info >= (3, 12) else ()
    return frozenset(
        instruction.argval
        for instruction in instructions
        if instruction.opname == "LOAD_FAST_AND_CLEAR"
    )


def frame_locals(frame: types.FrameType) -> Json:
    """The variables of a frame, as a snapshot.

    Leaves out variables of inlined comprehensions that an inner function captures: CPython 3.13
    crashes some lines after they are read.
    """
    values, code = frame.f_locals, frame.f_code
    if sys.version_info[:2] != (3, 13) or not code.co_cellvars or values is frame.f_globals:
        return dict(values)
    unsafe = inlined(code).intersection(code.co_cellvars)
    return {name: values[name] for name in values if name not in unsafe}


def assign_locals(frame: types.FrameType, values: Json) -> None:
    """Set variables of a running frame, by PEP 667 from 3.13 on, before that by a C call."""
    if not values:
        return
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):
        ctypes = import_standard("ctypes")
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def keep_cells(frame: types.FrameType | None) -> None:
    """Keep what inner functions have changed in a frame's variables, before a trace function ends.

    Before 3.12, CPython then writes the frame's variables back as they were last read.
    """
    if frame is not None and sys.version_info < (3, 12):
        _ = frame.f_locals


F_LOCALS = {(3, 8): (56,), (3, 9): (56,), (3, 10): (56,), (3, 11): (24, 24)}.get(
    sys.version_info[:2], ()
)
"""Offsets in bytes to the pointer to a frame's cached variables, by pointers from the frame on.
From CPython 3.12 on no event fills that cache."""
if sys.maxsize < 2**32 or hasattr(sys, "getobjects"):  # objects are laid out otherwise
    F_LOCALS = ()


@lru_cache(maxsize=1000)
def releasing_lines(code: types.CodeType) -> frozenset[int]:
    """The lines that delete a variable, or set one to None, to let go of its object."""
    found: set[int] = set()
    lines, constant = instruction_lines(code) if F_LOCALS else {}, False
    for at in dis.get_instructions(code) if F_LOCALS else ():
        if at.opname == "DELETE_FAST" or (at.opname == "STORE_FAST" and constant):
            found.add(lines[at.offset] or 0)
        constant = at.opname == "LOAD_CONST" and at.argval is None
    return frozenset(found)


def drop_cache(frame: types.FrameType) -> None:
    """Drop the cache of a function's variables, which the event of a line has filled, before that
    ends: so an object goes as soon as the program lets go of it, and not one line later."""
    cache, code = frame.f_locals, frame.f_code
    names = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    own = code.co_flags & 0x2 and names.issuperset(cache)
    if not F_LOCALS or not own or sys.getrefcount(cache) > CACHE_REFERENCES:
        return  # the program has it, or it has names of `exec`
    ctypes = import_standard("ctypes")
    address = id(frame)
    for offset in F_LOCALS[:-1]:
        address = ctypes.c_void_p.from_address(address + offset).value
    pointer = ctypes.c_void_p.from_address(address + F_LOCALS[-1])
    if pointer.value == id(cache):
        pointer.value = None
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(cache))


CACHE_REFERENCES = 3
"""To a frame's cached variables if only the frame has them: its own, and those of the count."""
KEEPS_CACHE = sys.version_info < (3, 13)
"""Whether a frame caches its variables once they are read."""


def forget_locals(frame: types.FrameType, traced: bool) -> None:
    """Drop what a frame caches of its variables, which would keep objects alive that the program
    lets go. `traced` says that a trace function runs for this frame now.

    Names that `exec` has put there stay, and all if the program has the cache, from `locals`.
    """
    if not KEEPS_CACHE or not frame.f_code.co_flags & 0x2:
        return
    if traced and sys.version_info < (3, 11):
        drop_cache(frame)  # else CPython takes its variables from there
        return
    cache, code = frame.f_locals, frame.f_code
    if sys.getrefcount(cache) > CACHE_REFERENCES:
        return
    if sys.version_info >= (3, 11):
        ctypes = import_standard("ctypes")
        # Else the next trace function's end would take the variables from there.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        cache.pop(name, None)
