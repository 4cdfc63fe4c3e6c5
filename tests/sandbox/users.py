"""Scripts that open sandboxes as the tests' own user, and as an ordinary one."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pty
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDINARY_USER = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
INSTALLED = Path(sysconfig.get_path("purelib"))

AS_ORDINARY = pytest.param(
    "ordinary",
    marks=[
        pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
        pytest.mark.skipif(
            not os.access(SYSTEM_PYTHON, os.X_OK) or sys.version_info[:2] != (3, 11),
            reason="needs the system's own Python 3.11, which another user can read",
        ),
    ],
)
USERS = ["own", AS_ORDINARY]
"""For tests that call `run_as` with each: that of the tests, mostly root, and an ordinary one."""


def run_as(user: str, script: str, *arguments: str, terminal: bool = False) -> str:
    """What a Python script prints that may import `sandbox`; it must leave no sandbox behind.

    With `terminal` it has a controlling terminal, as what a person starts.
    """
    with _folder_for(user) as folder:
        ordinary = user == "ordinary"
        python, packages = (SYSTEM_PYTHON, _packages()) if ordinary else (sys.executable, ROOT)
        command = [python, "-c", script, *arguments]
        ours, theirs = pty.openpty()
        try:
            answer = subprocess.run(
                ["setsid", "--ctty", "--wait", *command] if terminal else command,
                user=ORDINARY_USER if ordinary else None,
                group=ORDINARY_USER if ordinary else None,
                extra_groups=[] if ordinary else None,
                cwd=folder,
                env={
                    "PATH": "/usr/bin:/bin",
                    "TMPDIR": str(folder),
                    "XDG_CACHE_HOME": str(folder / "cache"),
                    "PYTHONPATH": str(packages),
                },
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=100,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(theirs)
        left = [path.name for path in folder.glob("*stepinto-*")]
    assert left == [], answer.stdout
    return answer.stdout


@contextmanager
def _folder_for(user: str) -> Iterator[Path]:
    # Test folders lie below folders that only their owner may enter.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        if user == "ordinary":
            os.chown(name, ORDINARY_USER, ORDINARY_USER)
        yield Path(name)


@cache
def _packages() -> Path:
    """What an ordinary user imports, compiled, for all tests of this process."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    _copy_packages(["sandbox", *SANDBOX_IMPORTS], folder)
    subprocess.run([SYSTEM_PYTHON, "-m", "compileall", "-q", str(folder)], check=True)
    folder.chmod(0o755)
    return folder


def run_tests_as_ordinary(module: Path, chosen: str) -> str:
    """What pytest says when an ordinary user runs those of a module's tests that `-k` chooses.

    They may import what tests of scoring import.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        python = str(folder / "venv/bin/python")
        venv = [SYSTEM_PYTHON, "-m", "venv", "--without-pip", "--symlinks", f"{name}/venv"]
        subprocess.run(venv, check=True)
        installed = next(folder.glob("venv/lib/python3.*/site-packages"))
        _copy_packages([*SANDBOX_IMPORTS, *TEST_IMPORTS], installed)
        _copy_packages(["collect", "configs", "sandbox", "tests"], folder)
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chown(folder, ORDINARY_USER, ORDINARY_USER)
        tests = [str(module.relative_to(ROOT)), "-k", chosen]
        answer = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            user=ORDINARY_USER,
            group=ORDINARY_USER,
            extra_groups=[],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": name, "HOME": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
    return answer.stdout


SANDBOX_IMPORTS = [
    *("annotated_types", "packaging", "pexpect", "ptyprocess", "pydantic", "pydantic_core"),
    *("typing_extensions", "typing_inspection"),
    # The sandbox's own environment is made of these.
    *("_pytest", "coverage", "iniconfig", "pluggy", "py", "pygments", "pytest"),
]
TEST_IMPORTS = [
    *("_hypothesis_globals", "_hypothesis_pytestplugin", "hypothesis", "markdown_it", "mdurl"),
    *("rich", "sortedcontainers", "tree_sitter", "tree_sitter_java", "unidiff"),
]


def _copy_packages(names: list[str], folder: Path) -> None:
    """What these are imported from, to a folder that any user can read."""
    for name in names:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        source = Path(spec.origin)
        if source.is_relative_to(INSTALLED):
            for metadata in INSTALLED.glob(f"{name}-*.dist-info"):
                shutil.copytree(metadata, folder / metadata.name)
        if source.name == "__init__.py":
            leave_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source.parent, folder / name, ignore=leave_out)
        else:
            shutil.copy(source, folder)
