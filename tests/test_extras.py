"""The sets of extras that users are told to install can be installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sandbox.environment import install_command

ROOT = Path(__file__).resolve().parents[1]
TOLD = re.compile(
    r"pip install (?:--quiet )?(?P<constraints>(?:-c|--constraint) constraints\.txt )?"
    r"(?:-e|--editable) '\.\[(?P<extras>[\w,]+)\]'"
)


def told() -> list[tuple[str, bool]]:
    """The sets that pages, configs, the Makefile and error messages name, and whether with the
    constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [install_command(name) for name in project["optional-dependencies"]]
    texts.append((ROOT / "Makefile").read_text())
    for pattern in ("*.md", "docs/*.md", "configs/*.yaml"):
        texts += [file.read_text() for file in ROOT.glob(pattern)]
    found = [match for text in texts for match in TOLD.finditer(text)]
    return sorted({(match["extras"], match["constraints"] is not None) for match in found})


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a pip that resolves without downloading packages, which older ones do."""
    folder = str(tmp_path_factory.mktemp("pip"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "pip>=25"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"pip's index can't be reached: {done.stderr.strip()[-200:]}")
    return os.environ | {"PYTHONPATH": folder}


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("extras", "constrained"), told())
def test_a_set_of_extras_resolves(pip: dict[str, str], extras: str, constrained: bool) -> None:
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--constraint", "constraints.txt"] if constrained else []
    command.append(f".[{extras}]")
    done = subprocess.run(command, check=False, cwd=ROOT, env=pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
