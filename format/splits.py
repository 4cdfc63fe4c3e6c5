"""Which split a repository's rows are in, whatever rows they are."""

from __future__ import annotations

from collections.abc import Iterable, Set

from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.splits import held_out
from collect.errors import ConfigError
from format.config import FormatConfig

TRAIN, TEST = "train", "test"


class Splits:
    """The sides of repositories. None is on both, in any of the data sets of a run.

    One whose name is written in several ways, on both sides by chance, is one to train on.
    """

    def __init__(self, config: FormatConfig, repositories: Iterable[str]) -> None:
        """`repositories` are those of the conversations. Raises ConfigError where none of them is
        left to train on."""
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
        """Give further repositories a side; the others keep theirs."""
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
    """Those of `test` that are not also in `train`, under whatever name."""
    known = RepositoryNames(train)
    same = {name for name in test if name in known}
    return _apart(test - same, train | same) if same else frozenset(test)
