"""A pytest plugin that watches tests: which lines each of them runs, or how far the failure of one
is from the fault.

It is copied into the sandbox (see `collect.synthesis.workbench`) and runs there, with coverage.py
for the lines. `watch.json` next to it has either of

- `code`: files to watch, relative to the workspace. The result has `tests` (node ids) and `lines`
  (by file, then by line number, indices into `tests`). A line that runs during imports belongs to
  no test.
- `test` (a node id) and `scopes`: the path relative to the workspace, name, first and last line of
  each faulty function, or of module-level code (without a name). The result has
  `calls_to_failure`, `entries`, `functions` (how many of the project's ran), `call_depth` and
  `on_traceback`; `returns`, for each return of a faulty function the calls before it, the number
  of its stack in `stacks`, and its effect; and `failure`, the stack of the failure; and `scene`,
  what the failing code of the tests (below the paths `tests`) shows: see
  `collect.benchmarks.projects.failing_input.Scene`. A stack is a list of path and function,
  outermost first, with the line for the failure; it has only frames of the project and its tests.

It writes the result to `watched.json`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from enum import Enum
from hashlib import blake2b
from inspect import CO_VARARGS, CO_VARKEYWORDS, getsource
from math import isfinite
from textwrap import dedent
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import pytest

FOLDER = os.path.dirname(os.path.abspath(__file__))
WORKSPACE = os.getcwd() + os.sep
MAX_DECORATOR_LINES = 20
"""A function's code starts at its first decorator, above the line of `def`."""
MAX_RETURNS = 3000
"""Returns of faulty functions that are told."""
MAX_OBJECTS = 2000
"""Objects of one effect that are looked at."""
UNSEEN = ("__repr__", "__str__", "__format__", "__eq__", "__ne__", "__hash__")
"""Methods that showing and comparing values calls."""
MAX_SOURCE = 600
"""Characters of a value that are told."""
MAX_DEPTH = 12
"""Objects inside objects that are looked at."""
PLAIN = (bool, int, float, complex, str, bytes, bytearray, range, datetime, date, time, timedelta)
"""Types whose representation is the whole value; the first that fits counts."""
NAMED = (type, ModuleType, FunctionType, MethodType)
SEQUENCES = (list, tuple, deque)
SETS = (set, frozenset)


class Tracker:
    """Measures coverage with one context per test."""

    def __init__(self, code: list[str]) -> None:
        import coverage

        self.code = {WORKSPACE + path: path for path in code}
        self.measured = coverage.Coverage(
            data_file=None, config_file=False, include=list(self.code), messages=False
        )
        self.measured.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measured.switch_context(item.nodeid)
        yield
        self.measured.switch_context("")

    def pytest_unconfigure(self) -> None:
        self.measured.stop()
        data = self.measured.get_data()
        numbers: dict[str, int] = {}
        lines: dict[str, dict[int, list[int]]] = {}
        for path in data.measured_files():
            if path in self.code:
                found = data.contexts_by_lineno(path)
                lines[self.code[path]] = {
                    line: [numbers.setdefault(test, len(numbers)) for test in sorted(tests) if test]
                    for line, tests in sorted(found.items())
                }
        write({"tests": list(numbers), "lines": lines})


class Meter:
    """Watches the project's functions, the faulty ones closely, while one test runs."""

    def __init__(
        self, test: str, scopes: list[tuple[str, str, int, int]], tests: list[str]
    ) -> None:
        self.test = test
        self.scopes = scopes
        self.test_paths = tuple(WORKSPACE + path for path in tests)
        self.calls = 0
        self.functions: set[CodeType] = set()
        """Those of the project that ran, without the tests'."""
        self.entries = 0
        self.at_last_entry = 0
        self.depth = 0
        self.on_traceback = False
        self.failure: list[tuple[str, str, int]] = []
        self.given: dict[int, list[object]] = {}
        """The arguments of each active call of a faulty function, by the identity of its frame."""
        self.stacks: dict[tuple[tuple[str, str], ...], int] = {}
        self.returns: list[tuple[int, int, str]] = []
        self.scene: dict[str, object] | None = None
        self.parameters: dict[int, dict[str, str]] = {}
        """The parameters of each active function of the tests, as source, by its frame."""
        self.callers: set[int] = set()
        """The functions of the tests that called the project, by their frames."""
        self.sources = Sources(self.test_paths)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if item.nodeid != self.test:
            yield
            return
        sys.setprofile(self.profile)
        yield
        sys.setprofile(None)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if item.nodeid == self.test and call.excinfo is not None:
            for entry in call.excinfo.traceback:
                path, line = str(entry.path), entry.lineno + 1
                self.on_traceback |= self.is_faulty(path, entry.name, line)
                if is_project(path):
                    self.failure.append((path[len(WORKSPACE) :], entry.name, line))
                own = path.startswith(self.test_paths)
                if own and (self.scene is None or id(entry.frame.raw) in self.callers):
                    self.scene = self.look_at(entry.frame.raw, path, line)

    def members(self, test: object, read: set[str]) -> dict[str, object]:
        """The attributes and methods of the test's object that its code reads, as `self.NAME`."""
        found: dict[str, Any] = {}
        pending = sorted(read)
        while pending:
            name = pending.pop()
            if f"self.{name}" not in found:
                with suppress(Exception):
                    found[f"self.{name}"] = getattr(test, name)
                    code = found[f"self.{name}"].__code__
                    if code.co_filename.startswith(self.test_paths):
                        pending += sorted(names_of(code))
        return found

    def look_at(self, frame: FrameType, path: str, line: int) -> dict[str, object]:
        own, read = frame.f_locals, names_of(frame.f_code)
        known = {name: value for name, value in frame.f_globals.items() if name in read} | own
        known |= self.members(own.get("self"), read)
        values = {name: self.sources.of(value) for name, value in known.items()}
        return {
            "path": path[len(WORKSPACE) :],
            "line": line,
            "values": {name: text for name, text in values.items() if text is not None}
            | self.parameters.get(id(frame), {}),
            "types": {name: type(value).__name__ for name, value in own.items()},
            "definitions": self.sources.definitions(known),
            "imports": sorted(self.sources.imports),
        }

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not is_project(code.co_filename):
            return
        faulty = self.is_faulty(code.co_filename, code.co_name, code.co_firstlineno)
        if event == "call":
            self.calls += 1
            if not code.co_filename.startswith(self.test_paths):
                self.functions.add(code)
            caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
            if code.co_filename.startswith(self.test_paths):
                given = arguments_of(frame)
                texts = {name: self.sources.of(value) for name, value in given.items()}
                known = {name: text for name, text in texts.items() if text is not None}
                self.parameters[id(frame)] = known
                self.callers.discard(id(frame))  # A frame before it had the same address.
            if caller.startswith(self.test_paths) and code.co_name not in UNSEEN:
                self.callers.add(id(frame.f_back))
            if faulty:
                self.entries += 1
                self.at_last_entry = self.calls
                # Below the test.
                self.depth = len(stack_of(frame)) - 1
                self.given[id(frame)] = list(arguments_of(frame).values())
        elif faulty and len(self.returns) < MAX_RETURNS:
            effect = Contents().of([argument, *self.given.pop(id(frame), [])])
            digest = blake2b(effect.encode("utf-8", "replace"), digest_size=8).hexdigest()
            stack = self.stacks.setdefault(stack_of(frame), len(self.stacks))
            self.returns.append((self.calls, stack, digest))

    def is_faulty(self, path: str, name: str, line: int) -> bool:
        return any(
            (WORKSPACE + scope, function) == (path, name)
            and first - MAX_DECORATOR_LINES <= line <= last
            for scope, function, first, last in self.scopes
        )

    def pytest_unconfigure(self) -> None:
        entered = self.entries > 0
        found: dict[str, object] = {
            "calls_to_failure": self.calls - self.at_last_entry if entered else None,
            "entries": self.entries if entered else None,
            "functions": len(self.functions),
            "call_depth": self.depth if entered else None,
            "on_traceback": self.on_traceback,
            "returns": [(self.calls - calls, *rest) for calls, *rest in self.returns],
            "stacks": list(self.stacks),
            "failure": self.failure,
            "scene": self.scene,
        }
        write(found)


def stack_of(frame: FrameType) -> tuple[tuple[str, str], ...]:
    """The stack that ends in a frame."""
    codes = [caller.f_code for caller, _ in traceback.walk_stack(frame)]
    own = [code for code in reversed(codes) if is_project(code.co_filename)]
    return tuple((code.co_filename[len(WORKSPACE) :], code.co_name) for code in own)


def arguments_of(frame: FrameType) -> dict[str, object]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    values = frame.f_locals
    return {name: values.get(name) for name in (*code.co_varnames[:count], *code.co_freevars)}


def names_of(code: CodeType) -> set[str]:
    """The global names and attributes that code reads, also in its functions and classes."""
    inner = (names_of(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


class Sources:
    """Values as source, with the imports that it needs."""

    def __init__(self, test_paths: tuple[str, ...]) -> None:
        self.test_paths = test_paths
        self.imports: set[str] = set()

    def of(self, value: Any, depth: int = 0) -> str | None:
        """The source of a value of built-in types, a member of an enumeration, or a function or
        class that a program can import; None for others, and for long ones."""
        kind = type(value)
        text: str | None = None
        if value is None or kind in (bool, int, str, bytes):
            text = repr(value)
        elif kind is float:
            text = repr(value) if isfinite(value) else f"float('{value}')"
        elif kind in (list, tuple, dict, set) and value != set() and depth < MAX_DEPTH:
            text = self.of_parts(value, depth + 1)
        elif isinstance(value, Enum) and (name := self.of(kind)) is not None:
            named = value.name is not None and value.name.isidentifier()
            text = f"{name}.{value.name}" if named else f"{name}({value.value!r})"
        elif isinstance(value, (type, FunctionType)):
            text = self.imported(value)
        return text if text is not None and len(text) <= MAX_SOURCE else None

    def of_parts(self, value: Any, depth: int) -> str | None:
        parts = [self.of(part, depth) for part in value]
        if isinstance(value, dict):
            of_values = [self.of(part, depth) for part in value.values()]
            parts = [k and v and f"{k}: {v}" for k, v in zip(parts, of_values, strict=True)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        brackets = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
        comma = "," if isinstance(value, tuple) and len(known) == 1 else ""
        return f"{brackets[0]}{', '.join(known)}{comma}{brackets[1]}"

    def imported(self, value: Any) -> str | None:
        """The name of a function or class that is not of the tests, from the outermost package
        that has it."""
        name, module = value.__name__, str(value.__module__)
        for place in (module.partition(".")[0], module):
            found = sys.modules.get(place)
            path = str(getattr(found, "__file__", ""))
            if getattr(found, name, None) is value and not path.startswith(self.test_paths):
                if place != "builtins":
                    self.imports.add(f"from {place} import {name}")
                return str(name)
        return None

    def definitions(self, known: dict[str, object]) -> dict[str, str]:
        """The source, by name, of the known functions and classes that the tests define. Those that
        their source mentions are added."""
        found: dict[str, str] = {}
        pending = list(known.items())
        while pending:
            name, value = pending.pop()
            function: Any = getattr(value, "__func__", value)
            if not isinstance(function, (type, FunctionType)) or name in found:
                continue
            with suppress(Exception):
                source = dedent(getsource(function))
                read = names_of(compile(source, "", "exec"))
                module = sys.modules[function.__module__]
                if str(module.__file__).startswith(self.test_paths):
                    found[name] = source
                    pending += [each for each in vars(module).items() if each[0] in read]
        return found


class Contents:
    """Values as text that is the same in another process. No code of the project runs for it."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def of(self, value: object, depth: int = 0) -> str:
        kind: Any = type(value)
        plain: Any = next((each for each in PLAIN if issubclass(kind, each)), None)
        text = "" if plain is None else plain.__repr__(value)
        if value is None or kind is plain:
            return text
        if issubclass(kind, NAMED):
            return str(getattr(value, "__qualname__", kind.__name__))
        if id(value) in self.seen or len(self.seen) > MAX_OBJECTS or depth > MAX_DEPTH:
            return f"#{self.seen.get(id(value))}"
        self.seen[id(value)] = len(self.seen)
        return f"{kind.__name__}({text} {' '.join(self.parts(value, kind, depth + 1))})"

    def parts(self, value: Any, kind: type, depth: int) -> Iterator[str]:
        if issubclass(kind, dict):
            for key, item in dict.items(value):
                yield f"{self.of(key, depth)}: {self.of(item, depth)}"
        elif issubclass(kind, SETS):
            base: Any = next(each for each in SETS if issubclass(kind, each))
            yield from sorted(self.of(each, depth) for each in base.__iter__(value))
        elif issubclass(kind, SEQUENCES):
            base = next(each for each in SEQUENCES if issubclass(kind, each))
            yield from (self.of(each, depth) for each in base.__iter__(value))
        for name, item in fields_of(value, kind):
            yield f"{name}={self.of(item, depth)}"


def fields_of(value: object, kind: type) -> Iterator[tuple[str, object]]:
    """An object's attributes, without properties."""
    with suppress(AttributeError, TypeError, ValueError):
        yield from dict(object.__getattribute__(value, "__dict__")).items()
    for each in kind.__mro__[:-1]:
        for name, descriptor in vars(each).items():
            if isinstance(descriptor, MemberDescriptorType):
                with suppress(AttributeError):
                    yield name, descriptor.__get__(value)


def is_project(path: str) -> bool:
    """Whether code belongs to the project or its tests."""
    return path.startswith(WORKSPACE) and not path.startswith(FOLDER)


def write(result: dict[str, object]) -> None:
    with open(os.path.join(FOLDER, "watched.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)


def pytest_configure(config: pytest.Config) -> None:
    with open(os.path.join(FOLDER, "watch.json"), encoding="utf-8") as file:
        told = json.load(file)
    watcher = Tracker(**told) if "code" in told else Meter(**told)
    config.pluginmanager.register(watcher, "stepinto-watcher")
