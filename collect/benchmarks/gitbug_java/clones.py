"""Trees of a commit with patches, out of clones on this machine, which are left as they are."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from collect.benchmarks.trees import read_folder
from collect.errors import ConfigError

GIT_TIMEOUT = 300.0
KEPT_TREES = 16
"""Of many bugs with large trees not all fit into memory."""


def find_clone(folder: Path, repository: str) -> Path | None:
    """A repository's clone, bare or not: `owner/name`, `owner-name` or `name` in a folder."""
    owner, _, name = repository.partition("/")
    for place in (f"{owner}/{name}", f"{owner}-{name}", name):
        for clone in (folder / place, folder / f"{place}.git"):
            if (clone / ".git").exists() or (clone / "HEAD").is_file():
                return clone
    return None


class ClonedTree(Mapping[str, bytes]):
    """The files of a commit with patches applied, read when they are first asked for.

    Reading raises ConfigError where the clone or the commit is missing, or a patch does not fit.
    """

    def __init__(
        self, folder: Path | None, repository: str, commit: str, patches: tuple[str, ...]
    ) -> None:
        self._folder = folder
        self._repository = repository
        self._commit = commit
        self._patches = patches

    def __getitem__(self, path: str) -> bytes:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def _files(self) -> Mapping[str, bytes]:
        return _tree(self._clone(), self._commit, self._patches)

    def _clone(self) -> Path:
        clone = find_clone(self._folder, self._repository) if self._folder else None
        if clone is not None:
            return clone
        name = self._repository.replace("/", "-")
        address = f"https://github.com/gitbugactions/{self._repository.partition('/')[2]}"
        if self._folder is None:
            raise ConfigError(
                f"the code of {self._repository} is not known: set benchmark.repositories to a "
                f"folder with clones (`git clone {address} {name}` there), or benchmark.image to "
                "the name of images that hold it"
            )
        raise ConfigError(
            f"{self._folder}: no clone of {self._repository}; benchmark.repositories names a "
            f"folder with clones: `git clone {address} {self._folder / name}`"
        )


@lru_cache(maxsize=KEPT_TREES)
def _tree(clone: Path, commit: str, patches: tuple[str, ...]) -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as scratch:
        git = _Git(clone, Path(scratch))
        git.run(f"{clone}: has no commit {commit}; fetch it", "read-tree", commit)
        for patch in patches:
            problem = f"{clone} at {commit}: a patch does not fit"
            git.run(problem, "apply", "--cached", "--whitespace=nowarn", stdin=patch.encode())
        # Not `git archive`, which leaves out what a project does not ship: often its tests.
        tree = Path(scratch) / "tree"
        out = ("checkout-index", "--all", "--quiet", f"--prefix={tree}/")
        git.run(f"{clone}: can't be read", f"--work-tree={scratch}", *out)
        return read_folder(tree, left_out=())


class _Git:
    """git on a clone, with an index and new objects elsewhere."""

    def __init__(self, clone: Path, scratch: Path) -> None:
        self._clone = clone
        objects = self._git_folder() / "objects"
        (scratch / "objects").mkdir()
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
        }

    def run(self, problem: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """A command's output. Raises ConfigError with the problem and what git said."""
        command = ["git", "-C", str(self._clone), *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            env=self._environment,
            timeout=GIT_TIMEOUT,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise ConfigError(f"{problem}: {said[-1000:]}")
        return done.stdout

    def _git_folder(self) -> Path:
        inside = self._clone / ".git"
        if not inside.is_file():
            return inside if inside.is_dir() else self._clone
        # A worktree, or a submodule: the file names the folder.
        named = Path(inside.read_text().partition("gitdir:")[2].strip())
        folder = (self._clone / named).resolve()
        common = folder / "commondir"
        return (folder / common.read_text().strip()).resolve() if common.is_file() else folder
