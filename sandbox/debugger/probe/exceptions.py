"""Which exception classes a name means, and where an exception first reaches the program."""

from __future__ import annotations

import builtins
import dis
import re
import sys
import types
from typing import Any, Callable, Iterator

from .interpreter import import_standard, is_compiled
from .own import read_file
from .wire import Refusal
from .workspace import Workspace, closest

DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
CLASS = re.compile(rb"^[ \t]*class\s+(\w+)", re.M)


def full_name(kind: type) -> str:
    """`package.module.Class`, whatever the metaclass does."""
    module = type.__getattribute__(kind, "__dict__").get("__module__", "builtins")
    name = str(type.__getattribute__(kind, "__qualname__")).replace("<locals>.", "")
    return f"{module}.{name}"


def is_exception(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


def named_object(name: str) -> object | None:
    """What a name refers to as written: a builtin, or an attribute of a loaded module."""
    parts = name.split(".")
    if len(parts) == 1:
        return getattr(builtins, name, None)
    for size in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:size]))
        if isinstance(module, types.ModuleType):
            found: object = module
            for part in parts[size:]:
                found = getattr(found, part, None)
            return found
    return None


def loaded_exceptions() -> Iterator[type]:
    """Every loaded exception class."""
    left = [BaseException]
    seen = set()
    while left:
        kind = left.pop()
        if id(kind) not in seen:
            seen.add(id(kind))
            yield kind
            left += type.__subclasses__(kind)


def named_like(kind: type, name: str) -> bool:
    return ("." + full_name(kind)).endswith("." + name)


def is_loaded(name: str) -> bool:
    """Whether an exception class of that name is loaded."""
    if is_exception(named_object(name)):
        return True
    return any(named_like(kind, name) for kind in loaded_exceptions())


def matches(name: str, kind: type) -> bool:
    """Whether a class has that name or is derived from one that has."""
    bases = type.__getattribute__(kind, "__mro__")
    meant = named_object(name)
    if is_exception(meant):
        return any(base is meant for base in bases)
    return any(named_like(base, name) for base in bases)


def check_exception(workspace: Workspace, name: str) -> None:
    """Refuse a name that no class has, here or in a module that may still be imported."""
    if not DOTTED.match(name):
        raise Refusal(f"{name!r} is not the name of an exception class")
    meant = named_object(name)
    if isinstance(meant, type) and not is_exception(meant):
        raise Refusal(f"{name} is a class, but not of an exception")
    if is_loaded(name):
        return
    written = written_classes(workspace)
    if name.rpartition(".")[2] in written or importable(name):
        return
    if "." not in name and is_installed(workspace, name):
        return
    raise Refusal(
        f"there is no exception class {name}{near_exceptions(name, written)}; name a class of "
        "a library that is not imported yet in full: package.module.Class"
    )


def written_classes(workspace: Workspace) -> dict[str, str]:
    """The classes that the program's files define, each with its dotted name."""
    found: dict[str, str] = {}
    for path in workspace.files():
        module = workspace.relative(path)[:-3].replace("/", ".")
        for match in CLASS.finditer(read_file(path)):
            name = match.group(1).decode("utf-8")
            found.setdefault(name, f"{module}.{name}")
    return found


def importable(name: str) -> bool:
    """Whether a dotted name lies in an existing module that is not loaded yet."""
    package, _, rest = name.partition(".")
    if not rest or name.rpartition(".")[0] in sys.modules:
        return False
    try:
        return import_standard("importlib.util").util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def is_installed(workspace: Workspace, name: str) -> bool:
    """Whether an installed module defines a class of that name, as far as it can be found soon."""
    definition = re.compile(rb"^[ \t]*class[ \t]+%s\b" % name.encode(), re.M)
    return any(definition.search(read_file(path)) for path in workspace.installed_files())


def near_exceptions(name: str, written: dict[str, str]) -> str:
    loaded = [name for name in map(full_name, loaded_exceptions()) if name[:9] != "_stepinto"]
    shown = {name.rpartition(".")[2]: name for name in loaded}
    shown.update({known: dotted for known, dotted in written.items() if known not in shown})
    close = closest(name.rpartition(".")[2], list(shown))
    listed = ", ".join(shown[known].replace("builtins.", "") for known in close)
    return "; nearest: " + listed if listed else ""


class KindCache:
    """Caches which breakpoints match an exception's class, since each raise asks."""

    def __init__(self, points: list[Any]) -> None:
        self.points = points
        self.known: dict[int, tuple[type, list[Any]]] = {}
        """Keyed by id, since a metaclass may define its own hash; the reference keeps the id from
        being reused."""

    def matching(self, kind: type) -> list[Any]:
        """The breakpoints that name this class or a base of it."""
        known = self.known.get(id(kind))
        if known is None:
            if len(self.known) > 10_000:
                self.known.clear()
            known = kind, [p for p in self.points if matches(p.exception, kind)]
            self.known[id(kind)] = known
        return known[1]


ITERATING = ("FOR_ITER", "YIELD_FROM", "SEND")
"""What ends by a StopIteration within the interpreter, of which `sys.settrace` tells."""
WAITING = (
    *("YIELD_FROM", "SEND", "YIELD_VALUE", "RESUME", "JUMP_BACKWARD_NO_INTERRUPT"),
    *("LOAD_CONST", "EXTENDED_ARG", "CACHE"),
)
"""What an `await` compiles to after the instruction that gives what it waits for."""


def ends_loop(code: types.CodeType, offset: int, error: BaseException) -> bool:
    """Whether an exception is how the interpreter ends a loop, a `yield from` or an `await`."""
    kind = type(error)  # `isinstance` would run a `__class__` of the program's
    if issubclass(kind, StopIteration):
        return dis.opname[code.co_code[offset]] in ITERATING
    if not issubclass(kind, StopAsyncIteration):
        return False
    while offset > 0 and dis.opname[code.co_code[offset]] in WAITING:
        offset -= 2
    return dis.opname[code.co_code[offset]] in ("GET_ANEXT", "END_ASYNC_FOR")


def first_reached(
    frame: types.FrameType,
    error: BaseException,
    trace: types.TracebackType | None,
    mine: Callable[[str], bool],
) -> bool:
    """Whether a frame is the first of the program's frames that an exception reaches.

    The traceback holds the frame itself and those that the exception has passed; if one of them is
    the program's own, that was first. A `raise` of an exception being handled passes it on.
    """
    code = frame.f_code
    if not mine(code.co_filename):
        return False
    offset = max(frame.f_lasti, 0)
    instruction = dis.opname[code.co_code[offset]]
    unstarted = frame.f_lasti < 0 or instruction == "RETURN_GENERATOR"
    if unstarted and issubclass(type(error), GeneratorExit):
        return False  # before CPython 3.12 it ends a generator that has run nothing
    if ends_loop(code, offset, error):
        return False
    if instruction == "RAISE_VARARGS":
        return sys.exc_info()[1] is not error
    entry = trace.tb_next if trace is not None else None
    while entry is not None:
        passed = entry.tb_frame.f_code
        if mine(passed.co_filename) and not is_compiled(passed):
            return False
        entry = entry.tb_next
    return True
