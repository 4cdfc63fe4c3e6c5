"""The folder under test: which files are the program's own, their contents, and which file or test
a name means."""

from __future__ import annotations

import os
import re
import sys
import types
from contextlib import suppress
from time import time_ns
from typing import Iterator

from .interpreter import import_standard
from .own import (
    basename,
    isfile,
    join,
    modified,
    monotonic,
    read_file,
    realpath,
    walk,
)
from .sources import NOT_COMPILED, Newer, SourceFile, lines_of, newer_text, signature
from .wire import CONTROL, Refusal

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
