"""Virtual environments of a project, made without a network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from venv import EnvBuilder

from sandbox.packages import runner_python


def new_environment(folder: Path) -> Path:
    EnvBuilder(symlinks=True).create(folder)
    (site_packages,) = folder.glob("lib/python3*/site-packages")
    (runner,) = Path(runner_python()).parents[1].glob("lib/python3*/site-packages")
    shutil.copytree(runner, site_packages, dirs_exist_ok=True)
    return site_packages


def install(site_packages: Path, name: str, entry_points: str = "") -> Path:
    """What pip leaves of a distribution, without its files; returns that folder."""
    about = site_packages / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    (about / "RECORD").write_text(f"{name}/__init__.py,sha256=abc,20\n{name}.pth,,\n")
    return about


def pipe(path: Path) -> None:
    """A file that would block whoever reads it."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
