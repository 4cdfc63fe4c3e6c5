from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import subprocess
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import ProjectRefused, fetch, unpacked
from tests.collect.synthesis.sample import FILES, write_project

PKG_INFO = """\
Metadata-Version: 2.4
Name: shop
Version: 1.1
License-Expression: MIT
Requires-Dist: attrs>=20
Requires-Dist: pywin32; sys_platform == "win32"
Requires-Dist: freezegun>=1; extra == "test"
Requires-Dist: pytest; extra == "test"
Requires-Dist: sphinx; extra == "docs"
"""


def sdist(version: str, files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"shop-{version}/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
        link = tarfile.TarInfo(f"shop-{version}/secret")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        outside = tarfile.TarInfo(f"shop-{version}/../../outside.py")
        archive.addfile(outside, io.BytesIO())
    return buffer.getvalue()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package index with three releases of one project, one of them yanked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    page = tmp_path / "index" / "simple" / "shop"
    page.mkdir(parents=True)
    links = []
    for version, yanked in (("1.0", ""), ("1.1", ""), ("1.2", ' data-yanked="broken"')):
        data = sdist(version, {**FILES, "PKG-INFO": PKG_INFO})
        (page / f"shop-{version}.tar.gz").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        links.append(
            f'<a href="shop-{version}.tar.gz#sha256={digest}"{yanked}>shop-{version}.tar.gz</a>'
        )
    (page / "index.html").write_text(f"<html><body>{''.join(links)}</body></html>")
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "index")
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    server.shutdown()
    server.server_close()


def test_a_release_comes_from_the_index(index: str) -> None:
    source = fetch(ProjectConfig(pypi="shop"), FactoryConfig(index_url=index))
    assert (source.name, source.version, source.license) == ("shop", "1.1", "MIT")
    assert source.origin.startswith("pypi:shop==1.1 sha256:")
    assert source.files.keys() == {*FILES, "PKG-INFO"}
    assert source.release == "shop==1.1"


def test_a_version_can_be_asked_for(index: str) -> None:
    config = FactoryConfig(index_url=index)
    assert fetch(ProjectConfig(pypi="shop==1.0"), config).version == "1.0"
    with pytest.raises(ProjectRefused, match="shop==9: no sdist of it fits Python"):
        fetch(ProjectConfig(pypi="shop==9"), config)
    with pytest.raises(ProjectRefused, match=r"gave no sdist \(.*is the name right"):
        fetch(ProjectConfig(pypi="nothing"), config)
    with pytest.raises(ProjectRefused, match="'!': "):
        fetch(ProjectConfig(pypi="!"), config)


def test_a_release_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.path.endswith("/"):
                link = f'<a href="shop-1.0.tar.gz#sha256={"0" * 64}">shop-1.0.tar.gz</a>'
                self.wfile.write(link.encode())
                return
            with suppress(OSError):
                while True:
                    self.wfile.write(bytes(1 << 16))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = FactoryConfig(
            index_url=f"http://127.0.0.1:{server.server_address[1]}", max_tree_mb=1
        )
        with pytest.raises(ProjectRefused, match=r"archive is larger .*factory\.max_tree_mb"):
            fetch(ProjectConfig(pypi="shop"), config)
        server.shutdown()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_torn_download_is_fetched_again(index: str, tmp_path: Path) -> None:
    config = FactoryConfig(index_url=index)
    first = fetch(ProjectConfig(pypi="shop"), config)
    kept = tmp_path / "cache" / "stepinto" / "sdists" / "shop-1.1.tar.gz"
    kept.write_bytes(kept.read_bytes()[:100])
    assert fetch(ProjectConfig(pypi="shop"), config) == first


def test_a_repository_is_cloned_at_a_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = write_project(tmp_path / "shop")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "First"], check=True)
    subprocess.run([*git, "tag", "v1"], check=True)
    (folder / "later.py").write_text("x = 1\n")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "Second"], check=True)
    config = FactoryConfig()
    newest = fetch(ProjectConfig(git=str(folder)), config)
    older = fetch(ProjectConfig(git=str(folder), revision="v1", name="old"), config)
    assert newest.files.keys() == {*FILES, "later.py"}
    assert older.files.keys() == set(FILES)
    assert (newest.name, older.name) == ("shop", "old")
    assert older.origin == f"git:{folder}@{_commit(git, 'v1')}"
    with pytest.raises(ProjectRefused, match="has no commit, branch or tag v9"):
        fetch(ProjectConfig(git=str(folder), revision="v9"), config)


def _commit(git: list[str], name: str) -> str:
    asked = [*git, "rev-parse", name]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def test_a_folder_is_taken_without_what_is_not_the_projects(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", {**FILES, ".venv/x.py": "", "a/__pycache__/x": ""})
    (folder / "link.py").symlink_to("/etc/passwd")
    source = fetch(ProjectConfig(folder=str(folder)), FactoryConfig())
    assert source.files.keys() == set(FILES)
    assert source.license == "MIT"
    with pytest.raises(ProjectRefused, match="no such folder"):
        fetch(ProjectConfig(folder=str(tmp_path / "nowhere")), FactoryConfig())


def test_a_large_project_is_refused(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", {"data.txt": "x" * 2_000_000})
    with pytest.raises(ProjectRefused, match="more than 1 MB of files; raise max_tree_mb"):
        fetch(ProjectConfig(folder=str(folder)), FactoryConfig(max_tree_mb=1))


def _bomb() -> bytes:
    entry = tarfile.TarInfo("shop-1.1/zeros")
    entry.size = 100 * 1024 * 1024
    return gzip.compress(entry.tobuf() + bytes(entry.size), 1)


def _header_bomb() -> bytes:
    entry = tarfile.TarInfo("long name")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 100 * 1024 * 1024
    return gzip.compress(entry.tobuf() + bytes(entry.size), 1)


def _with_odd_names() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in ("kept.py", "a\0b", "half-\udcff"):
            entry = tarfile.TarInfo(f"shop-1.1/{name}")
            entry.pax_headers = {"path": entry.name}
            archive.addfile(entry)
    return buffer.getvalue()


@pytest.mark.parametrize("bomb", [_bomb, pytest.param(_header_bomb, marks=pytest.mark.slow)])
def test_a_bomb_is_refused_and_takes_little_memory(
    index: str, tmp_path: Path, bomb: Callable[[], bytes]
) -> None:
    _release(tmp_path, bomb())
    tracemalloc.start()
    with pytest.raises(ProjectRefused, match=r"more than 20 MB of files"):
        fetch(ProjectConfig(pypi="shop==1.1"), FactoryConfig(index_url=index, max_tree_mb=20))
    assert tracemalloc.get_traced_memory()[1] < 50 * 1024 * 1024
    tracemalloc.stop()


def test_names_that_no_file_can_have_are_left_out(index: str, tmp_path: Path) -> None:
    _release(tmp_path, _with_odd_names())
    source = fetch(ProjectConfig(pypi="shop==1.1"), FactoryConfig(index_url=index))
    assert source.files.keys() == {"kept.py"}


@pytest.mark.parametrize("change", [b"", b"\xff" * 8])
def test_an_archive_that_can_t_be_read_is_refused(tmp_path: Path, change: bytes) -> None:
    path = tmp_path / "shop-1.1.tar.gz"
    whole = sdist("1.1", FILES)
    path.write_bytes(whole[:60] + change)
    with pytest.raises(ProjectRefused, match="is not a whole archive"):
        unpacked(path, "shop", 64)


def _release(tmp_path: Path, data: bytes) -> None:
    page = tmp_path / "index" / "simple" / "shop"
    (page / "shop-1.1.tar.gz").write_bytes(data)
    address = f"shop-1.1.tar.gz#sha256={hashlib.sha256(data).hexdigest()}"
    (page / "index.html").write_text(f'<a href="{address}">shop-1.1.tar.gz</a>')
