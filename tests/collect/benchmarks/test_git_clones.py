from __future__ import annotations

from pathlib import Path

import pytest

from collect.benchmarks.git_clones import GitFailed, is_git_url, read_commit, repository_name
from collect.benchmarks.workspace import TreeTooLarge
from sandbox.environment import cache_folder
from tests.collect.repository import Repository


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
