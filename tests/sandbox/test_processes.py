"""That a sandboxed process ends when it is told to, from its first moment on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig
from sandbox.local import LocalSandbox


@pytest.mark.parametrize("milliseconds", [0, 2, 5, 10, 15, 20, 30])
def test_one_that_is_killed_as_it_starts_leaves_nothing(milliseconds: int) -> None:
    name = f"1013.{milliseconds}"
    with LocalSandbox(SandboxConfig()) as box:
        result = box.run(Command(["sleep", name], timeout=milliseconds / 1000))
        assert result.timed_out
    assert not [path for path in Path("/proc").glob("[0-9]*") if name in arguments(path)]


def arguments(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
