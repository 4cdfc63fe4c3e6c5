"""The folder under test: which files are the program's own, their text, functions and executable
lines, and which of these a name means."""

from __future__ import annotations

import ast
import dis
import os
import re
import sys
import types
from contextlib import suppress
from time import time_ns
from typing import Iterator, NamedTuple, Tuple

from .interpreter import body_lines, entry_offset, import_standard, line_at
from .own import (
    basename,
    isfile,
    join,
    modified,
    monotonic,
    read_file,
    realpath,
    source_lines,
    walk,
)
from .statements import failure_lines, statements, unseen_lines
from .wire import CONTROL, Refusal

NEW_LOCALS = 2
"""Flag of a function's code, unlike a class body's."""
NOT_COMPILED = (SyntaxError, ValueError, MemoryError, RecursionError)
"""What the compiler raises for a bad text; the last two for one that is nested too deeply."""


class Function(NamedTuple):
    """One function of a source file."""

    qualified: str
    first_line: int
    """The first decorator's line, as in `co_firstlineno`."""
    def_line: int
    body_line: int
    """The first statement after the docstring."""
    is_stub: bool
    """Whether it never runs: it is an overload, or there for type checkers alone."""

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]


Signature = Tuple[str, int, Tuple[str, ...], object, Tuple[int, ...]]


def signature(code: types.CodeType) -> Signature:
    """What tells code of one text of a file from code of another."""
    lines = tuple(line for _, line in dis.findlinestarts(code) if line)
    values = constant_key(code.co_consts)
    return code.co_name, code.co_firstlineno, code.co_names, values, lines


PLAIN_CONSTANTS = (type(None), type(...), bool, int, float, complex, str, bytes)


def constant_key(value: object) -> object:
    """What tells a constant from another; None for a function's code, and for objects of its own
    that the program has put in place of constants, whose code does not run."""
    kind = type(value)
    if kind is tuple:
        return tuple(map(constant_key, value))  # type: ignore[call-overload]
    if kind is frozenset:
        return frozenset(map(constant_key, value))  # type: ignore[call-overload]
    is_plain = any(kind is known for known in PLAIN_CONSTANTS)
    return repr(value) if is_plain else None


def signatures(code: types.CodeType) -> Iterator[Signature]:
    """Those of code, and of all code in it."""
    yield signature(code)
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from signatures(inner)


class Newer(NamedTuple):
    """A text that a file got after it was first read."""

    lines: list[str]
    signatures: frozenset[Signature]
    """Empty if it can't be compiled."""


def newer_text(path: str, data: bytes) -> Newer:
    own: frozenset[Signature] = frozenset()
    with suppress(*NOT_COMPILED):
        own = frozenset(signatures(compile(data, path, "exec", dont_inherit=True)))
    return Newer(lines_of(data), own)


class SourceFile:
    """The functions and executable lines of one file, by this interpreter's compiler."""

    def __init__(self, path: str, data: bytes) -> None:
        tree = ast.parse(data, path)
        self.statements = statements(tree)
        """By line: the statement that it is a part of."""
        self.unseen = unseen_lines(tree)
        self.functions: list[Function] = []
        self._collect(tree, "", False)
        self.unnamed: list[Function] = []
        """Lambdas, generator expressions and the like, qualified by what they are in."""
        self.owners: dict[int, set[tuple[str, int]]] = {}
        self.entry_lines: dict[tuple[str, int], int] = {}
        self.lambdas: dict[int, str] = {}
        """Lambdas with a body on a line that another code object owns."""
        self.classes: dict[tuple[str, int], str] = {}
        """The class around each code object, or that of which it is the body; empty if none is."""
        code = compile(tree, path, "exec", dont_inherit=True)
        headers = {
            line
            for function in self.functions
            for line in range(function.first_line, max(function.def_line + 1, function.body_line))
        }
        self._own(code, "", set(), headers | failure_lines(tree))
        self.signatures = frozenset(signatures(code))
        self._enclose(code, "")

    def _collect(self, node: ast.AST, prefix: str, is_typing: bool) -> None:
        """`is_typing`: the node is there for type checkers alone."""
        unseen = node.body if isinstance(node, ast.If) and named(node.test, "TYPE_CHECKING") else []
        for child in ast.iter_child_nodes(node):
            name = prefix
            is_stub = is_typing or child in unseen
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = prefix + child.name
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                body = child.body[1:] if ast.get_docstring(child) is not None else child.body
                line = (body or child.body)[0].lineno
                overloads = any(named(mark, "overload") for mark in child.decorator_list)
                found = Function(name, first, child.lineno, line, is_stub or overloads)
                self.functions.append(found)
                name += "."
            elif isinstance(child, ast.ClassDef):
                name = prefix + child.name + "."
            self._collect(child, name, is_stub)

    def _own(
        self, code: types.CodeType, qualified: str, taken: set[int], headers: set[int]
    ) -> None:
        """Assign each line to the outermost code object that runs it, function headers to none."""
        lines = {line for line in body_lines(code) if line not in headers}
        first, entry = code.co_firstlineno, line_at(code, entry_offset(code))
        if qualified and code.co_name.startswith("<"):
            self.unnamed.append(Function(qualified, first, first, entry, is_stub=False))
        if code.co_name == "<lambda>":
            self.lambdas.update(dict.fromkeys(lines & taken, qualified))
        own = lines - taken
        for line in own:
            self.owners.setdefault(line, set()).add((code.co_name, first))
        self.entry_lines[code.co_name, first] = entry
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                inner = f"{qualified}.{constant.co_name}".lstrip(".")
                self._own(constant, inner, taken | own, headers)

    def _enclose(self, code: types.CodeType, around: str) -> None:
        self.classes[code.co_name, code.co_firstlineno] = around
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                is_body = not inner.co_flags & NEW_LOCALS
                self._enclose(inner, inner.co_name if is_body else around)

    def function_at(self, line: int) -> Function | None:
        """The function whose header (decorators, signature, docstring) contains a line."""
        for function in self.functions:
            if function.first_line <= line < max(function.def_line + 1, function.body_line):
                return function
        return None


def named(node: ast.AST, name: str) -> bool:
    """Whether it is `name`, or `module.name`."""
    return getattr(node, "id", None) == name or getattr(node, "attr", None) == name


COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
BLANK = re.compile(rb"[ \t\f]*(?:#|$)")


def decode_source(data: bytes) -> str:
    """The text of a source file, by its BOM or its coding cookie (PEP 263).

    `tokenize.detect_encoding` refuses some files that CPython runs.
    """
    encoding = "utf-8-sig"
    for line in data.splitlines()[:2]:
        found = COOKIE.match(line)
        if found is not None and not data.startswith(b"\xef\xbb\xbf"):
            encoding = found.group(1).decode("ascii")
        if found is not None or not BLANK.match(line):
            break
    try:
        return data.decode(encoding, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def lines_of(data: bytes) -> list[str]:
    return source_lines(decode_source(data))


SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "venv"}
RUNNERS = re.compile(r"[/\\](?:_pytest|pluggy|pytest|xdist|pytest_\w+|hypothesis)(?:[/\\]|\.py$)")
"""Matches the module of a test runner in a path below its import folder."""
INSTALLED = ("site-packages", "dist-packages")
FILE_TIME_STEP = 10_000_000
"""How far Linux's file times lag behind its clock at most: one tick, in nanoseconds."""


SEARCH_SECONDS = 2.0
UNSEARCHED = ("__pycache__", "test", "tests", *INSTALLED)
"""Folders of the standard library, or of packages, that have no class to look for."""


class Workspace:
    """The folder under test: which files are the program's own, and their contents."""

    def __init__(self, root: str) -> None:
        self.root = realpath(root)
        self.started = time_ns() - FILE_TIME_STEP
        self.news: list[str] = []
        """Notes for the next answer."""
        self.contents: dict[str, bytes] = {}
        """Files when first read; mostly as the program runs them."""
        self.times: dict[str, int] = {}
        """When each of these was written, as far as is known."""
        self.newer: dict[str, Newer] = {}
        """The texts of files that were written after they were first read."""
        self.sources: dict[str, SourceFile] = {}
        self.texts: dict[str, list[str]] = {}
        self.paths: dict[str, str] = {}
        self.script = ""
        """The script that is debugged, if it is outside of the folder."""
        self.mine_cache: dict[str, bool] = {}
        self.internal_cache: dict[str, bool] = {}
        below = self.root + os.sep
        # The supervisor's own path has nothing of the project's.
        added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [realpath(path) for path in (*sys.path, *added)]
        self.import_folders = {path for path in paths if not (path + os.sep).startswith(below)}
        """Installed packages are outside the workspace, even if they are on `PYTHONPATH`."""
        library = os.path.dirname(os.__file__)
        self.internal_prefixes = tuple(
            os.path.join(library, name)
            for name in ("unittest/", "importlib/", "runpy.py", "threading.py")
        )

    def include(self, script: str) -> None:
        """Treat the script that is debugged as the program's own, wherever it is."""
        self.script = realpath(join(self.root, script))
        self.paths.clear()
        self.mine_cache.clear()

    def canonical(self, filename: str) -> str:
        """The path of a code object's file; a name in angle brackets if it has none.

        Code has any name that its maker gives it: Cython a relative one, `compile(text, name)` what
        it is called with, a template that of its text.
        """
        path = self.paths.get(filename)
        if path is None:
            path = filename if filename.startswith("<") else self._path_of(filename)
            self.paths[filename] = path
        return path

    def _path_of(self, filename: str) -> str:
        try:
            path = realpath(join(self.root, filename))
        except ValueError:  # it has a null character, or half a character
            return f"<{filename}>"
        if path.startswith(self.root + os.sep):
            is_file = path == self.script or self._is_python(path)
            return path if is_file else f"<{self.shown(path)}>"
        # Of a library in an archive only the importer knows.
        return path if filename[:1] == os.sep or isfile(path) else f"<{filename}>"

    def _is_python(self, path: str) -> bool:
        """Whether there is a file with Python's text, by its name or else by its syntax."""
        if path.endswith(".py") or not isfile(path):
            return isfile(path)
        try:
            self.source(path)
        except Refusal:
            return False
        return True

    def relative(self, filename: str) -> str:
        return self.shown(self.canonical(filename))

    def shown(self, path: str) -> str:
        """A file's path: from the workspace on if it is below."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + os.sep) else path

    def internal(self, filename: str) -> bool:
        """Whether a file belongs to the probe or to a test runner."""
        known = self.internal_cache.get(filename)
        if known is None:
            known = filename.startswith(("<stepinto", "<frozen", *self.internal_prefixes))
            # An installed test runner, not one that is itself under test.
            folders = [filename[: found.start()] for found in RUNNERS.finditer(filename)]
            known = known or any(
                basename(folder) in INSTALLED or realpath(folder) in self.import_folders
                for folder in folders
            )
            self.internal_cache[filename] = known
        return known

    def mine(self, filename: str) -> bool:
        """Whether a file is the program's own: below the workspace and not installed there."""
        known = self.mine_cache.get(filename)
        if known is None:
            path = self.canonical(filename)
            inside = path == self.script or path.startswith(self.root + os.sep)
            known = inside and "-packages" + os.sep not in filename and not self.internal(filename)
            self.mine_cache[filename] = known
        return known

    def read(self, path: str) -> bytes:
        """A file when first read. Raises OSError."""
        if path not in self.contents:
            self.times[path] = modified(path)
            self.contents[path] = read_file(path)
        return self.contents[path]

    def rewritten(self, path: str) -> bytes | None:
        """A file as it is now, if that is not how it was when first read."""
        known = self.contents.get(path)
        now = None if known is None else read_file(path)
        return None if now == known else now

    def runs_newer(self, code: types.CodeType) -> bool:
        """Whether code is of a text that its file got after it was first read, as by a reload.
        Code that is of no text, as pytest rewrites it, counts as that of the first."""
        path = self.canonical(code.co_filename)
        if path not in self.sources:
            return False
        with suppress(OSError):
            written = modified(path)
            if written != self.times[path]:
                self.times[path], data = written, read_file(path)
                if data != self.contents[path]:
                    self.newer[path] = newer_text(path, data)
        if path not in self.newer:
            return False
        own = signature(code)
        return own in self.newer[path].signatures and own not in self.sources[path].signatures

    def text_of(self, code: types.CodeType) -> list[str]:
        """The lines of the text that code is of, as far as is known."""
        if self.newer and self.runs_newer(code):
            return self.newer[self.canonical(code.co_filename)].lines
        return self.text(code.co_filename)

    def text(self, filename: str) -> list[str]:
        """The lines of a file when first read; empty if there is none."""
        path = self.canonical(filename)
        if path.startswith("<"):
            return []
        lines = self.texts.get(path)
        if lines is None:
            try:
                lines = lines_of(self.read(path))
                self.news += self.written_since(path)
            except OSError:
                lines = []
            self.texts[path] = lines
        return lines

    def written_since(self, path: str) -> list[str]:
        """A note if a file of the program has changed since the program started."""
        if not self.mine(path) or modified(path) <= self.started:
            return []
        message = "{} was written after the program started, which may run it as it was before: "
        return [message.format(self.relative(path)) + "restart to run it as it is"]

    def line(self, filename: str, number: int, code: types.CodeType | None = None) -> str:
        """One line of a file, or of the text that code of it is of."""
        lines = self.text(filename) if code is None else self.text_of(code)
        return lines[number - 1].strip().translate(CONTROL) if 0 < number <= len(lines) else ""

    def source(self, path: str) -> SourceFile:
        if path not in self.sources:
            try:
                self.sources[path] = self.parsed(path, self.read(path))
            except OSError as error:
                raise Refusal(f"{path} can't be read: {error}") from None
        return self.sources[path]

    def parsed(self, path: str, data: bytes) -> SourceFile:
        try:
            return SourceFile(path, data)
        except NOT_COMPILED as error:
            why = str(error) or "it is nested too deeply"
            raise Refusal(f"{self.shown(path)} does not compile: {why}") from None

    def files(self) -> Iterator[str]:
        """Every Python file below the workspace, and the script that is debugged; no broken link,
        pipe or device."""
        if not self.script.startswith(self.root + os.sep) and isfile(self.script):
            yield self.script
        for folder, names, files in walk(self.root):
            names[:] = sorted(
                name for name in names if name[0] != "." and name not in SKIPPED_FOLDERS
            )
            for name in sorted(files):
                if name.endswith(".py") and isfile(join(folder, name)):
                    yield join(folder, name)

    def installed_files(self) -> Iterator[str]:
        """The Python files that can be imported from outside the workspace, as far as they are
        found soon; the standard library's first, which are fewer."""
        deadline = monotonic() + SEARCH_SECONDS
        library = os.path.dirname(os.__file__)
        for folder in sorted(self.import_folders, key=lambda folder: (folder != library, folder)):
            for inside, names, files in walk(folder):
                names[:] = sorted(name for name in names if name not in UNSEARCHED)
                paths = [join(inside, name) for name in sorted(files) if name.endswith(".py")]
                yield from filter(isfile, paths)
                if monotonic() > deadline:
                    return


def python_files(folder: str) -> list[str]:
    """The Python files directly in a folder; none if it can't be read."""
    files = next(walk(folder), ("", [], []))[2]
    return [join(folder, name) for name in sorted(files) if name.endswith(".py")]


def find_file(workspace: Workspace, name: str) -> str:
    """The one file that a name means. Raises Refusal with the nearest names."""
    if "\0" in name:
        raise Refusal(f"there is no file {name!r}")
    direct = realpath(join(workspace.root, name))
    if isfile(direct):
        return direct
    known = list(workspace.files())
    if not direct.startswith(workspace.root + os.sep):  # a script elsewhere, such as below /tmp
        known += [path for path in python_files(os.path.dirname(direct)) if path not in known]
    ending = os.sep + name.lstrip("./")
    matches = [path for path in known if path.endswith(ending)]
    if len(matches) == 1:
        return matches[0]
    relative = [workspace.relative(path) for path in matches or known]
    if matches:
        raise Refusal("{} is ambiguous: {}".format(name, ", ".join(relative[:8])))
    raise Refusal(f"there is no file {name}{nearest(name, relative)}")


def find_source(workspace: Workspace, name: str) -> str:
    """The one file of the program, or else of an installed package, that a name means. Raises
    Refusal with the nearest names."""
    try:
        return find_file(workspace, name)
    except Refusal:
        for folder in sorted(workspace.import_folders):
            path = join(folder, name)
            if isfile(path):
                return realpath(path)
        raise


TEST_FILE = re.compile(r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|tests)\.py$")


def is_test_file(path: str) -> bool:
    return TEST_FILE.search(path) is not None


def list_tests(workspace: Workspace, files: list[str] | None = None) -> list[str]:
    """The node ids of the test functions in the given files, by default in all test files."""
    if files is None:
        files = [path for path in workspace.files() if is_test_file(path)]
    found = []
    for path in files[:500]:
        try:
            functions = workspace.source(path).functions
        except Refusal:
            continue  # a file that does not compile has no runnable tests
        known = {function.qualified for function in functions}
        for function in functions:
            parts = function.qualified.split(".")
            outer = [".".join(parts[:length]) for length in range(1, len(parts))]
            # pytest collects nothing that a function makes.
            if function.name.startswith("test") and known.isdisjoint(outer):
                qualified = function.qualified.replace(".", "::")
                found.append(f"{workspace.relative(path)}::{qualified}")
    return found


def list_doctests(workspace: Workspace, path: str) -> list[str]:
    """The node ids of the functions of a file whose docstring has examples, as pytest names them:
    by their module."""
    try:
        functions = workspace.source(path).functions
    except Refusal:
        return []
    folder, module = os.path.dirname(path), basename(path)[:-3]
    while isfile(join(folder, "__init__.py")):
        module = f"{basename(folder)}.{module}"
        folder = os.path.dirname(folder)
    lines, file = workspace.text(path), workspace.relative(path)
    return [
        f"{file}::{module}.{function.qualified}"
        for function in functions
        if any(">>>" in line for line in lines[function.def_line : function.body_line - 1])
    ]


def find_tests(workspace: Workspace, name: str) -> list[str]:
    """The node ids of the test functions, or of the test classes, with a bare name."""
    tests = list_tests(workspace)
    functions = [test for test in tests if test.endswith("::" + name)]
    classes = [test.rpartition("::")[0] for test in tests if f"::{name}::" in test]
    return functions or list(dict.fromkeys(classes))


def near_tests(workspace: Workspace, test_id: str) -> str:
    """The tests with the nearest names, in the named file or in all."""
    path, _, name = test_id.partition("::")
    wanted = re.split(r"[.:]", name or path)[-1].partition("[")[0]
    try:
        files = [find_file(workspace, path)] if path.endswith(".py") else None
    except Refusal as refusal:
        return f"; {refusal}"
    tests = list_tests(workspace, files)
    tests += [test for file in files or () for test in list_doctests(workspace, file)]
    names = {re.split("::|[.]", test)[-1]: test for test in reversed(tests)}
    longer = [name for name in names if name.startswith(wanted)][:3]
    found = dict.fromkeys([*longer, *closest(wanted, list(names))])
    close = [names[name] for name in found] or tests[:8]
    return "; nearest: " + ", ".join(close) if close else "; there are no tests here"


def closest(name: str, names: list[str]) -> list[str]:
    difflib = import_standard("difflib")
    found: list[str] = difflib.get_close_matches(name, names[:4000], 5, 0.5)
    return found


def nearest(name: str, names: list[str]) -> str:
    alike = closest(basename(name), [basename(path) for path in names])
    same = [path for each in alike for path in names if basename(path) == each]
    close = list(dict.fromkeys([*same, *closest(name, names)]))
    return "; nearest: " + ", ".join(close[:5]) if close else ""
