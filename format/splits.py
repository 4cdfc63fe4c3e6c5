"""Assign repositories to splits, for rows of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Set

from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.splits import held_out
from collect.errors import ConfigError
from format.config import FormatConfig

TRAIN, TEST = "train", "test"


class Splits:
    """The split of each repository, the same in all datasets of a run.

    If a repository's name is written in several ways that are assigned to different splits, it is
    in `train`.
    """

    def __init__(self, config: FormatConfig, repositories: Iterable[str]) -> None:
        """`repositories` are those of the conversations. Raises ConfigError if none is left to
        train on."""
        self._config = config
        self._known = frozenset(repositories)
        test = held_out(self._known, config.test_fraction, config.split_seed)
        self._test = _apart(test, self._known - test)
        if self._known <= self._test:
            raise ConfigError(
                f"format.test_fraction = {config.test_fraction} puts all {len(self._known)} "
                "repositories into the test split; lower it, or collect on more repositories"
            )

    def extend(self, repositories: Iterable[str]) -> None:
        """Assign further repositories; the others keep their split."""
        new = set(repositories) - self._known
        tested = RepositoryNames(self._test)
        test = held_out(new, self._config.test_fraction, self._config.split_seed)
        test |= {name for name in new if name in tested}
        self._test |= _apart(test, (self._known - self._test) | (new - test))
        self._known |= new

    def of(self, repository: str) -> str:
        """`train` or `test`."""
        assert repository in self._known, f"{repository} has no side"
        return TEST if repository in self._test else TRAIN


def _apart(test: Set[str], train: Set[str]) -> frozenset[str]:
    """The repositories in `test` that are not also in `train` under another name."""
    known = RepositoryNames(train)
    same = {name for name in test if name in known}
    return _apart(test - same, train | same) if same else frozenset(test)
