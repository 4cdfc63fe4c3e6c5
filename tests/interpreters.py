"""The CPython interpreters that tests debug programs on.

`python -m tests.interpreters` gives each one found a virtual environment with pytest, under
`.cache/interpreters`; tests use what is there and skip the rest with a reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
ENVIRONMENTS = Path(__file__).parent.parent / ".cache" / "interpreters"


@dataclass(frozen=True)
class Interpreter:
    """One CPython that a test can run programs on."""

    version: str
    """`3.8` and so on."""
    path: str
    has_pytest: bool

    @property
    def readable_paths(self) -> tuple[str, ...]:
        """Folders that a sandbox must be able to read to run it."""
        real = Path(self.path).resolve()
        prepared = [str(ENVIRONMENTS)] if ENVIRONMENTS.exists() else []
        return (str(real.parent.parent), *prepared)


SOME_VERSIONS = ("3.8", "3.11", "3.12")
"""The oldest, a middle one, and the first with `sys.monitoring`."""


def some_versions() -> list[Any]:
    """Those as a test's parameters; `make test` runs the last alone."""
    *others, last = SOME_VERSIONS
    return [*(pytest.param(each, marks=pytest.mark.slow) for each in others), last]


def each_version() -> list[Any]:
    """All versions as a test's parameters; `make test` runs the oldest and the newest that this
    machine has."""
    here = [version for version in VERSIONS if find_interpreter(version) is not None]
    quick = {*here[:1], *here[-1:]}
    slow = pytest.mark.slow
    return [each if each in quick else pytest.param(each, marks=slow) for each in VERSIONS]


@cache
def find_interpreter(version: str) -> Interpreter | None:
    """The interpreter of a version: with pytest where there is one, else any; None: absent."""
    prepared = ENVIRONMENTS / version / "bin" / "python"
    if prepared.exists():
        return Interpreter(version, str(prepared), has_pytest=True)
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Interpreter(version, sys.executable, has_pytest=True)
    found = _installed(version)
    return Interpreter(version, found, _runs(found, "import pytest")) if found else None


def _installed(version: str) -> str | None:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [str(path) for path in sorted(root.glob(f"{version}.*/bin/python"), reverse=True)]
    on_path = shutil.which(f"python{version}")
    for path in [*candidates, *([on_path] if on_path else [])]:
        if _runs(path, f"import sys; assert sys.version.startswith('{version}.')"):
            return path
    return None


def _runs(python: str, code: str) -> bool:
    result = subprocess.run([python, "-c", code], capture_output=True, check=False, timeout=60)
    return result.returncode == 0


def prepare(version: str) -> str:
    """Make the environment with pytest of one version; gives a line that says what was done."""
    folder = ENVIRONMENTS / version
    if (folder / "bin" / "python").exists():
        return f"{version}: ready in {folder}"
    python = _installed(version)
    if python is None:
        return f"{version}: no interpreter found"
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "pytest"]
    subprocess.run([*pip, "--disable-pip-version-check"], check=True)
    return f"{version}: installed in {folder}"


if __name__ == "__main__":
    for name in VERSIONS:
        print(prepare(name))
