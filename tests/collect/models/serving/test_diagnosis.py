"""What vLLM 0.32 says where it does not start."""

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
        ("KeyError: 'invalid tool call parser: hermes9 (chose from { apertus,", "hermes9 (chose"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "see what it said"),
        (
            "(Worker pid=1) ERROR [multiproc_executor.py:1063] RuntimeError: Unsupported CPU "
            "attention configuration: head_dim=16\nException: it failed",
            "first error is 'RuntimeError: Unsupported CPU attention",
        ),
        ("INFO nothing of note", "see what it said"),
    ],
)
def test_the_first_error_is_told(said: str, told: str) -> None:
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
