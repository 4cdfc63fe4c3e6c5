"""What vLLM 0.32 says where it does not start, in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.models.serving.server import explain

LOG = Path("runs/a/servers/sub.log")
HINT = (
    "WARNING [system_utils.py:1] Found ulimit of 1024 and failed to automatically increase with "
    "error `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n\n"
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("KeyError: 'invalid tool call parser: hermes9 (chose from { apertus,", "no such parser"),
        ("ValueError: No available memory for the cache blocks. Try", "raise server.gpu_memory"),
        (
            "ValueError: Free memory on device cuda:0 (1.2/79.1 GiB) on startup is less than "
            "desired GPU memory utilization (0.92, 72.8 GiB).",
            "another program holds the GPU's memory",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "does not suffice"),
        (
            "  Value error, User-specified max_model_len (999999) is greater than the derived "
            "max_model_len (max_position_embeddings=4096.0 or model_max_length=None in "
            "model's config.json). To allow",
            "lower server.max_context",
        ),
        ("HFValidationError: Repo id must use alphanumeric chars", "the model can't be had"),
        ("LocalEntryNotFoundError: Cannot find an appropriate cached snapshot", "can't be had"),
        ("Invalid repository ID or local directory specified: '/tmp'", "can't be had"),
        ("/usr/bin/python: No module named vllm", "vLLM is not there"),
        (
            "(Worker pid=1) ERROR [multiproc_executor.py:1063] RuntimeError: Unsupported CPU "
            "attention configuration: head_dim=16\nException: it failed",
            "first error is 'RuntimeError: Unsupported CPU attention",
        ),
        ("INFO nothing of note", "see what it said"),
    ],
)
def test_causes_are_told_plainly(said: str, told: str) -> None:
    explained = explain("it did not start", HINT + said, LOG)
    first, *lines = explained.splitlines()
    assert told in first
    assert str(LOG) in first
    assert lines[-1].strip() == said.splitlines()[-1].strip()


@pytest.mark.slow
def test_the_last_lines_are_bounded() -> None:
    lines = explain("it did not start", "x" * 9000 + "\n" * 3 + "line\n" * 500, LOG).splitlines()
    assert len(lines) == 13
    long = explain("it did not start", "x" * 9000, LOG)
    assert len(long) < 700
