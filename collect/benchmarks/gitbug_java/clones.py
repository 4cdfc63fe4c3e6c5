"""Trees of a commit with patches, out of clones on this machine, which are left as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from collect.errors import ConfigError
from collect.git_clones import GitFailed, borrowed, read_tree

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
    with borrowed(_git_folder(clone)) as repository:
        try:
            return read_tree(repository, commit, patches, left_out=())
        except GitFailed as error:
            raise ConfigError(
                f"{clone} at {commit}: {error}; fetch the commit, or clone the repository anew"
            ) from error


def _git_folder(clone: Path) -> Path:
    """Where a clone's objects are."""
    inside = clone / ".git"
    if not inside.is_file():
        return inside if inside.is_dir() else clone
    # A worktree, or a submodule: the file names the folder.
    named = Path(inside.read_text().partition("gitdir:")[2].strip())
    folder = (clone / named).resolve()
    common = folder / "commondir"
    return (folder / common.read_text().strip()).resolve() if common.is_file() else folder
