"""Trees of commits out of git repositories by URL, whose clones are kept below the user's cache.

Nothing of a repository runs here: hooks do not come with a clone, and submodules are left out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from collect.benchmarks.trees import read_folder
from collect.errors import ConfigError
from sandbox.environment import cache_folder

FOLDER = "git"
GIT_TIMEOUT = 600.0
"""Seconds for one piece of git's work, a clone among them."""
SHOWN_OUTPUT = 1000
"""Characters of git's output in a message, its end."""
_URL = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_WHOLE_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class GitFailed(ConfigError):
    """git is missing, or can't reach a repository or find a commit."""


@dataclass(frozen=True)
class Checkout:
    """A repository at one commit."""

    commit: str
    files: Mapping[str, bytes] = field(repr=False)


def is_git_url(text: str) -> bool:
    """Whether a place is a repository's address, and not a path of this machine."""
    return _URL.match(text) is not None


def repository_name(url: str) -> str:
    """The last part of an address: `https://host/owner/shop.git` is `shop`."""
    return posixpath.basename(re.sub(r"[:\\]", "/", url.rstrip("/"))).removesuffix(".git")


def read_commit(url: str, revision: str | None = None, max_mb: int | None = None) -> Checkout:
    """The files of a commit, branch or tag; of the default branch where none is named.

    `url` is whatever `git clone` takes. A clone of it that is there already is brought up to date,
    unless it holds the commit that is named in full. Raises GitFailed, TreeTooLarge.
    """
    root = cache_folder() / FOLDER
    place = str(Path(url).resolve()) if Path(url).exists() else url
    clone = root / hashlib.sha256(place.encode()).hexdigest()[:16]
    with _locked(root, clone.name):
        fresh = not clone.is_dir()
        if fresh:
            _clone(place, clone)
        commit = _commit(clone, place, revision, fresh)
        return Checkout(commit, _files(clone, commit, root, max_mb))


@contextmanager
def _locked(root: Path, name: str) -> Iterator[None]:
    """Of two processes that want the same repository, one fetches it and the other waits."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = (root / f"{name}.lock").open("w")
    except OSError as error:
        raise GitFailed(
            f"{root} can't be written ({error}); set XDG_CACHE_HOME to a folder that can"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _clone(place: str, clone: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".tmp-{clone.name}-", dir=clone.parent))
    try:
        _git(
            f"{place}: can't be cloned",
            "clone",
            "--quiet",
            "--bare",
            "--",
            place,
            str(unfinished / "clone"),
        )
        (unfinished / "clone").rename(clone)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _commit(clone: Path, place: str, revision: str | None, fresh: bool) -> str:
    """The hash of what is wanted, whose objects the clone then holds."""
    whole = revision is not None and _WHOLE_HASH.fullmatch(revision) is not None
    if whole and revision is not None and (known := _known(clone, revision)):
        return known
    fetch = ("-C", str(clone), "fetch", "--quiet")
    if not fresh:
        _git(f"{place}: can't be fetched", *fetch, "--prune", "--", place, *_EVERYTHING)
    if revision is None:
        told = _git(f"{place}: can't be asked for its branch", "ls-remote", "--", place, "HEAD")
        revision = told.partition("\t")[0] or "HEAD"
    elif whole and not _known(clone, revision):
        # Servers give out commits of no branch, such as those of pull requests, by their hash.
        _git(f"{place}: has no commit {revision}", *fetch, "--", place, revision)
    known = _known(clone, revision)
    if not known:
        raise GitFailed(
            f"{place}: has no commit, branch or tag {revision}; name one that it has, or none for "
            "its default branch"
        )
    return known


def _known(clone: Path, revision: str) -> str:
    """The hash of a commit that the clone has; empty where it has none of that name."""
    wanted = ("--end-of-options", f"{revision}^{{commit}}")
    done = _run("-C", str(clone), "rev-parse", "--quiet", "--verify", *wanted)
    return done.stdout.strip() if done.returncode == 0 else ""


def _files(clone: Path, commit: str, root: Path, max_mb: int | None) -> dict[str, bytes]:
    """Not `git archive`, which leaves out what a project does not ship: often its tests."""
    with tempfile.TemporaryDirectory(prefix=".tmp-tree-", dir=root) as scratch:
        tree = Path(scratch) / "tree"
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        problem, repository = f"{clone}: can't be read, remove it", ("-C", str(clone))
        _git(problem, *repository, "read-tree", commit, variables=index)
        out = ("checkout-index", "--all", "--quiet", f"--prefix={tree}/")
        _git(problem, *repository, f"--work-tree={scratch}", *out, variables=index)
        tree.mkdir(exist_ok=True)
        return read_folder(tree, max_mb=max_mb)


def _git(problem: str, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    """What git printed. Raises GitFailed with the problem and what git said."""
    done = _run(*arguments, variables=variables)
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip()[-SHOWN_OUTPUT:].split("\n"))
        raise GitFailed(
            f"{problem}: git says: {said}; check the address, the commit, and whether this "
            "machine may reach it without a password"
        )
    return done.stdout


def _run(
    *arguments: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT,
            check=False,
            env={**_environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not installed: install it, or name a folder") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(
            f"git {' '.join(arguments)} did not end in {GIT_TIMEOUT:.0f} s; clone it by hand, and "
            "name the clone's folder"
        ) from error


def _environment() -> dict[str, str]:
    """The user's own, so that their keys and proxies count, without what a git hook that runs us
    would say of another repository. Whatever would ask for a password fails instead."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
    }
    return {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **kept, "GIT_TERMINAL_PROMPT": "0"}
