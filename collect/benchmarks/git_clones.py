"""Read trees of commits from git repositories, in folders or cloned into the user's cache.

No code of a repository runs here: a clone has no hooks, and submodules are skipped. A folder from
somebody else also has a config, whose filters and monitors git would run, so git works in a
repository of our own that only borrows the folder's objects. Its `.gitattributes` can name filters
of the user's config, so git reads that only to reach servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import posixpath
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import InvalidVersion, Version

from collect.benchmarks.workspace import LEFT_OUT, MEGABYTE, TreeTooLarge, read_folder
from collect.errors import ConfigError
from sandbox.environment import cache_folder, host_environment
from sandbox.leftovers import OwnedFolder

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
MAX_REFS_MB = 64
"""Of a folder's branches and tags, which are copied."""
EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class GitFailed(ConfigError):
    """git is missing, can't reach a repository, or can't find a commit."""


class GitRefused(GitFailed):
    """git ended with an error."""


@dataclass(frozen=True)
class Checkout:
    commit: str
    files: Mapping[str, bytes] = field(repr=False)
    tagged: str | None = None
    """The version that the commit has by the repository's tags."""


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
        files = read_tree(clone, commit, max_mb=max_mb)
        return Checkout(commit, files, _tagged(clone, commit))


def _fetched(clone: Path, place: str, revision: str | None) -> str:
    whole = re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", revision or "") is not None
    git = ("--git-dir", str(clone))
    for left in clone.parent.glob(f".tmp-{clone.name}-*"):
        # Of killed runs, since nobody else has the lock.
        shutil.rmtree(left, ignore_errors=True)
    if not clone.is_dir():
        with _beside(clone) as scratch:
            unfinished = Path(scratch) / "clone"
            bare = ("clone", "--quiet", "--bare", "--", place, str(unfinished))
            ask_server(f"{place}: can't be cloned", *bare)
            unfinished.rename(clone)
    elif revision is None or not whole or not _known(clone, revision):
        fetch = (*git, "fetch", "--quiet", "--prune", "--", place, *EVERYTHING)
        ask_server(f"{place}: can't be fetched", *fetch)
    if revision is None:
        asked = ("ls-remote", "--", place, "HEAD")
        told = ask_server(f"{place}: can't be asked for its branch", *asked)
        revision = told.partition("\t")[0] or "HEAD"
    elif whole and not _known(clone, revision):
        # Servers provide commits without a branch, such as those of pull requests, by hash.
        wanted = (*git, "fetch", "--quiet", "--", place, revision)
        ask_server(f"{place}: has no commit {revision}", *wanted)
    known = _known(clone, revision)
    if not known:
        raise GitFailed(
            f"{place}: has no commit, branch or tag {revision}; name one that it has, or none for "
            "its default branch"
        )
    return known


def _beside(repository: Path) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder on the repository's file system."""
    return tempfile.TemporaryDirectory(prefix=f".tmp-{repository.name}-", dir=repository.parent)


def read_folder_commit(folder: Path, revision: str, max_mb: int) -> Checkout:
    """As `read_commit`, from a repository's folder, which may be untrusted. Raises the same."""
    git_folder = folder / ".git" if (folder / ".git").exists() else folder
    _require_whole(git_folder)
    with borrowed(git_folder) as repository:
        commit = _known(repository, revision)
        if not commit:
            raise GitFailed(
                f"{folder}: has no commit, branch or tag {revision}, or is no git repository; name "
                "one that it has, or none for the files in the folder"
            )
        files = read_tree(repository, commit, max_mb=max_mb)
        return Checkout(commit, files, _tagged(repository, commit))


def read_folder_version(folder: Path) -> str | None:
    """The version that a repository's current commit has by its tags; None if there is none, or
    the repository can't be read."""
    git_folder = folder / ".git"
    if not git_folder.is_dir():
        return None
    with suppress(GitFailed, OSError):
        _require_whole(git_folder)
        with borrowed(git_folder) as repository:
            return _tagged(repository, "HEAD")
    return None


def _tagged(repository: Path, commit: str) -> str | None:
    """The version of the nearest tag; after it, the next one's development version, as
    setuptools_scm counts. Raises GitFailed."""
    asked = ("describe", "--tags", "--long", "--abbrev=7", "--match=*[0-9]*", commit)
    try:
        tag, distance, _ = run_git("", "--git-dir", str(repository), *asked).rsplit("-", 2)
    except (GitRefused, ValueError):
        return None
    numbers = re.search(r"\d+(\.\d+)*.*", tag)
    try:
        version = Version(numbers[0]) if numbers else None
    except InvalidVersion:
        return None
    if version is None or distance == "0":
        return None if version is None else str(version)
    *most, last = version.release
    return ".".join(map(str, [*most, last + 1])) + f".dev{distance}"


def _require_whole(git_folder: Path) -> None:
    """Raise GitFailed for a repository that refers to another one, for example the user's own."""
    elsewhere = [git_folder / "objects" / "info" / "alternates", git_folder / "commondir"]
    elsewhere = [path for path in elsewhere if path.exists()]
    # In a worktree or a submodule, `.git` is a file with the repository's path.
    elsewhere += [git_folder] if git_folder.is_symlink() or git_folder.is_file() else []
    elsewhere += [path for path in _parts(git_folder) if path.is_symlink()]
    if elsewhere:
        raise GitFailed(
            f"{elsewhere[0]} leads to files elsewhere: copy the repository with `git clone "
            "--no-local`, and name the copy"
        )


def _parts(git_folder: Path, names: Sequence[str] = (*REFS, "objects")) -> Iterator[Path]:
    """The files and folders that git reads in a borrowed repository."""
    for name in names:
        if (git_folder / name).is_symlink() or (git_folder / name).exists():
            yield git_folder / name
        for root, folders, files in os.walk(git_folder / name):
            yield from (Path(root, part) for part in folders + files)


def _check_parts(git_folder: Path) -> None:
    """Raise GitFailed if git would wait for ever for a part, or its branches fill the disk."""
    for path in _parts(git_folder):
        with suppress(FileNotFoundError):  # a link to nowhere
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise GitFailed(f"{path} is neither a file nor a folder: clone the repository anew")
    size = sum(path.stat().st_size for path in _parts(git_folder, REFS) if path.is_file())
    if size > MAX_REFS_MB * MEGABYTE:
        raise GitFailed(
            f"{git_folder}: HEAD, packed-refs and refs have more than {MAX_REFS_MB} MB: clone the "
            "repository anew"
        )


@contextmanager
def borrowed(git_folder: Path) -> Iterator[Path]:
    """A temporary bare repository with another one's objects, branches and tags, but without its
    config and hooks. Raises GitFailed."""
    _check_parts(git_folder)
    # What a killed run leaves is removed with the folders of its sandboxes.
    scratch = OwnedFolder()
    try:
        own = scratch.path / "repository"
        run_git(f"{own}: can't be made", "init", "--quiet", "--bare", "--", str(own))
        objects = git_folder.resolve() / "objects"
        (own / "objects" / "info" / "alternates").write_text(f"{objects}\n")
        for name in REFS:
            if (git_folder / name).is_dir():
                shutil.copytree(git_folder / name, own / name, dirs_exist_ok=True)
            elif (git_folder / name).is_file():
                shutil.copyfile(git_folder / name, own / name)
        yield own
    finally:
        scratch.remove()


def _known(clone: Path, revision: str) -> str:
    """The hash of a commit in the clone; empty if it is not there."""
    git = ("--git-dir", str(clone), "rev-parse", "--quiet", "--verify")
    with suppress(GitRefused):
        return run_git("", *git, "--end-of-options", f"{revision}^{{commit}}").strip()
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
    git = ("--git-dir", str(repository))
    if max_mb is not None:
        _check_size(repository, commit, max_mb)
    with _beside(repository) as scratch:
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


def _check_size(repository: Path, commit: str, max_mb: int) -> None:
    """Raise TreeTooLarge before any file is written: a few git objects can refer to each other so
    that they make millions of files."""
    listing = ("--git-dir", str(repository), "ls-tree", "-r", "--long", commit)
    size = 0
    with _running(listing, _environment(for_server=False), subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            blob = line.split(maxsplit=4)[3]
            # Names also count, because empty files are files too; a submodule has no size.
            size += len(line) + (int(blob) if blob.isdigit() else 0)
            if size > max_mb * MEGABYTE:
                raise TreeTooLarge(repository, max_mb)


def ask_server(problem: str, *arguments: str) -> str:
    """As `run_git`, with the user's config, for a repository's server."""
    return _output(problem, arguments, _environment(for_server=True), advice=f"; {REACHED}")


def run_git(
    problem: str,
    *arguments: str,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> str:
    """git's output, without the user's config. Raises GitRefused with the problem and git's
    message, GitFailed if git is missing or does not end."""
    environment = {**_environment(for_server=False), **(variables or {})}
    return _output(problem, arguments, environment, stdin)


def _output(
    problem: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdin: bytes = b"",
    advice: str = "",
) -> str:
    with _running(arguments, environment) as process:
        output, errors = process.communicate(stdin)
    if process.returncode != 0:
        message = errors.decode(errors="replace").strip()[-1000:]
        raise GitRefused(f"{problem}: git says: {' / '.join(message.splitlines())}{advice}")
    return output.decode(errors="replace")


@contextmanager
def _running(
    arguments: Sequence[str], environment: Mapping[str, str], errors: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """git in a session of its own, so without a terminal to ask for passwords. It ends with all
    that it started, after GIT_TIMEOUT at the latest. Raises GitFailed."""
    try:
        # Not in the current folder, which may lie in a repository of others: its config could
        # name programs.
        process = subprocess.Popen(
            ["git", *arguments],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not installed: install it, or name a folder") from error
    overdue = threading.Event()

    def end_late() -> None:
        overdue.set()
        _kill_session(process)

    timer = threading.Timer(GIT_TIMEOUT, end_late)
    timer.start()
    with process:
        try:
            yield process
        except BaseException:
            _kill_session(process)
            raise
        finally:
            timer.cancel()
    if overdue.is_set():
        raise GitFailed(
            f"git {' '.join(arguments)} did not end in {GIT_TIMEOUT:.0f} s; clone it by hand, and "
            "name the clone's folder"
        )


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _environment(*, for_server: bool) -> dict[str, str]:
    """For servers the user's access to them, proxies and ssh keys included; password prompts fail.
    Otherwise nothing of the user's settings."""
    fixed = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_NO_LAZY_FETCH": "1",
    }
    if for_server:
        access = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **host_environment(GIT_SETTINGS)}
        return access | fixed
    no_config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return host_environment(("GIT_EXEC_PATH",)) | no_config | {"GIT_ATTR_NOSYSTEM": "1"} | fixed
