"""A project's build backend (PEP 517): its code, so it runs in a sandbox of its own, without a
network. What it requires is installed from wheels first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import dropwhile
from textwrap import shorten

from sandbox.base import Command, Sandbox, SandboxConfig, open_sandbox, require_package_name
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.project_files import read_pyproject, table_of
from sandbox.languages.python.projects import files_below

BACKEND_SECONDS = 60.0
"""Time limit of one call of a backend."""
LIMITS = SandboxConfig(memory_mb=2048, disk_mb=1024, command_timeout=BACKEND_SECONDS)
SHOWN_OUTPUT = 400
"""Characters of a backend's error, or else of the end of its output, that a message shows."""
MAX_ANSWER_BYTES = 64 * 1024
TREE, OUT = "tree", "out"
"""Folders of the sandbox's workspace."""
_ANSWER = "/tmp/answer.json"
_CALL = """
import functools, importlib, json, sys
asked = json.load(sys.stdin)
sys.path[:0] = asked["path"]
module, _, names = asked["backend"].partition(":")
names = [name for name in names.split(".") if name]
backend = functools.reduce(getattr, names, importlib.import_module(module))
hook = getattr(backend, asked["hook"], None)
answer = None if hook is None else hook(*asked["arguments"])
with open(asked["answer"], "w") as file:
    json.dump(answer, file)
"""
LEGACY = "setuptools.build_meta:__legacy__"
"""The backend of projects that name none (PEP 517)."""


class BackendFailed(SandboxUnavailable):
    """A backend can't be run, or fails; the message says why."""


@dataclass(frozen=True)
class BuildSystem:
    """The table `build-system` of pyproject.toml (PEP 518)."""

    requires: tuple[str, ...] = ("setuptools", "wheel")
    backend: str = LEGACY
    path: tuple[str, ...] = ()
    """Folders of the project in which the backend is."""


def read_build_system(files: Mapping[str, bytes]) -> BuildSystem:
    """Raises BackendFailed if it requires something else than packages by name."""
    table = table_of(read_pyproject(files), "build-system")
    requires, path = table.get("requires"), table.get("backend-path")
    if not isinstance(requires, list):
        return BuildSystem()
    try:
        names = tuple(require_package_name(str(text)) for text in requires)
    except ValueError as error:
        raise BackendFailed(f"build-system.requires: {error}") from error
    folders = tuple(map(str, path)) if isinstance(path, list) else ()
    return BuildSystem(names, str(table.get("build-backend") or LEGACY), folders)


@dataclass(frozen=True)
class Backend:
    """A backend beside its project, whose repository is in `TREE` of a sandbox."""

    sandbox: Sandbox
    system: BuildSystem
    folder: str
    """The project's, in the repository."""

    def call(self, hook: str, *arguments: object) -> object:
        """What a hook answers; None if the backend has no such hook. Raises BackendFailed."""
        project = f"{self.sandbox.workspace}/{TREE}/{self.folder}"
        asked = {
            "path": [f"{project}/{folder}" for folder in self.system.path],
            "backend": self.system.backend,
            "hook": hook,
            "arguments": arguments,
            "answer": _ANSWER,
        }
        argv = [self.sandbox.python, "-c", _CALL]
        stdin = json.dumps(asked).encode()
        result = self.sandbox.run(Command(argv, cwd=project, stdin=stdin))
        if result.timed_out:
            raise BackendFailed(f"{self.system.backend} did not end in {BACKEND_SECONDS:.0f} s")
        if result.exit_code != 0:
            raise BackendFailed(f"{self.system.backend} failed: {_why(result.output)}")
        try:
            return json.loads(self.sandbox.read_file(_ANSWER, MAX_ANSWER_BYTES))
        except (ValueError, RecursionError) as error:
            raise BackendFailed(f"{self.system.backend} gave no answer: {error}") from error

    @property
    def out(self) -> str:
        return f"{self.sandbox.workspace}/{OUT}"


@contextmanager
def open_backend(
    files: Mapping[str, bytes],
    hook: str,
    python: str | None,
    variables: Mapping[str, str],
    folder: str = "",
) -> Iterator[Backend]:
    """The backend of the project in a folder of a repository, with all that its `hook` (`wheel`,
    `editable`) requires. `python` is as in `SandboxConfig`. Raises BackendFailed, SandboxError."""
    system = read_build_system(files_below(files, folder))
    with _opened(files, system.requires, python, variables) as sandbox:
        backend = Backend(sandbox, system, folder)
        more = _names(backend.call(f"get_requires_for_build_{hook}", None), system.requires)
        if not more:
            yield backend
            return
    with _opened(files, (*system.requires, *more), python, variables) as sandbox:
        yield Backend(sandbox, system, folder)


def _why(output: str) -> str:
    """The error of a traceback, or else the end of an output."""
    lines = output.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    if not frames:
        return _end(output)
    error = dropwhile(lambda line: line.startswith(" "), lines[frames[-1] :])
    return shorten(" ".join(error), SHOWN_OUTPUT, placeholder=" ...")


def _end(output: str) -> str:
    """The end of an output, by whole words."""
    words = output.split()
    shown: list[str] = []
    length = 0
    while words and length + len(words[-1]) < SHOWN_OUTPUT:
        length += len(words[-1]) + 1
        shown.append(words.pop())
    if words:
        shown.append("..." if shown else words[-1][-SHOWN_OUTPUT:])
    return " ".join(reversed(shown))


def _names(answer: object, known: Sequence[str]) -> tuple[str, ...]:
    """Raises BackendFailed."""
    texts = answer if isinstance(answer, list) else []
    try:
        return tuple(require_package_name(str(text)) for text in texts if text not in known)
    except ValueError as error:
        raise BackendFailed(f"the build requires {error}") from error


@contextmanager
def _opened(
    files: Mapping[str, bytes],
    requires: Sequence[str],
    python: str | None,
    variables: Mapping[str, str],
) -> Iterator[Sandbox]:
    config = LIMITS.model_copy(
        update={"packages": tuple(requires), "python": python, "environment": dict(variables)}
    )
    with open_sandbox(config) as sandbox:
        sandbox.write_files({f"{TREE}/{path}": data for path, data in files.items()})
        sandbox.run(Command(["mkdir", "-p", TREE, OUT]))
        yield sandbox
