"""Which split a repository's rows are in, whatever rows they are."""

from __future__ import annotations

from collections.abc import Iterable

from collect.benchmarks.splits import held_out
from collect.errors import ConfigError
from format.config import FormatConfig

TRAIN, TEST = "train", "test"


class Splits:
    """The sides of repositories. None is on both, in any of the data sets of a run."""

    def __init__(self, config: FormatConfig, repositories: Iterable[str]) -> None:
        """`repositories` are those of the conversations. Raises ConfigError where none of them is
        left to train on."""
        self._config = config
        self._known = frozenset(repositories)
        self._test = set(held_out(self._known, config.test_fraction, config.split_seed))
        if self._known <= self._test:
            raise ConfigError(
                f"format.test_fraction = {config.test_fraction} puts all {len(self._known)} "
                "repositories into the test split; lower it, or collect on more repositories"
            )

    def extend(self, repositories: Iterable[str]) -> None:
        """Give further repositories a side; the others keep theirs."""
        new = set(repositories) - self._known
        self._test |= held_out(new, self._config.test_fraction, self._config.split_seed)
        self._known |= new

    def of(self, repository: str) -> str:
        """`train` or `test`."""
        assert repository in self._known, f"{repository} has no side"
        return TEST if repository in self._test else TRAIN
