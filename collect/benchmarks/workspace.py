"""The workspace of a bug in a sandbox: set up, patched, and compared with earlier states.

It holds the bug's files, or is a git repository of the image.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from posixpath import dirname

from collect.benchmarks.base import Benchmark, Environment, Instance
from collect.benchmarks.git_workspace import (
    apply_with_git,
    changed_files,
    tracked_files,
    tree_of,
)
from collect.code.patches import apply_patch, changed_paths, renamed_files
from collect.errors import ConfigError
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.bubblewrap import find_interpreter
from sandbox.errors import SandboxFileError
from sandbox.packages import packages_folder, pytest_plugins

MAX_NEIGHBOURS = 60
"""Limit of files read from the same folders as those of a gold patch."""
BUILD_FILES = ("pom.xml", "build.gradle*", "settings.gradle*", "*/pom.xml", "*/build.gradle*")


def open_instance_sandbox(config: SandboxConfig, instance: Instance) -> Sandbox:
    """A fresh sandbox with an empty workspace or the image's, and what the bug's tests need besides
    their files.

    Raises SandboxUnavailable, ImageMissing.
    """
    configured = with_environment(config, instance.environment)
    if instance.language == "python" and instance.image is None:
        # pytest's third-party plugins, by the same rule for verdicts, debug sessions and agents'
        # commands: those that the packages bring or PYTEST_PLUGINS names.
        variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        if configured.backend == "local" and configured.packages:
            python = find_interpreter(configured.python or sys.executable).executable
            if plugins := pytest_plugins(packages_folder(python, configured.packages)):
                variables["PYTEST_PLUGINS"] = ",".join(plugins)
        variables |= configured.environment
        configured = configured.model_copy(update={"environment": variables})
    return open_sandbox(configured, instance.image, instance.image_workspace)


def with_environment(config: SandboxConfig, environment: Environment) -> SandboxConfig:
    """The config with an environment added; the config's own settings come first."""
    packages = environment.packages if config.backend == "local" else ()
    return config.model_copy(
        update={
            "packages": tuple(dict.fromkeys((*config.packages, *packages))),
            "import_paths": tuple(dict.fromkeys((*config.import_paths, *environment.import_paths))),
            "environment": {**environment.variables, **config.environment},
        }
    )


def prepare_patched(
    benchmark: Benchmark, instance: Instance, sandbox: Sandbox, patch: str
) -> Instance:
    """Write the buggy tree with a patch applied, and the hidden tests; returns the bug in that
    state.

    Raises PatchError, SandboxError.
    """
    if instance.image_workspace is None:
        files = {**apply_patch(instance.files, patch), **instance.hidden_files}
        patched = replace(instance, files=files)
        benchmark.prepare(patched, sandbox)
        return patched
    benchmark.prepare(instance, sandbox)
    patch_workspace(sandbox, patch)
    sandbox.write_files(instance.hidden_files)
    return instance


@dataclass(frozen=True)
class Snapshot:
    """A workspace's state at one time."""

    files: Mapping[str, bytes] | None
    """All files of a small workspace; None for a repository."""
    tree: str = ""
    """The id of the repository's tree, which git computes from the contents."""

    def changes(self, sandbox: Sandbox) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
        """Files before and after; unchanged ones may be missing. Raises SandboxFileError if the
        workspace can't be read."""
        if self.files is None:
            return changed_files(sandbox, self.tree)
        return self.files, sandbox.read_tree()


def snapshot(instance: Instance, sandbox: Sandbox) -> Snapshot:
    if instance.image_workspace is None:
        return Snapshot(sandbox.read_tree())
    return Snapshot(None, tree_of(sandbox))


def with_sources(instance: Instance, sandbox: Sandbox) -> Instance:
    """A bug whose code is in the image, with the files around its gold patch.

    These are the files that the patch changes, the sources next to them, and the build files, for
    the oracle and to find the build's folders. A bug that has files is returned unchanged.
    """
    if instance.image_workspace is None:
        return instance
    gold = sorted({path for pair in renamed_files(instance.gold_patch) for path in pair})
    suffix = ".java" if instance.language == "java" else ".py"
    folders = {dirname(path) for path in gold if path.endswith(suffix)}
    patterns = [f"{folder}/*{suffix}".lstrip("/") for folder in sorted(folders)]
    near = tracked_files(sandbox, *patterns) if patterns else []
    siblings = [path for path in near if dirname(path) in folders][:MAX_NEIGHBOURS]
    builds = tracked_files(sandbox, *BUILD_FILES) if instance.language == "java" else []
    return replace(instance, files=_read(sandbox, [*gold, *siblings, *builds]))


def patch_workspace(sandbox: Sandbox, patch: str) -> None:
    """Apply a unified diff to the workspace: exactly, or with git if it is a repository.

    Raises PatchError, SandboxFileError.
    """
    if sandbox.run(Command(["test", "-d", ".git"])).exit_code == 0:
        apply_with_git(sandbox, patch)
        return
    before = _read(sandbox, sorted(changed_paths(patch)))
    after = apply_patch(before, patch)
    sandbox.write_files({path: data for path, data in after.items() if before.get(path) != data})
    deleted = sorted(before.keys() - after.keys())
    if deleted:
        result = sandbox.run(Command(["rm", "-f", "--", *deleted]))
        if result.exit_code != 0:
            raise SandboxFileError(f"can't delete {', '.join(deleted)}: {result.output.strip()}")


def reset_workspace(sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
    """Reset the workspace to exactly these files: a killed test may not have cleaned up.

    Raises SandboxFileError.
    """
    result = sandbox.run(Command(["find", ".", "-mindepth", "1", "-delete"]))
    if result.exit_code != 0:
        raise SandboxFileError(f"can't empty the workspace: {result.output.strip()}")
    sandbox.write_files(files)


def _read(sandbox: Sandbox, paths: list[str]) -> dict[str, bytes]:
    files = {}
    for path in dict.fromkeys(paths):
        try:
            files[path] = sandbox.read_file(path)
        except SandboxFileError:
            continue
    return files


# Read and write folders on disk as trees of files.

LEFT_OUT = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
        *(".git", ".hg", ".tox", ".nox", ".venv", "venv", "node_modules", ".eggs"),
    }
)
"""Folders without any of the project's own files."""
MEGABYTE = 1024 * 1024


class TreeTooLarge(ConfigError):
    def __init__(self, place: Path, max_mb: int) -> None:
        super().__init__(f"{place}: more than {max_mb} MB of files")


def read_folder(
    folder: Path, left_out: Collection[str] = LEFT_OUT, max_mb: int | None = None
) -> dict[str, bytes]:
    """Every regular file, by path relative to the folder, except in folders with names in
    `left_out`. Links are skipped, because they may lead elsewhere.

    Raises TreeTooLarge before any reading if there are more than `max_mb` megabytes, ConfigError
    for a name that is not UTF-8.
    """
    paths = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in left_out]
        for path in (Path(root, name) for name in names if name not in left_out):
            if path.is_file() and not path.is_symlink():
                paths[path.relative_to(folder).as_posix()] = path
    # The same order on every machine.
    paths = dict(sorted(paths.items(), key=lambda item: item[1]))
    for name in paths:
        if not is_utf_8(name):
            raise ConfigError(f"{folder}: the name of {name!a} is not UTF-8: rename the file")
    if max_mb is not None:
        size = sum(path.stat().st_size for path in paths.values())
        if size > max_mb * MEGABYTE:
            raise TreeTooLarge(folder, max_mb)
    return {name: path.read_bytes() for name, path in paths.items()}


def folder_below(root: Path, named: str) -> Path:
    """The folder that a record names, relative to `root`, with links resolved.

    Raises ConfigError if it is outside: a record could name any folder of this machine, whose files
    would then be sent to models.
    """
    root = root.resolve()
    folder = (root / named).resolve()
    if not folder.is_relative_to(root):
        raise ConfigError(
            f"{named} is not below {root}: move or copy the repository there, and name it relative "
            "to that folder"
        )
    if not folder.is_dir():
        raise ConfigError(f"no such folder: {folder}; a name is relative to {root}")
    return folder


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def is_utf_8(name: str) -> bool:
    """Whether a name from the file system is valid text."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
