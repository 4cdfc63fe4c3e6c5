"""What the user is told, also where nobody can read it any more."""

from __future__ import annotations

import os
import sys

import pytest

from collect.telling import tell


def test_it_is_named_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a [b] line")
    assert capsys.readouterr() == ("", "stepinto: a [b] line\n")


def test_nobody_needs_to_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipe whose reader has ended."""
    theirs, ours = os.pipe()
    os.close(theirs)
    with open(ours, "w", buffering=1) as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        tell("to nobody")
        with pytest.raises(BrokenPipeError):
            print("which is so", file=gone, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), ours)
