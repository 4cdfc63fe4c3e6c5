"""Which StepInto made a row."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]


@cache
def code_version() -> str:
    """The installed package's version."""
    try:
        return version("stepinto")
    except PackageNotFoundError:
        return "uninstalled"


@cache
def code_commit() -> str | None:
    """The commit of a source checkout, `-dirty` where it was changed; None in an installed copy."""
    if not (REPOSITORY / ".git").exists():
        return None
    try:
        commit = _git("rev-parse", "HEAD")
        return f"{commit}-dirty" if _git("status", "--porcelain") else commit
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# What tells one piece of work from another.


def digest(facts: Any) -> str:
    """16 hexadecimal digits that are the same for the same facts, given as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
