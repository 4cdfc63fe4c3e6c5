"""The StepInto version that made a row."""

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
    """The commit of a source checkout, with `-dirty` if it was changed; None for an installed
    package.
    """
    if not (REPOSITORY / ".git").exists():
        return None
    git, quiet = ["git", "-C", str(REPOSITORY)], subprocess.DEVNULL
    try:
        commit = subprocess.check_output(
            [*git, "rev-parse", "HEAD"], text=True, stderr=quiet
        ).strip()
        changed = subprocess.check_output([*git, "status", "--porcelain"], stderr=quiet)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def digest(facts: Any) -> str:
    """16 hexadecimal digits that depend only on the facts, given as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
