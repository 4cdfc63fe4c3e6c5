"""Change the code under test inside a sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from collect.patches import apply_patch
from sandbox import Command, Sandbox
from sandbox.errors import SandboxFileError


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
