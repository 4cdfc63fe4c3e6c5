"""What a killed run has left running in a local sandbox."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.leftovers import OwnedFolder, remove_leftovers

STARTS_AND_IS_KILLED = """
import os, signal, subprocess
from sandbox.leftovers import OwnedFolder

folder = OwnedFolder().path
options = ["--unshare-pid", "--ro-bind", "/", "/", "--bind", str(folder), "/mnt"]
command = ["bwrap", *options, "sleep", "1027"]
print(subprocess.Popen(command, stdout=subprocess.DEVNULL).pid, folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_sandbox_that_outlived_its_owner_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that has not yet asked the kernel to end with it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner = subprocess.run(
        [sys.executable, "-c", STARTS_AND_IS_KILLED],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert owner.returncode == -signal.SIGKILL
    number, folder = owner.stdout.split()
    with subprocess.Popen(
        ["tail", "-f", "/dev/null", f"{folder}/none"], stderr=subprocess.DEVNULL
    ) as bystander:
        assert runs(number)
        assert remove_leftovers() == [Path(folder)]
        assert not Path(folder).exists()
        deadline = time.monotonic() + 30
        while runs(number):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert bystander.poll() is None
        bystander.kill()


def runs(number: str) -> bool:
    try:
        return "\nState:\tZ" not in Path("/proc", number, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_folder_of_the_users_is_not_taken_for_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    users = tmp_path / "stepinto-runs"
    users.mkdir()
    assert remove_leftovers() == []
    assert users.is_dir()


def test_threads_that_remove_one_folder_close_its_lock_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in range(100):
            folder = OwnedFolder()
            for done in [pool.submit(folder.remove) for _ in range(4)]:
                done.result()
            assert not folder.path.exists()
