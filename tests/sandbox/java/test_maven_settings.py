"""The repositories that a user's `settings.xml` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import SandboxUnavailable
from sandbox.java.artifacts import Repository
from sandbox.java.maven_settings import CENTRAL, GRADLE_PLUGINS, repositories_of

MIRROR = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0">
  <servers>
    <server><id>ours</id><username>me</username><password>${env.WORD}</password></server>
  </servers>
  <mirrors>
    <mirror><id>other</id><mirrorOf>jboss</mirrorOf><url>https://jboss/m2</url></mirror>
    <mirror><id>ours</id><mirrorOf>external:*</mirrorOf><url>https://ours/m2/</url></mirror>
  </mirrors>
</settings>
"""
OURS = Repository("https://ours/m2", ("me", "secret"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORD", "secret")
    (tmp_path / ".m2").mkdir()
    return tmp_path


def write_settings(home: Path, text: str) -> None:
    (home / ".m2" / "settings.xml").write_text(text)


def test_without_settings() -> None:
    assert repositories_of(None) == (Repository(CENTRAL),)
    both = (Repository(CENTRAL), Repository(GRADLE_PLUGINS))
    assert repositories_of(None, with_gradle=True) == both
    assert repositories_of(()) == ()


def test_the_mirror_of_central_with_its_password(home: Path) -> None:
    write_settings(home, MIRROR)
    assert repositories_of(None) == (OURS,)
    # A setting of StepInto's comes first, and needs no password of its own.
    assert repositories_of(["https://two", "https://ours/m2"]) == (Repository("https://two"), OURS)


@pytest.mark.parametrize("mirrors", ["*,!central", "jboss", "external:http:*"])
def test_mirrors_of_other_repositories(home: Path, mirrors: str) -> None:
    write_settings(home, MIRROR.replace("external:*", mirrors))
    assert repositories_of(None) == (Repository(CENTRAL),)


def test_an_offline_user(home: Path) -> None:
    write_settings(home, "<settings><offline>true</offline></settings>")
    assert repositories_of(None) == ()


def test_settings_that_are_no_xml(home: Path) -> None:
    write_settings(home, "<settings>")
    with pytest.raises(SandboxUnavailable, match=r"settings\.xml can't be read"):
        repositories_of(None)
