"""Read trees of commits from git repositories, in folders or cloned into the user's cache.

No code of a repository runs here: a clone has no hooks, and submodules are skipped. A folder from
somebody else also has a config, whose filters and monitors git would run, so git works in a
repository of our own that only borrows the folder's objects.
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from collect.benchmarks.workspace import LEFT_OUT, MEGABYTE, TreeTooLarge, read_folder
from collect.errors import ConfigError
from sandbox.environment import cache_folder, host_environment

GIT_TIMEOUT = 600.0
"""Seconds for one git command, clones included."""
GIT_SETTINGS = (
    *("GIT_SSL_*", "GIT_CONFIG_*", "GIT_ASKPASS", "GIT_SSH*", "GIT_HTTP_*", "GIT_EXEC_PATH"),
    *("SSH_*", "DBUS_SESSION_BUS_ADDRESS", "GH_TOKEN", "GITHUB_TOKEN"),
)
"""The user's variables that git gets: how to reach servers and authenticate."""
REACHED = "check the address, the commit, and whether this machine may reach it without a password"
PROTOCOLS = "http:https:ssh:git:file"
"""No others: `ext::` runs a command."""
REFS = ("HEAD", "packed-refs", "refs")
EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class GitFailed(ConfigError):
    """git is missing, can't reach a repository, or can't find a commit."""


class GitRefused(GitFailed):
    """git ended with an error."""


@dataclass(frozen=True)
class Checkout:
    commit: str
    files: Mapping[str, bytes] = field(repr=False)


def is_git_url(text: str) -> bool:
    """Whether a place is a repository's address rather than a local path."""
    return re.match(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:", text) is not None


def repository_name(url: str) -> str:
    """The last part of an address: `shop` for `https://host/owner/shop.git`."""
    return posixpath.basename(re.sub(r"[:\\]", "/", url.rstrip("/"))).removesuffix(".git")


def read_commit(url: str, revision: str | None = None, max_mb: int | None = None) -> Checkout:
    """The files of a commit, branch or tag; of the default branch if none is named.

    `url` is anything that `git clone` accepts. An existing clone is updated, unless the revision is
    a full hash that it already has. Raises GitFailed, TreeTooLarge.
    """
    root = cache_folder() / "git"
    place = str(Path(url).resolve()) if Path(url).exists() else url
    clone = root / hashlib.sha256(place.encode()).hexdigest()[:16]
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / f"{clone.name}.lock").open("w")
    except OSError as error:
        raise GitFailed(
            f"{root} can't be written ({error}); set XDG_CACHE_HOME to a folder that can"
        ) from error
    with lock:
        # If two processes need the same repository, one fetches it and the other waits.
        fcntl.flock(lock, fcntl.LOCK_EX)
        commit = _fetched(clone, place, revision)
        return Checkout(commit, read_tree(clone, commit, max_mb=max_mb))


def _fetched(clone: Path, place: str, revision: str | None) -> str:
    whole = re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", revision or "") is not None
    git = ("-C", str(clone))
    if not clone.is_dir():
        with tempfile.TemporaryDirectory(prefix=f".tmp-{clone.name}-", dir=clone.parent) as scratch:
            unfinished = Path(scratch) / "clone"
            bare = ("clone", "--quiet", "--bare", "--", place, str(unfinished))
            run_git(f"{place}: can't be cloned", *bare, advice=REACHED)
            unfinished.rename(clone)
    elif revision is None or not whole or not _known(clone, revision):
        fetch = (*git, "fetch", "--quiet", "--prune", "--", place, *EVERYTHING)
        run_git(f"{place}: can't be fetched", *fetch, advice=REACHED)
    if revision is None:
        asked = ("ls-remote", "--", place, "HEAD")
        told = run_git(f"{place}: can't be asked for its branch", *asked, advice=REACHED)
        revision = told.partition("\t")[0] or "HEAD"
    elif whole and not _known(clone, revision):
        # Servers provide commits without a branch, such as those of pull requests, by hash.
        wanted = (*git, "fetch", "--quiet", "--", place, revision)
        run_git(f"{place}: has no commit {revision}", *wanted, advice=REACHED)
    known = _known(clone, revision)
    if not known:
        raise GitFailed(
            f"{place}: has no commit, branch or tag {revision}; name one that it has, or none for "
            "its default branch"
        )
    return known


def read_folder_commit(folder: Path, revision: str, max_mb: int) -> Checkout:
    """As `read_commit`, from a repository's folder, which may be untrusted. Raises the same."""
    git_folder = folder / ".git" if (folder / ".git").exists() else folder
    # Nothing may refer to another repository, for example the user's own.
    found = [git_folder / "objects" / "info" / "alternates", git_folder / "commondir"]
    found = [path for path in found if path.exists()]
    # In a worktree or a submodule, `.git` is a file with the repository's path.
    found += [git_folder] if git_folder.is_symlink() or git_folder.is_file() else []
    for name in (*REFS, "objects"):
        inside = os.walk(git_folder / name)
        paths = [Path(root, each) for root, folders, files in inside for each in folders + files]
        found += [path for path in (git_folder / name, *paths) if path.is_symlink()]
    if found:
        raise GitFailed(
            f"{found[0]} leads to files elsewhere: copy the repository with `git clone "
            "--no-local`, and name the copy"
        )
    with borrowed(git_folder) as repository:
        commit = _known(repository, revision)
        if not commit:
            raise GitFailed(
                f"{folder}: has no commit, branch or tag {revision}, or is no git repository; name "
                "one that it has, or none for the files in the folder"
            )
        return Checkout(commit, read_tree(repository, commit, max_mb=max_mb))


@contextmanager
def borrowed(git_folder: Path) -> Iterator[Path]:
    """A temporary bare repository with another one's objects, branches and tags, but without its
    config and hooks. Raises GitFailed."""
    with tempfile.TemporaryDirectory(prefix="stepinto-git-") as scratch:
        own = Path(scratch) / "repository"
        run_git(f"{own}: can't be made", "init", "--quiet", "--bare", "--", str(own))
        objects = git_folder.resolve() / "objects"
        (own / "objects" / "info" / "alternates").write_text(f"{objects}\n")
        for name in REFS:
            if (git_folder / name).is_dir():
                shutil.copytree(git_folder / name, own / name, dirs_exist_ok=True)
            elif (git_folder / name).is_file():
                shutil.copyfile(git_folder / name, own / name)
        yield own


def _known(clone: Path, revision: str) -> str:
    """The hash of a commit in the clone; empty if it is not there."""
    wanted = ("--end-of-options", f"{revision}^{{commit}}")
    with suppress(GitRefused):
        return run_git("", "-C", str(clone), "rev-parse", "--quiet", "--verify", *wanted).strip()
    return ""


def read_tree(
    repository: Path,
    commit: str,
    patches: Sequence[str] = (),
    left_out: Collection[str] = LEFT_OUT,
    max_mb: int | None = None,
) -> dict[str, bytes]:
    """The files of a commit with patches applied, from a bare repository of our own. Raises
    GitFailed, TreeTooLarge."""
    if max_mb is not None:
        # Before any file is written: a few git objects can refer to each other so that they make
        # millions of files.
        listing = ["git", "-C", str(repository), "ls-tree", "-r", "--long", commit]
        size = 0
        with subprocess.Popen(
            listing, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=_environment()
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = line.split(maxsplit=4)[3]
                # Names also count, because empty files are files too; a submodule has no size.
                size += len(line) + (int(told) if told.isdigit() else 0)
                if size > max_mb * MEGABYTE:
                    process.kill()
                    raise TreeTooLarge(repository, max_mb)
    git = ("-C", str(repository))
    with tempfile.TemporaryDirectory(prefix=".tmp-tree-", dir=repository.parent) as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        run_git(f"{repository}: has no commit {commit}", *git, "read-tree", commit, variables=index)
        for patch in patches:
            apply = (*git, "apply", "--cached", "--whitespace=nowarn", "-")
            run_git("a patch does not fit", *apply, stdin=patch.encode(), variables=index)
        # Not `git archive`, which omits files that a project does not ship, often its tests.
        tree = Path(scratch) / "tree"
        out = ("checkout-index", "--all", "--quiet", f"--prefix={tree}/")
        problem = f"{repository}: can't be read, remove it"
        run_git(problem, *git, f"--work-tree={scratch}", *out, variables=index)
        tree.mkdir(exist_ok=True)
        return read_folder(tree, left_out, max_mb)


def run_git(
    problem: str,
    *arguments: str,
    advice: str = "",
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> str:
    """git's output. Raises GitRefused with the problem, git's message, and the advice, GitFailed if
    git is missing or does not end."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            timeout=GIT_TIMEOUT,
            check=False,
            env={**_environment(), **(variables or {})},
            input=stdin,
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not installed: install it, or name a folder") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(
            f"git {' '.join(arguments)} did not end in {GIT_TIMEOUT:.0f} s; clone it by hand, and "
            "name the clone's folder"
        ) from error
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip()[-1000:]
        raise GitRefused(
            f"{problem}: git says: {' / '.join(message.splitlines())}{advice and '; '}{advice}"
        )
    return done.stdout.decode(errors="replace")


def _environment() -> dict[str, str]:
    """The user's access to servers, proxies and ssh keys included. Password prompts fail."""
    return {
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        **host_environment(GIT_SETTINGS),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_NO_LAZY_FETCH": "1",
    }
