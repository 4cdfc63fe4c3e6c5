"""The build tools of wrappers, from a repository of this machine."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.errors import SandboxUnavailable
from sandbox.java.artifacts import Repository
from sandbox.java.distributions import MAVEN, gradle_for, maven_for, unpacked
from tests.sandbox.java.repository_server import MavenServer

ADDRESS = "https\\://example.org/x/"
POM = {"pom.xml": b"<project/>"}
MAVEN_WRAPPER = ".mvn/wrapper/maven-wrapper.properties"
GRADLE_WRAPPER = "gradle/wrapper/gradle-wrapper.properties"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MavenServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with MavenServer(tmp_path / "repository").running() as running:
        yield running


def wrapper(path: str, archive: str) -> dict[str, bytes]:
    return {path: f"a=b\ndistributionUrl={ADDRESS}{archive}\n".encode()}


@pytest.mark.parametrize(
    ("archive", "version"),
    [
        ("apache-maven-3.8.8-bin.zip", "3.8.8"),
        ("apache-maven-4.0.0-rc-1-bin.zip", MAVEN),
        ("apache-maven-../../x-bin.zip", MAVEN),
    ],
)
def test_the_maven_of_a_wrapper(archive: str, version: str) -> None:
    found = maven_for({**POM, **wrapper(MAVEN_WRAPPER, archive)})
    assert found is not None
    assert found.name == f"apache-maven-{version}"


def test_the_gradle_of_a_wrapper() -> None:
    found = gradle_for(wrapper(GRADLE_WRAPPER, "gradle-8.10.1-all.zip"))
    assert found is not None
    assert (found.name, found.archive) == ("gradle-8.10.1", "gradle-8.10.1-bin.zip")
    assert gradle_for(wrapper(GRADLE_WRAPPER, "gradle-../x-bin.zip")) is None
    assert gradle_for(POM) is None
    assert maven_for({}) is None


def test_they_are_unpacked_once(server: MavenServer) -> None:
    wanted = gradle_for(wrapper(GRADLE_WRAPPER, "gradle-6.3-bin.zip"))
    assert wanted is not None
    repositories = [Repository(server.url)]
    assert unpacked(wanted, repositories) is None
    server.folder.mkdir()
    with zipfile.ZipFile(server.folder / wanted.archive, "w") as archive:
        archive.writestr("gradle-6.3/bin/gradle", "#!/bin/sh\n")
    folder = unpacked(wanted, repositories)
    assert folder is not None
    assert (folder / "bin/gradle").stat().st_mode & 0o111 == 0o111
    server.stop()
    assert unpacked(wanted, repositories) == folder


def test_an_archive_that_leads_elsewhere(server: MavenServer, tmp_path: Path) -> None:
    wanted = maven_for(POM)
    assert wanted is not None
    place = server.folder / wanted.archive
    place.parent.mkdir(parents=True)
    with tarfile.open(place, "w:gz") as archive:
        entry = tarfile.TarInfo("../../../written")
        archive.addfile(entry, io.BytesIO())
    with pytest.raises(SandboxUnavailable, match="can't be fetched"):
        unpacked(wanted, [Repository(server.url)])
    assert not list(tmp_path.rglob("written"))
