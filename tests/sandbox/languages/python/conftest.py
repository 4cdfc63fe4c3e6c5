"""Projects whose build backend is among their own files, so that no index is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox.packages import packages_folder, runner_python

BUILD = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import os, pathlib, zipfile

METADATA = "Metadata-Version: 2.1\\nName: {name}\\nVersion: " + {version} + "\\n{more}"
ENTRY_POINTS = {entry_points!r}


def prepare_metadata_for_build_wheel(folder, settings=None):
    about = pathlib.Path(folder, "made.dist-info")
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return about.name


def build_wheel(folder, settings=None, metadata=None):
    about = "{name}-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder, "{name}-1.0-py3-none-any.whl"), "w") as archive:
        archive.write("{name}.py")
        archive.writestr(about + "/METADATA", METADATA)
        archive.writestr(about + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n")
        archive.writestr(about + "/RECORD", "")
    return "{name}-1.0-py3-none-any.whl"
"""


def backend(
    name: str = "acme", version: str = "'1.0'", more: str = "", entry_points: str = ""
) -> str:
    """The text of a backend; `version` is an expression."""
    return BACKEND.format(name=name, version=version, more=more, entry_points=entry_points)


def tree(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; pip has no index, and the folder `index` of the test's."""
    runner_python()
    folder = tmp_path / "cache"
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    packages_folder.cache_clear()
    return folder
