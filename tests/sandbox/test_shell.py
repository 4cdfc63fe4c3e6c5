"""Scripts whose output is longer than a sandbox keeps."""

from __future__ import annotations

import pytest

from sandbox.errors import SandboxFileError
from sandbox.shell import capture, write_bytes
from tests.sandbox.conftest import OpenSandbox


@pytest.mark.slow
def test_output_beyond_the_limit_comes_whole(open_backend: OpenSandbox) -> None:
    box = open_backend(output_limit=2_000)
    lines = "\n".join(map(str, range(1, 5_001))) + "\n"
    whole = capture(box, "seq 1 5000; exit 3")
    assert (whole.exit_code, whole.output) == (3, lines)
    assert capture(box, 'echo "$1" >&2', "short é").output == "short é\n"


def test_files_outside_the_workspace(open_backend: OpenSandbox) -> None:
    box = open_backend()
    write_bytes(box, "/tmp/deep/file", b"1\n2")
    assert box.read_file("/tmp/deep/file") == b"1\n2"
    with pytest.raises(SandboxFileError, match="/nowhere"):
        write_bytes(box, "/nowhere/file", b"")
