"""Repositories that an image holds: no way to later commits, and patches in and out of them."""

from __future__ import annotations

import pytest

from collect.benchmarks import workspace
from collect.benchmarks.workspace import (
    apply_with_git,
    changed_files,
    seal_history,
    tracked_files,
    tree_of,
)
from collect.code.patches import PatchError, diff_trees
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError, SandboxUnavailable

SECRET = "the fix of the future"
REPOSITORY = rf"""
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
git init -q -b trunk
echo 'built/' >.gitignore
printf 'def f():\n    return 1\n' >code.py
printf 'data\n' >'with blank.txt'
git add -A; git commit -qm first
git tag -a v1 -m 'one'
printf 'def f():\n    return 2\n' >code.py
git commit -qam base
git rev-parse HEAD
printf 'def f():\n    return "{SECRET}"\n' >code.py
git commit -qam '{SECRET}'
git tag v2
git tag -a v3 -m '{SECRET}'
git branch future
git update-ref refs/remotes/origin/main HEAD
git update-ref refs/notes/commits HEAD
git config remote.origin.url https://example.invalid/repository.git
git gc -q
touch .git/objects/pack/$(ls .git/objects/pack | grep pack$ | sed s/pack$/keep/)
echo '{SECRET}' >>code.py; git stash -q
echo '{SECRET} dangling' | git hash-object -w --stdin >/dev/null
git reset -q --hard HEAD~
git replace HEAD v2
echo "$(git rev-parse v2)" >.git/FETCH_HEAD
git worktree add -q "$HOME/other" future
mkdir built; echo made >built/module.o
echo 'setup = 1' >setup.cfg
chmod 777 code.py
"""
SEARCH = r"""
export GIT_NO_REPLACE_OBJECTS=1
git cat-file --batch-all-objects --batch-check='%(objectname)' | while read -r object; do
    git cat-file -p "$object"
done
git log --all --format=%B; git log -g --all --format=%B 2>&1; git for-each-ref; git stash list
git fsck --full --unreachable --dangling --lost-found 2>&1; git worktree list; git remote -v
grep -r -a -l -e refs/heads/future -e example.invalid .git || true
"""


def sh(sandbox: Sandbox, script: str) -> str:
    result = sandbox.run(Command(["sh", "-c", script]))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def base(sandbox: Sandbox) -> str:
    """A repository with a future, checked out at its base commit; that commit's id."""
    commit = sh(sandbox, REPOSITORY).split()[0]
    assert SECRET in sh(sandbox, SEARCH)
    return commit


@pytest.mark.slow
def test_nothing_of_the_future_can_be_found(sandbox: Sandbox, base: str) -> None:
    seal_history(sandbox, base)
    found = sh(sandbox, SEARCH)
    assert SECRET not in found
    for sign in ("future", "stash", "origin", "dangling", "unreachable", "example.invalid", "v2"):
        assert sign not in found, sign
    assert sandbox.run(Command(["git", "cat-file", "-e", "v2"])).exit_code != 0
    files = sh(sandbox, "find .git -type f").split()
    assert all("logs/" not in path and "FETCH_HEAD" not in path for path in files)


@pytest.mark.slow
def test_the_past_and_the_tree_stay(sandbox: Sandbox, base: str) -> None:
    seal_history(sandbox, base)
    assert sh(sandbox, "git log --format=%s").split() == ["Setup", "base", "first"]
    assert sh(sandbox, "git rev-parse HEAD~").strip() == base
    assert sh(sandbox, "git describe --tags --abbrev=0").strip() == "v1"
    assert sh(sandbox, "git status --porcelain") == ""
    assert "return 2" in sh(sandbox, "cat code.py; git blame code.py")
    assert sh(sandbox, "cat built/module.o setup.cfg") == "made\nsetup = 1\n"
    assert sh(sandbox, "stat -c %a code.py").strip() == "755"
    assert sh(sandbox, "git log -1 --format=%cI").startswith("2020-01-01")


@pytest.mark.slow
def test_a_clean_checkout_gets_no_commit_of_its_own(sandbox: Sandbox, base: str) -> None:
    sh(sandbox, "rm -r setup.cfg")
    seal_history(sandbox, base)
    assert sh(sandbox, "git rev-parse HEAD").strip() == base
    seal_history(sandbox, base)
    assert sh(sandbox, "git rev-parse HEAD").strip() == base


def test_without_its_base_commit_no_history_is_left(sandbox: Sandbox, base: str) -> None:
    seal_history(sandbox, "0" * 40)
    assert sh(sandbox, "git log --all --format=%s").split() == ["Setup"]
    assert SECRET not in sh(sandbox, SEARCH)
    assert "return 2" in sh(sandbox, "cat code.py")


@pytest.mark.slow
def test_a_past_with_holes_is_dropped(sandbox: Sandbox, base: str) -> None:
    sh(sandbox, "git replace -d HEAD")
    blob = sh(sandbox, "git rev-parse v1:code.py").strip()
    script = f"""
    mkdir $HOME/packs && mv .git/objects/pack/* $HOME/packs
    for pack in $HOME/packs/*.pack; do git unpack-objects -q <$pack; done
    rm -f .git/objects/{blob[:2]}/{blob[2:]}"""
    sh(sandbox, script)
    seal_history(sandbox, base)
    assert sh(sandbox, "git log --all --format=%s").split() == ["Setup"]
    assert "return 2" in sh(sandbox, "cat code.py; git fsck --strict")
    assert SECRET not in sh(sandbox, SEARCH)


def test_what_changed_is_told_against_a_tree(sandbox: Sandbox, base: str) -> None:
    seal_history(sandbox, base)
    tree = tree_of(sandbox)
    assert changed_files(sandbox, tree) == ({}, {})
    sandbox.write_files(
        {"code.py": b"def f():\n    return 3\n", "new/ü b.py": b"x = 1\n", "data.bin": b"\xff\0"}
    )
    sh(sandbox, "rm 'with blank.txt'; echo 2 >built/module.o; git add code.py; git commit -qm mine")
    before, after = changed_files(sandbox, tree)
    assert before == {"code.py": b"def f():\n    return 2\n", "with blank.txt": b"data\n"}
    assert after.keys() == {"code.py", "new/ü b.py", "data.bin"}
    assert sh(sandbox, "git status --porcelain").count("??") == 2
    sh(sandbox, "git stash -q -u; git reset -q --hard HEAD~")
    apply_with_git(sandbox, diff_trees(before, after))
    assert "return 3" in sh(sandbox, "cat code.py new/*")


def test_a_repository_that_is_gone_is_said(sandbox: Sandbox, base: str) -> None:
    seal_history(sandbox, base)
    tree = tree_of(sandbox)
    sh(sandbox, "rm -rf .git")
    with pytest.raises(SandboxFileError, match="can't be used as a git repository"):
        changed_files(sandbox, tree)
    with pytest.raises(SandboxUnavailable, match="can't be used as a git repository"):
        seal_history(sandbox, base)


PATCH = """\
diff --git a/code.py b/code.py
--- a/code.py
+++ b/code.py
@@ -1,2 +1,2 @@
 def f():
-    return {}
+    return 5
"""


@pytest.mark.slow
def test_so_is_one_that_git_does_not_get_through(
    sandbox: Sandbox, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal_history(sandbox, base)
    tree = tree_of(sandbox)
    sandbox.run(Command(["git", "config", "core.fsmonitor", "sleep 1000; true"]))
    monkeypatch.setattr(workspace, "GIT_TIMEOUT", 3.0)
    with pytest.raises(SandboxFileError, match="git took more than 3 s"):
        changed_files(sandbox, tree)


def test_a_patch_may_be_off_by_some_lines_and_is_refused_else(sandbox: Sandbox, base: str) -> None:
    sh(sandbox, "printf 'import os\\nimport sys\\n\\n\\ndef f():\\n    return 2\\n' >code.py")
    with pytest.raises(PatchError, match=r"code\.py"):
        apply_with_git(sandbox, PATCH.format(7))
    assert "return 2" in sh(sandbox, "cat code.py")
    apply_with_git(sandbox, PATCH.format(2))
    assert "return 5" in sh(sandbox, "cat code.py")
    apply_with_git(sandbox, "")
    assert tracked_files(sandbox, "*.py") == ["code.py"]


def test_every_tracked_file_is_listed() -> None:
    names = [f"some/package/module_{number:04}.py" for number in range(300)]
    with open_sandbox(SandboxConfig(output_limit=2_000)) as box:
        box.write_files(dict.fromkeys(names, b""))
        sh(box, "git init -q . && git add -A")
        assert tracked_files(box, "*.py") == names
