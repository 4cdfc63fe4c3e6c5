"""The folder under test: which files are the program's own, and their contents."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List

from .interpreter import STARTUP_PATH
from .own import basename, join, modified, passed_file_time, read_file, realpath, source_lines, walk
from .source import SourceFile, decode_source
from .wire import CONTROL, Refusal

SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "venv"}
RUNNERS = re.compile(r"[/\\](?:_pytest|pluggy|pytest|xdist|pytest_\w+|hypothesis)(?:[/\\]|\.py$)")
"""Matches the module of a test runner in a path below its import folder."""
INSTALLED = ("site-packages", "dist-packages")


class Workspace:
    """The folder under test: which files are the program's own, and their contents."""

    def __init__(self, root: str) -> None:
        self.root = realpath(root)
        self.started = passed_file_time()
        self.news: List[str] = []
        """Notes for the next answer."""
        self.sources: Dict[str, SourceFile] = {}
        self.texts: Dict[str, List[str]] = {}
        self.paths: Dict[str, str] = {}
        self.script = ""
        """The script that is debugged, if it is outside of the folder."""
        self.mine_cache: Dict[str, bool] = {}
        self.internal_cache: Dict[str, bool] = {}
        below = self.root + os.sep
        paths = [realpath(path) for path in STARTUP_PATH]
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
        self.mine_cache.clear()

    def canonical(self, filename: str) -> str:
        path = self.paths.get(filename)
        if path is None:
            path = filename if filename.startswith("<") else realpath(filename)
            self.paths[filename] = path
        return path

    def relative(self, filename: str) -> str:
        path = self.canonical(filename)
        return path[len(self.root) + 1 :] if path.startswith(self.root + os.sep) else path

    def internal(self, filename: str) -> bool:
        """Whether a file belongs to the probe or to a test runner."""
        known = self.internal_cache.get(filename)
        if known is None:
            known = filename.startswith(("<stepinto", "<frozen", *self.internal_prefixes))
            known = known or self.in_runner(filename)
            self.internal_cache[filename] = known
        return known

    def in_runner(self, filename: str) -> bool:
        """Whether a file is of an installed test runner, not one that is itself under test."""
        folders = [filename[: found.start()] for found in RUNNERS.finditer(filename)]
        return any(
            basename(folder) in INSTALLED or realpath(folder) in self.import_folders
            for folder in folders
        )

    def mine(self, filename: str) -> bool:
        """Whether a file is the program's own: below the workspace and not installed there."""
        known = self.mine_cache.get(filename)
        if known is None:
            path = self.canonical(filename)
            inside = path == self.script or path.startswith(self.root + os.sep)
            known = inside and "-packages" + os.sep not in filename and not self.internal(filename)
            self.mine_cache[filename] = known
        return known

    def text(self, filename: str) -> List[str]:
        """The lines of a file when first shown; empty if there is none."""
        path = self.canonical(filename)
        lines = self.texts.get(path)
        if lines is None:
            try:
                lines = source_lines(decode_source(read_file(path)))
                self.news += self.written_since(path)
            except OSError:
                lines = []
            self.texts[path] = lines
        return lines

    def written_since(self, path: str) -> List[str]:
        """A note if a file of the program has changed since the program started."""
        if not self.mine(path) or modified(path) <= self.started:
            return []
        message = "{} was written after the program started, which may run it as it was before: "
        return [message.format(self.relative(path)) + "restart to run it as it is"]

    def line(self, filename: str, number: int) -> str:
        lines = self.text(filename)
        return lines[number - 1].strip().translate(CONTROL) if 0 < number <= len(lines) else ""

    def source(self, path: str) -> SourceFile:
        if path not in self.sources:
            try:
                self.sources[path] = SourceFile(path)
            except (SyntaxError, ValueError) as error:
                message = f"{self.relative(path)} does not compile: {error}"
                raise Refusal(message) from None
            except OSError as error:
                raise Refusal(f"{path} can't be read: {error}") from None
        return self.sources[path]

    def files(self) -> Iterator[str]:
        """Every Python file below the workspace, and the script that is debugged."""
        if self.script and not self.script.startswith(self.root + os.sep):
            yield self.script
        for folder, names, files in walk(self.root):
            names[:] = sorted(
                name for name in names if name[0] != "." and name not in SKIPPED_FOLDERS
            )
            for name in sorted(files):
                if name.endswith(".py"):
                    yield join(folder, name)
