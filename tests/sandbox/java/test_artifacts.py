"""Files of Maven repositories, from real servers: what is fetched, kept, checked and refused."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox.java import artifacts
from sandbox.java.artifacts import (
    MOST_REASONS,
    ArtifactRefused,
    ArtifactStore,
    Repository,
    is_artifact,
    serving,
)
from tests.sandbox.java.repository_server import MavenServer

JAR = "org/demo/tool/1.0/tool-1.0.jar"
METADATA = "org/demo/tool/maven-metadata.xml"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[MavenServer]:
    folder = tmp_path / "repository"
    for path, text in {JAR: "a jar", METADATA: "1.0"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    with MavenServer(folder).running() as server:
        yield server


def store_of(*servers: MavenServer, largest: int = 1000, most: int = 1000) -> ArtifactStore:
    return ArtifactStore([Repository(server.url) for server in servers], largest, most)


def text_of(store: ArtifactStore, path: str) -> str | None:
    file = store.get(path)
    return None if file is None else file.read_text()


def test_a_file_is_fetched_once(repository: MavenServer) -> None:
    assert text_of(store_of(repository), JAR) == "a jar"
    store = store_of(repository)
    assert text_of(store, JAR) == "a jar"
    assert list(store.given) == [JAR]
    assert repository.asked == [f"/repository/{JAR}", f"/repository/{JAR}.sha1"]


def test_lists_of_versions_are_fetched_anew_and_kept_for_a_time_without_network(
    repository: MavenServer,
) -> None:
    assert text_of(store_of(repository), METADATA) == "1.0"
    (repository.folder / METADATA).write_text("1.0 2.0")
    assert text_of(store_of(repository), METADATA) == "1.0 2.0"
    repository.stop()
    store = store_of(repository)
    assert text_of(store, METADATA) == "1.0 2.0"
    assert text_of(store, "org/demo/other/1.0/other-1.0.jar") is None
    assert list(store.unreachable) == [repository.url]


def test_the_first_repository_that_has_a_file_decides(
    repository: MavenServer, tmp_path: Path
) -> None:
    (tmp_path / "second" / JAR).parent.mkdir(parents=True)
    (tmp_path / "second" / JAR).write_text("another jar")
    with MavenServer(tmp_path / "second").running() as second:
        assert text_of(store_of(second, repository), JAR) == "another jar"
        assert text_of(store_of(second, repository), METADATA) == "1.0"


def test_a_file_without_its_checksum_is_refused_and_not_kept(repository: MavenServer) -> None:
    repository.lies = True
    with pytest.raises(ArtifactRefused, match="does not have its checksum"):
        store_of(repository).get(JAR)
    repository.lies = False
    assert text_of(store_of(repository), JAR) == "a jar"


def test_an_answer_that_breaks_off_is_asked_for_again_and_no_half_is_kept(
    repository: MavenServer,
) -> None:
    repository.breaks_off = 1
    assert text_of(store_of(repository), JAR) == "a jar"
    other = JAR.replace("tool", "other")
    (repository.folder / other).parent.mkdir(parents=True)
    (repository.folder / other).write_text("another jar")
    repository.breaks_off = 2
    store = store_of(repository)
    assert text_of(store, other) is None
    assert list(store.unreachable) == [repository.url]
    kept = store.repositories[0].folder
    assert [path.name for path in kept.rglob("*") if path.is_file()] == ["tool-1.0.jar"]
    assert text_of(store_of(repository), other) == "another jar"


def test_the_list_of_a_folder_is_no_file(repository: MavenServer) -> None:
    """Kept under the folder's name, it would shut out all that lies in the folder."""
    store = store_of(repository)
    assert text_of(store, "org/demo") is None
    assert text_of(store, "org/demo/tool/1.0") is None
    assert text_of(store, JAR) == "a jar"


def test_a_file_that_can_not_be_kept_is_refused(repository: MavenServer) -> None:
    store = store_of(repository)
    folder = store.repositories[0].folder
    folder.mkdir(parents=True)
    (folder / "org").write_text("a file in the place of a folder")
    with pytest.raises(ArtifactRefused, match=f"{JAR} can't be kept"):
        store.get(JAR)


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "a//b",
        ".git/config",
        "a/b?c",
        "a b",
        "",
        "é",
        "a" * 300,
    ],
)
def test_paths_that_are_no_artifacts(repository: MavenServer, path: str) -> None:
    with pytest.raises(ArtifactRefused, match="is not the path of an artifact"):
        store_of(repository).get(path)
    assert repository.asked == []


def test_too_large_and_too_much(repository: MavenServer) -> None:
    with pytest.raises(ArtifactRefused, match="has more than"):
        store_of(repository, largest=4).get(JAR)
    store = store_of(repository, most=7)
    store.get(JAR)
    with pytest.raises(ArtifactRefused, match="asks for more than"):
        store.get(METADATA)
    asked = len(repository.asked)
    with pytest.raises(ArtifactRefused, match="asks for more than"):
        store.get(JAR.replace("tool", "other"))
    assert len(repository.asked) == asked


def test_a_build_that_asks_without_end(
    repository: MavenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MOST_MISSING", 3)
    store = store_of(repository)
    for number in range(3):
        assert store.get(f"org/demo/no/{number}/no-{number}.jar") is None
    with pytest.raises(ArtifactRefused, match="more than 3 files that no repository has"):
        store.get("org/demo/no/4/no-4.jar")
    assert len(repository.asked) == 3
    assert text_of(store_of(repository), JAR) == "a jar"


def test_the_password_goes_to_its_own_repository_alone(repository: MavenServer) -> None:
    secret = Repository(repository.url, ("me", "word"))
    assert "word" not in repr(secret)
    ArtifactStore([secret], 1000, 1000).get(JAR)
    assert repository.authorizations == {"Basic bWU6d29yZA=="}


def ask(place: Path, path: str, method: str = "GET") -> tuple[int, bytes]:
    """A server's answer: its status and body."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = connected(place)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def connected(place: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(place))
    return connection


def test_the_server_gives_files_to_those_who_know_the_token(
    repository: MavenServer, tmp_path: Path
) -> None:
    place = tmp_path / "socket"
    with serving(store_of(repository), place) as server:
        token = server.token
        assert ask(place, f"/{token}/{JAR}") == (200, b"a jar")
        assert ask(place, f"/{token}/{JAR}", "HEAD") == (200, b"")
        checksum = ask(place, f"/{token}/{JAR}.sha1")[1]
        assert checksum == b"f19a57f67e570fa19754b1d59f4574a511a06423"
        assert ask(place, f"/{token}/org/demo/none/1/none-1.jar")[0] == 404
        assert ask(place, f"/{token}/org/..%2F..%2Fsecret")[0] == 403
        assert ask(place, f"/{token}/{JAR}", "PUT")[0] == 501
        assert ask(place, f"/{token}/{JAR}", "POST")[0] == 501
        assert ask(place, f"/{token[:-1]}x/{JAR}")[0] == 403
        assert ask(place, f"/{JAR}")[0] == 403
    assert all(path.startswith("/repository/org/demo/") for path in repository.asked)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("org/a/1.0/a-1.0.pom", True),
        ("org/b/a/1.0/a-1.0-sources.jar.asc", True),
        ("org/a/1-SNAPSHOT/a-1-20260101.120000-3.jar", True),
        ("org/a/maven-metadata.xml", True),
        ("org/maven-metadata.xml", True),
        ("org", False),
        ("org/a/1.0", False),
        ("a/1.0/a-1.0.jar", False),
        ("org/a/1.0/b-1.0.jar", False),
        ("org/apache/maven/apache-maven", False),
        ("settings.xml", False),
    ],
)
def test_only_paths_of_artifacts_are_asked_for(path: str, is_one: bool) -> None:
    assert is_artifact(path) is is_one


def test_what_is_no_artifact_reaches_no_repository(repository: MavenServer, tmp_path: Path) -> None:
    place = tmp_path / "socket"
    with serving(store_of(repository), place) as server:
        for number in range(100):
            assert ask(place, f"/{server.token}/org/demo{number}")[0] == 403
        assert len(server.refused) == MOST_REASONS
    assert repository.asked == []


def test_a_build_holds_so_many_connections(
    repository: MavenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MOST_CONNECTIONS", 2)
    place = tmp_path / "socket"
    with serving(store_of(repository), place) as server:
        first, second, third = (connected(place) for _ in range(3))
        assert third.recv(1) == b"", "closed at once"
        first.close()
        second.close()
        assert eventually(lambda: ask(place, f"/{server.token}/{JAR}")[0] == 200)


def eventually(succeeds: Callable[[], bool]) -> bool:
    """Whether it succeeds within some seconds; connections that are closed meanwhile don't."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with suppress(OSError, http.client.HTTPException):
            if succeeds():
                return True
        time.sleep(0.02)
    return False
