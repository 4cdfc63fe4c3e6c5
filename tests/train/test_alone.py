"""Two starts of a stage on one run folder: the second is refused, and nothing half is taken."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.store.files import LOCK
from format.config import FormatConfig
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run
from train.config import TrainConfig
from train.stage import _disk_errors, run_train

HOLD = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1], 'a')\n"
    "fcntl.lockf(file, fcntl.LOCK_EX)\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


def refused_beside(lock: Path, start: Callable[[], object]) -> None:
    """Whether a start is refused while another process holds the lock."""
    lock.parent.mkdir(exist_ok=True)
    held = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="another process is writing"):
            start()
        other.kill()


def test_a_second_start_is_refused(tmp_path: Path, tiny_folder: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(2))
    config = FormatConfig(test_fraction=0)
    refused_beside(run / f".format{LOCK}", lambda: run_format(config, run))
    assert not (run / "sft").exists()
    run_format(config, run)
    training = TrainConfig(base_model=str(tiny_folder), max_length=4096, device="cpu")
    refused_beside(run / "train" / LOCK, lambda: run_train(training, run))
    assert not (run / "model").exists()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    import torch
    from safetensors import SafetensorError

    with pytest.raises(OSError, match="can't be written") as torchs, _disk_errors(tmp_path):
        torch.save(torch.zeros(1000), "/dev/full")
    with pytest.raises(OSError, match="No space left") as tensors, _disk_errors(tmp_path):
        raise SafetensorError("I/O error: No space left on device (os error 28)")
    assert torchs.value.errno == tensors.value.errno == errno.ENOSPC
    with pytest.raises(RuntimeError, match="shapes"), _disk_errors(tmp_path):
        raise RuntimeError("shapes differ")
