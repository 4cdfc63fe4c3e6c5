"""The record of how a project's own repository was filled, and its layout."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sandbox.java.project_repository import RETRY_SECONDS, ProjectRepository


@pytest.fixture
def own(tmp_path: Path) -> ProjectRepository:
    project = ProjectRepository(tmp_path / "0123")
    with project.locked():
        return project


def test_when_it_is_filled_anew(own: ProjectRepository) -> None:
    assert not own.is_filled("tree")
    own.note_attempt("tree")
    assert own.is_filled("tree")
    assert own.is_filled("other"), "other sources need nothing else"
    own.note_lacking()
    assert not own.is_filled("other")
    assert own.is_filled("tree"), "the same build would ask for the same"
    earlier = time.time() - RETRY_SECONDS - 1
    os.utime(own.folder.with_suffix(".attempts"), (earlier, earlier))
    assert not own.is_filled("tree"), "what made the build fail may be gone"
    own.note_attempt("tree")
    assert own.is_filled("other")


def test_files_and_lists_of_versions(own: ProjectRepository, tmp_path: Path) -> None:
    jar, versions = tmp_path / "jar", tmp_path / "versions"
    for text in ("first", "second"):
        jar.write_text(text)
        versions.write_text(text)
        given = {"org/a/1/a-1.jar": jar, "org/a/maven-metadata.xml": versions}
        own.fill(given, "https://example.org/m2")
    folder = own.folder / "org/a"
    texts = {path.name: path.read_text() for path in folder.rglob("*.*")}
    names = ["a-1.jar", "maven-metadata-stepinto.xml", "maven-metadata.xml"]
    assert texts == dict.fromkeys(names, "second")
    assert folder.stat().st_mode & 0o005 == 0o005
    assert "https://example.org/m2" in (own.folder / "settings.xml").read_text()
    assert own.folder.as_uri() in (own.folder / "repositories.gradle").read_text()
