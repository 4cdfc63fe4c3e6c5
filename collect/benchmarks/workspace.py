"""A bug's sandbox: opened with what its tests need, and changes to the code in it."""

from __future__ import annotations

from collections.abc import Mapping

from collect.benchmarks.base import Environment, Instance
from collect.patches import apply_patch
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError


def open_instance_sandbox(config: SandboxConfig, instance: Instance) -> Sandbox:
    """A fresh sandbox with an empty workspace, and what the bug's tests need beside their files.

    Raises SandboxUnavailable, ImageMissing.
    """
    return open_sandbox(with_environment(config, instance.environment), instance.image)


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


def patch_workspace(sandbox: Sandbox, patch: str) -> None:
    """Apply a unified diff to the workspace. Raises PatchError, SandboxFileError."""
    before = sandbox.read_tree()
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
