"""Files of Maven repositories, from real servers: what is fetched, kept, checked and refused."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.java.artifacts import ArtifactRefused, ArtifactStore, Repository, serving
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


@pytest.mark.parametrize(
    "path",
    ["../secret", "a/../../secret", "/etc/passwd", "a//b", ".git/config", "a/b?c", "a b", "", "é"],
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


def test_the_password_goes_to_its_own_repository_alone(repository: MavenServer) -> None:
    secret = Repository(repository.url, ("me", "word"))
    assert "word" not in repr(secret)
    ArtifactStore([secret], 1000, 1000).get(JAR)
    assert repository.authorizations == {"Basic bWU6d29yZA=="}


def test_the_server_gives_files_to_those_who_know_the_token(
    repository: MavenServer, tmp_path: Path
) -> None:
    with serving(store_of(repository), tmp_path / "socket") as server:

        def ask(path: str, method: str = "GET") -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("localhost")
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(tmp_path / "socket"))
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()

        token = server.token
        assert ask(f"/{token}/{JAR}") == (200, b"a jar")
        assert ask(f"/{token}/{JAR}", "HEAD") == (200, b"")
        assert ask(f"/{token}/{JAR}.sha1")[1] == b"f19a57f67e570fa19754b1d59f4574a511a06423"
        assert ask(f"/{token}/org/demo/none.jar")[0] == 404
        assert ask(f"/{token}/org/..%2F..%2Fsecret")[0] == 403
        assert ask(f"/{token}/{JAR}", "PUT")[0] == 501
        assert ask(f"/{token}/{JAR}", "POST")[0] == 501
        assert ask(f"/{token[:-1]}x/{JAR}")[0] == 403
        assert ask(f"/{JAR}")[0] == 403
    assert all(path.startswith("/repository/org/demo/") for path in repository.asked)
