from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collect.benchmarks import git_clones
from collect.benchmarks.git_clones import (
    GitFailed,
    is_git_url,
    read_commit,
    read_folder_commit,
    read_folder_version,
    repository_name,
)
from collect.benchmarks.workspace import TreeTooLarge
from sandbox.environment import cache_folder
from sandbox.leftovers import remove_leftovers
from tests.collect.repository import Repository

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Repository(tmp_path / "shop")


def test_commits_branches_and_tags_are_read(repository: Repository) -> None:
    (repository.folder / ".gitattributes").write_text("tests.py export-ignore\n")
    first = repository.commit(code="1", tests="1")
    repository.git("tag", "v1")
    assert read_commit(repository.url).commit == first
    second = repository.commit(code="2")
    newest = read_commit(repository.url)
    assert (newest.commit, newest.files["code.py"]) == (second, b"2")
    for older in (first, first[:9], "v1"):
        tree = read_commit(repository.url, older)
        assert (tree.commit, tree.files["code.py"], tree.files["tests.py"]) == (first, b"1", b"1")
    assert read_commit(repository.url, "trunk").commit == second
    assert read_commit(str(repository.folder)).commit == second


def test_tags_tell_the_version(repository: Repository) -> None:
    repository.commit(code="1")
    assert read_folder_version(repository.folder) is None
    for tag, at_tag, after in (
        ("v1.2.3", "1.2.3", "1.2.4.dev1"),
        ("shop-2.0", "2.0", "2.1.dev1"),
        ("release_3.0.0rc1", "3.0.0rc1", "3.0.1.dev1"),
    ):
        repository.git("tag", tag)
        assert read_folder_version(repository.folder) == at_tag
        assert read_commit(repository.url).tagged == at_tag
        commit = repository.commit(code=tag)
        assert read_folder_version(repository.folder) == after
        assert read_folder_commit(repository.folder, commit, 1).tagged == after
    repository.git("tag", "-f", "nightly-9-of-may")
    assert read_folder_version(repository.folder) is None


def test_no_program_of_a_repository_runs_for_its_version(repository: Repository) -> None:
    repository.commit(code="1")
    repository.git("tag", "v1.0")
    marker = repository.folder.parent / "ran"
    for setting in ("core.fsmonitor", "core.sshCommand", "core.pager", "alias.describe"):
        repository.git("config", setting, f"!touch {marker}")
    assert read_folder_version(repository.folder) == "1.0"
    (repository.folder / ".git" / "commondir").write_text("/elsewhere\n")
    assert read_folder_version(repository.folder) is None
    assert not marker.exists()


def test_a_known_commit_needs_no_repository(repository: Repository) -> None:
    commit = repository.commit(code="1")
    read_commit(repository.url)
    repository.folder.rename(repository.folder.with_name("elsewhere"))
    assert read_commit(repository.url, commit).files == {"code.py": b"1"}
    with pytest.raises(GitFailed, match=r"shop: can't be fetched: git says: .*; check the address"):
        read_commit(repository.url)


def test_a_commit_of_no_branch_is_fetched(repository: Repository) -> None:
    repository.commit(code="1")
    read_commit(repository.url)
    left = repository.commit(code="2")
    repository.git("update-ref", "refs/pull/1/head", left)
    repository.git("reset", "-q", "--hard", "HEAD~1")
    assert read_commit(repository.url, left).files["code.py"] == b"2"


def test_what_git_can_not_get_is_said(repository: Repository) -> None:
    repository.commit(code="1")
    with pytest.raises(GitFailed, match="has no commit, branch or tag v9"):
        read_commit(repository.url, "v9")
    with pytest.raises(GitFailed, match=r"has no commit 0+: git says: .*check the address"):
        read_commit(repository.url, "0" * 40)
    with pytest.raises(GitFailed, match="nowhere: can't be cloned: git says"):
        read_commit(f"{repository.url}/nowhere")
    with pytest.raises(TreeTooLarge, match="more than 0 MB"):
        read_commit(repository.url, max_mb=0)
    assert not list((cache_folder() / "git").glob(".tmp-*"))


def test_what_git_starts_gets_no_keys(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = repository.folder.with_name("environment")
    monkeypatch.setenv("GIT_SSH_COMMAND", f"env >{told}; false")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/the/users/agent")
    monkeypatch.setenv("STEPINTO_TEST_API_KEY", "sk-of-the-user")
    with pytest.raises(GitFailed):
        read_commit("ssh://localhost/shop")
    assert "/the/users/agent" in told.read_text()
    assert "sk-of-the-user" not in told.read_text()


def read_by_url(repository: Repository) -> dict[str, bytes]:
    return dict(read_commit(repository.url).files)


def read_in_place(repository: Repository) -> dict[str, bytes]:
    return dict(read_folder_commit(repository.folder, "trunk", max_mb=1).files)


@pytest.mark.parametrize("read", [read_by_url, read_in_place])
@pytest.mark.parametrize("config", ["file", "variables"])
def test_no_filter_of_the_user_runs(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Repository], dict[str, bytes]],
    config: str,
) -> None:
    (repository.folder / ".gitattributes").write_text("* filter=lfs diff=lfs merge=lfs\n")
    repository.commit(code="1")
    home = repository.folder.with_name("home")
    home.mkdir()
    program = home / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {home}/marker\ncat\n")
    program.chmod(0o755)
    kinds = ("filter.lfs.smudge", "filter.lfs.clean", "filter.lfs.process", "diff.lfs.textconv")
    if config == "file":
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        for kind in kinds:
            subprocess.run(["git", "config", "--global", kind, str(program)], check=True)
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(kinds)))
        for number, kind in enumerate(kinds):
            monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", kind)
            monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", str(program))
    assert read(repository)["code.py"] == b"1"
    assert not (home / "marker").exists()


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [os.mkfifo, make_socket])
@pytest.mark.parametrize(
    "name",
    [
        "HEAD",
        "packed-refs",
        "refs/heads/more",
        "objects/pack/pack-0123456789012345678901234567890123456789.idx",
        "objects/info/commit-graph",
        "objects/info/packs",
    ],
)
def test_what_git_would_wait_for_is_refused(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, name: str, make: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(git_clones, "GIT_TIMEOUT", 2.0)
    repository.commit(code="1")
    path = repository.folder / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    monkeypatch.chdir(path.parent)
    make(path)
    with pytest.raises(GitFailed, match=f"{name} is neither a file nor a folder"):
        read_in_place(repository)


def test_branches_without_end_are_refused(repository: Repository) -> None:
    repository.commit(code="1")
    with (repository.folder / ".git" / "packed-refs").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(GitFailed, match="packed-refs and refs have more than 64 MB"):
        read_in_place(repository)


def test_git_ends_with_all_that_it_started(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = repository.folder.with_name("number")
    monkeypatch.setattr(git_clones, "GIT_TIMEOUT", 1.0)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"sleep 1027 & echo $! >{number}; wait; :")
    with pytest.raises(GitFailed, match=r"did not end in 1 s; clone it by hand"):
        read_commit("ssh://localhost/shop")
    sleeping = Path("/proc", number.read_text().strip(), "cmdline")
    deadline = time.monotonic() + 30
    while sleeping.exists() and b"1027" in sleeping.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)


IS_KILLED = """
import os, signal, sys
from pathlib import Path
from collect.benchmarks.git_clones import borrowed

with borrowed(Path(sys.argv[1])) as repository:
    print(repository, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_has_borrowed_is_removed(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit(code="1")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    killed = subprocess.run(
        [sys.executable, "-c", IS_KILLED, str(repository.folder / ".git")],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert Path(killed.stdout.strip()).is_dir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_leftovers()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_clone_has_left_is_removed(repository: Repository) -> None:
    repository.commit(code="1")
    read_commit(repository.url)
    (clone,) = (each for each in (cache_folder() / "git").iterdir() if each.is_dir())
    (clone.with_name(f".tmp-{clone.name}-killed") / "clone").mkdir(parents=True)
    read_commit(repository.url)
    assert not list(clone.parent.glob(".tmp-*"))


def test_an_address_is_no_command(repository: Repository) -> None:
    marker = repository.folder.with_name("marker")
    with pytest.raises(GitFailed):
        read_commit(f"ext::sh -c 'touch {marker}'")
    assert not marker.exists()


def test_addresses_are_told_from_paths() -> None:
    for url in ("https://host/owner/shop.git", "git@host:owner/shop.git", "file:///srv/shop/"):
        assert is_git_url(url)
        assert repository_name(url) == "shop"
    for path in ("shop", "../shop", "/srv/shop", "c:shop"):
        assert not is_git_url(path)


def test_the_repository_of_the_current_folder_names_no_program(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit(code="1")
    here, canary = tmp_path / "here", tmp_path / "canary"
    subprocess.run(["git", "init", "--quiet", "--bare", str(here)], check=True)
    with (here / "config").open("a") as config:
        config.write(f'[remote "{repository.url}"]\nurl = {repository.url}\n')
        config.write(f'uploadpack = "touch {canary}; git-upload-pack"\n')
    monkeypatch.chdir(here)
    assert read_commit(repository.url).files == {"code.py": b"1"}
    assert not canary.exists()
