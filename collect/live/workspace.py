"""The workspace of a debug session, laid out anew before each start: only what has changed since it
was laid out last, by the user or by a program there, is written again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from collect.benchmarks.base import Instance
from collect.benchmarks.workspace import (
    open_instance_sandbox,
    options_of,
    reset_workspace,
    run_checked,
    with_environment,
)
from sandbox import Command, Sandbox, SandboxConfig
from sandbox.base import backend_name
from sandbox.environment import HOME
from sandbox.errors import SandboxFileError
from sandbox.languages.python.pytest_options import with_project_options
from sandbox.shell import FOLDER, WHOLE

FOLDERS = ("-type", "d", "-printf", r"%P\0d %m\0")
OTHERS = ("-printf", r"%P\0%y %m %s %i %T@ %C@\0")
"""A program can set a file's time of modification (%T), not that of its last change (%C). That is
as coarse as the kernel's ticks, of 10 ms at most; two processes start between a write and the first
program, the list of files and the program's sandbox, which takes longer."""
LIST_FILES = ("find", ".", "-mindepth", "1", "(", *FOLDERS, "-o", *OTHERS, ")")
REMOVE_FILES = ("xargs", "-0", "-r", "rm", "-rf", "--")
EMPTY_TMP = ("find", "/tmp", "-mindepth", "1")
BUILDS = (f"{FOLDER}*", HOME, f"{HOME}/build*")
"""What StepInto's own builds, and those by links (`prepare_java_workspace`) make."""


@dataclass
class LiveWorkspace:
    """A sandbox's workspace. No program may run in it while it is laid out."""

    sandbox: Sandbox
    config: SandboxConfig
    """What the sandbox was to be like, for another start that wants the same."""
    _files: Mapping[str, bytes] = field(default_factory=dict)
    """As they were laid out."""
    _found: Mapping[str, str] = field(default_factory=dict)
    """What `LIST_FILES` said of each path then; empty if the sandbox has no such `find`."""

    @classmethod
    def open(cls, config: SandboxConfig, instance: Instance) -> LiveWorkspace:
        """A new one. Raises SandboxError."""
        return cls(open_instance_sandbox(config, instance), _wanted(config, instance))

    def fits(self, config: SandboxConfig, instance: Instance) -> bool:
        """Whether a new one would be like this one, but for its files."""
        return self.config == _wanted(config, instance)

    def lay_out(self, files: Mapping[str, bytes]) -> None:
        """Make these files the workspace, and all there is. Raises SandboxError."""
        found = self._update(files) if self._found else {}
        if not found:
            reset_workspace(self.sandbox, files)
            found = self._list()
        self._files, self._found = files, found

    def empty_tmp(self, keep_builds: bool = False) -> None:
        """Remove what programs have left outside the workspace; `keep_builds` keeps what Java's
        build tools made, which the next start checks as a restart does. Raises SandboxFileError if
        that can't be."""
        if backend_name(self.sandbox.config) == "local-unsafe":
            raise SandboxFileError("without a sandbox, /tmp is the machine's")
        kept = [word for path in BUILDS for word in ("-not", "-path", path)] if keep_builds else []
        run_checked(self.sandbox, "can't empty /tmp", *EMPTY_TMP, *kept, "-delete")
        run_checked(self.sandbox, "can't make the home", "mkdir", "-p", HOME)

    def _update(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Make the workspace these files by removing and writing some, and list them; empty if it
        can't be made so."""
        found, folders = self._list(), _folders_of(files)
        if any(found.get(path) != said for path, said in self._found.items() if _is_folder(said)):
            return {}  # removed, replaced, or with other rights
        kept = {
            path
            for path, data in files.items()
            if found.get(path, "") == self._found.get(path) and self._files.get(path) == data
        }
        # What has changed is removed, too: it may have other rights now, or be a link.
        removed = [path for path in found if path not in kept and path not in folders]
        self.sandbox.run(Command(REMOVE_FILES, stdin="\0".join(removed).encode()))
        with suppress(SandboxFileError):
            self.sandbox.write_files({path: files[path] for path in files.keys() - kept})
        # Whatever could not be removed or written shows now.
        now = self._list()
        as_wanted = now.keys() == files.keys() | folders
        of_a_kind = all(_is_folder(said) == (path in folders) for path, said in now.items())
        changed = any(now.get(path) != found.get(path) for path in kept)
        return now if as_wanted and of_a_kind and not changed else {}

    def _list(self) -> dict[str, str]:
        """What there is, and as it is; empty if it can't be listed, as in folders without
        rights."""
        result = self.sandbox.run(Command(LIST_FILES, output_limit=WHOLE))
        if result.exit_code != 0 or result.truncated:
            return {}
        words = result.output.split("\0")[:-1]
        return dict(zip(words[::2], words[1::2], strict=True))


def _wanted(config: SandboxConfig, instance: Instance) -> SandboxConfig:
    wanted = with_environment(config, instance.environment, instance.files)
    if instance.language != "python":
        return wanted
    variables = with_project_options(wanted.environment, options_of(instance))
    return wanted.model_copy(update={"environment": variables})


def _is_folder(said: str) -> bool:
    return said.startswith("d ")


def _folders_of(files: Mapping[str, bytes]) -> set[str]:
    folders: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in files}:
        folders.update(map(str, [PurePosixPath(folder), *PurePosixPath(folder).parents]))
    return folders - {"."}
