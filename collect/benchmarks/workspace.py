"""The code under test inside a sandbox: laid out, changed, and compared with what it was.

It is the bug's files in an empty workspace, or a git repository that the image holds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from posixpath import dirname
from typing import Protocol

from collect.benchmarks.base import Benchmark, Environment, Instance
from collect.benchmarks.git_workspace import (
    apply_with_git,
    changed_files,
    tracked_files,
    tree_of,
)
from collect.patches import apply_patch, changed_paths
from collect.unified import renamed_files
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.bubblewrap import find_interpreter
from sandbox.errors import SandboxFileError
from sandbox.packages import packages_folder, pytest_plugins

Changes = tuple[Mapping[str, bytes], Mapping[str, bytes]]
"""Files as they were, and as they are; those that are the same may be left out."""
MAX_NEIGHBOURS = 60
"""Files of the same folders that are read along with those of a gold patch."""
BUILD_FILES = ("pom.xml", "build.gradle*", "settings.gradle*", "*/pom.xml", "*/build.gradle*")


def open_instance_sandbox(config: SandboxConfig, instance: Instance) -> Sandbox:
    """A fresh sandbox with an empty workspace or that of the bug's image, and what the bug's tests
    need beside their files.

    Raises SandboxUnavailable, ImageMissing.
    """
    configured = with_environment(config, instance.environment)
    if instance.language == "python" and instance.image is None:
        variables = {**_plugin_variables(configured), **configured.environment}
        configured = configured.model_copy(update={"environment": variables})
    return open_sandbox(configured, instance.image, instance.image_workspace)


def _plugin_variables(config: SandboxConfig) -> dict[str, str]:
    """One rule for verdicts, debug sessions and what agents run: of pytest's third-party plugins
    those load that the packages bring, or that PYTEST_PLUGINS names; the project's options apply.

    Raises SandboxUnavailable where the packages can't be installed.
    """
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if config.backend == "local" and config.packages:
        python = find_interpreter(config.python or sys.executable).executable
        plugins = pytest_plugins(packages_folder(python, config.packages))
        if plugins:
            variables["PYTEST_PLUGINS"] = ",".join(plugins)
    return variables


def with_environment(config: SandboxConfig, environment: Environment) -> SandboxConfig:
    """The config with an environment added; what the config itself asks for comes first."""
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
    """Lay out the buggy tree with a patch applied, and the hidden tests; the bug as it is then.

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


class Snapshot(Protocol):
    """What a workspace held at one time."""

    def changes(self, sandbox: Sandbox) -> Changes:
        """What has changed since. Raises SandboxFileError where the workspace can't be read."""


@dataclass(frozen=True)
class FilesSnapshot:
    """Of a small workspace: every file."""

    files: Mapping[str, bytes]

    def changes(self, sandbox: Sandbox) -> Changes:
        """All files of both times."""
        return self.files, sandbox.read_tree()


@dataclass(frozen=True)
class GitSnapshot:
    """Of a repository: the id of its tree, which git computes from all contents."""

    tree: str

    def changes(self, sandbox: Sandbox) -> Changes:
        """The files that differ."""
        return changed_files(sandbox, self.tree)


def snapshot(instance: Instance, sandbox: Sandbox) -> Snapshot:
    """The workspace as it is now. Raises SandboxError."""
    if instance.image_workspace is None:
        return FilesSnapshot(sandbox.read_tree())
    return GitSnapshot(tree_of(sandbox))


def with_sources(instance: Instance, sandbox: Sandbox) -> Instance:
    """A bug whose code the image holds, with the files that its gold patch is about.

    These are the files that it changes, the sources next to them, and the build files: what the
    oracle reads and what the build's folders are told by. A bug with files is returned as it is.
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
    """Apply a unified diff to the workspace: exactly, or as git does where that is a repository.

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
    """Leave nothing but these files: a test that was killed may not have cleaned up after itself.

    Raises SandboxFileError.
    """
    result = sandbox.run(Command(["find", ".", "-mindepth", "1", "-delete"]))
    if result.exit_code != 0:
        raise SandboxFileError(f"can't empty the workspace: {result.output.strip()}")
    sandbox.write_files(files)


def _read(sandbox: Sandbox, paths: list[str]) -> dict[str, bytes]:
    """Those of the files that are there."""
    files = {}
    for path in dict.fromkeys(paths):
        try:
            files[path] = sandbox.read_file(path)
        except SandboxFileError:
            continue
    return files
