"""Change the code under test inside a sandbox."""

from __future__ import annotations

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
