"""Bugs that are kept for measuring alone: collect refuses them, and format drops what was held on
them.

They are listed in a run's config (`held_out`), rather than marked in the benchmark that they are
measured on, because a bug gets into training data by other ways than that benchmark: as a copy in
another file, from the same repository by a bug factory, or in a run folder collected long ago. One
list holds against all of these. It takes whole benchmarks, files of bugs, or a part of either,
for each entry is what a `benchmark` section is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.errors import ConfigError
from collect.quantities import first_of

_ADDRESS = re.compile(r"^(?:\w+://[^/]+/|\w+@[^:]+:)|\.git$|/$")


class HeldOutConfig(BaseModel):
    """The `held_out` section of a run's config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmarks: tuple[BenchmarkConfig, ...] = ()
    """Whose bugs are held out, each by its benchmark and id, and by its hash; what `split`,
    `instances` and `limit` leave out is not. `skip` says nothing here."""
    repositories: tuple[str, ...] = ()
    """Repositories of which every bug is held out, of whatever benchmark: `owner/name`, an address
    that ends so, or the name alone."""
    whole_repositories: bool = False
    """Hold out all bugs of the repositories of `benchmarks`, not only those listed there."""


class RepositoryNames:
    """A set of repositories, however their names are written.

    `https://github.com/Owner/name.git`, `owner/name` and `owner__name` are the same; a name without
    an owner is the same as that name with any.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._keys = frozenset(map(repository_key, names))
        self._bare = frozenset(key for key in self._keys if "/" not in key)
        self._last = frozenset(key.rpartition("/")[2] for key in self._keys)

    def __contains__(self, name: str) -> bool:
        key = repository_key(name)
        last = key.rpartition("/")[2]
        return key in self._keys or last in self._bare or (key == last and key in self._last)

    def __len__(self) -> int:
        return len(self._keys)


def repository_key(name: str) -> str:
    """The one way in which a repository's name is compared."""
    plain = name.strip()
    while (shorter := _ADDRESS.sub("", plain)) != plain:
        plain = shorter
    return plain.replace("__", "/").lower()


@dataclass(frozen=True)
class HeldOut:
    """The bugs that a config holds out."""

    instances: frozenset[tuple[str, str]] = frozenset()
    """Benchmark and id."""
    hashes: frozenset[str] = frozenset()
    repositories: RepositoryNames = field(default_factory=RepositoryNames)

    @classmethod
    def of(cls, config: HeldOutConfig) -> HeldOut:
        """Reads the benchmarks. Raises ConfigError."""
        bugs = [bug for each in config.benchmarks for bug in _bugs(each)]
        whole = {bug.repository for bug in bugs} if config.whole_repositories else set()
        return cls(
            frozenset((bug.benchmark, bug.id) for bug in bugs),
            frozenset(bug.hash for bug in bugs),
            RepositoryNames({*config.repositories, *whole}),
        )

    def has(self, benchmark: str, instance_id: str, instance_hash: str, repository: str) -> bool:
        """Whether a bug is held out."""
        return (
            (benchmark, instance_id) in self.instances
            or instance_hash in self.hashes
            or repository in self.repositories
        )

    def __bool__(self) -> bool:
        return bool(self.instances or len(self.repositories))


def refuse_held_out(instances: Sequence[Instance], config: HeldOutConfig) -> None:
    """Raises ConfigError where any of them is held out: they must not become training data."""
    held_out = HeldOut.of(config)
    if not held_out:
        return
    found = [
        bug.id for bug in instances if held_out.has(bug.benchmark, bug.id, bug.hash, bug.repository)
    ]
    if found:
        raise ConfigError(
            f"collect.benchmark: {len(found)} of {len(instances)} bugs are held out from training "
            f"by this config's held_out section: {first_of(found)}. Leave them out "
            "with collect.benchmark.instances or collect.benchmark.split, or measure on them with "
            "`stepinto eval`"
        )


def _bugs(config: BenchmarkConfig) -> list[Instance]:
    return select_instances(config, open_benchmark(config))
