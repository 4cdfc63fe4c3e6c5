"""Bugs reserved for measuring: collect refuses them, and format drops their conversations.

A run's config lists them (`held_out`) instead of a mark in their benchmark, because a bug can also
get into training data as a copy in another file, from the same repository by a bug factory, or in
an old run folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.errors import ConfigError
from collect.quantities import first_of
from collect.store.files import StrictRecord

_ADDRESS = re.compile(r"^(?:\w+://[^/]+/|\w+@[^:]+:)|\.git$|/$")


class HeldOutConfig(StrictRecord):
    """The `held_out` section of a run's config."""

    benchmarks: tuple[BenchmarkConfig, ...] = ()
    """Benchmarks whose bugs are held out, by benchmark and id, and by hash; only those selected by
    `split`, `instances` and `limit`. `skip` has no effect here."""
    repositories: tuple[str, ...] = ()
    """Repositories whose bugs are all held out, in any benchmark: `owner/name`, an address that
    ends so, or the name alone."""
    whole_repositories: bool = False
    """Hold out all bugs of the repositories of `benchmarks`, not only those listed there."""


class RepositoryNames:
    """A set of repositories, independent of how their names are written.

    `https://github.com/Owner/name.git`, `owner/name` and `owner__name` are equal; a name without an
    owner is equal to that name with any owner.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._keys = frozenset(map(repository_key, names))
        self._bare = frozenset(key for key in self._keys if "/" not in key)
        self._last = frozenset(key.rpartition("/")[2] for key in self._keys)

    def __contains__(self, name: str) -> bool:
        key = repository_key(name)
        last = key.rpartition("/")[2]
        return key in self._keys or last in self._bare or (key == last and key in self._last)


def repository_key(name: str) -> str:
    """A repository's name in canonical form."""
    plain = name.strip()
    while (shorter := _ADDRESS.sub("", plain)) != plain:
        plain = shorter
    return plain.replace("__", "/").lower()


@dataclass(frozen=True)
class HeldOut:
    instances: frozenset[tuple[str, str]] = frozenset()
    """Benchmark and id."""
    hashes: frozenset[str] = frozenset()
    repositories: RepositoryNames = field(default_factory=RepositoryNames)

    @classmethod
    def of(cls, config: HeldOutConfig) -> HeldOut:
        """Read the benchmarks. Raises ConfigError."""
        opened = [(each, open_benchmark(each)) for each in config.benchmarks]
        bugs = [bug for each, known in opened for bug in select_instances(each, known)]
        whole = {bug.repository for bug in bugs} if config.whole_repositories else set()
        return cls(
            frozenset((bug.benchmark, bug.id) for bug in bugs),
            frozenset(bug.hash for bug in bugs),
            RepositoryNames({*config.repositories, *whole}),
        )

    def has(self, benchmark: str, instance_id: str, instance_hash: str, repository: str) -> bool:
        return (
            (benchmark, instance_id) in self.instances
            or instance_hash in self.hashes
            or repository in self.repositories
        )


def refuse_held_out(instances: Sequence[Instance], config: HeldOutConfig) -> None:
    """Raises ConfigError if any of them is held out: they must not become training data."""
    has = HeldOut.of(config).has
    if found := [b.id for b in instances if has(b.benchmark, b.id, b.hash, b.repository)]:
        raise ConfigError(
            f"collect.benchmark: {len(found)} of {len(instances)} bugs are held out from training "
            f"by this config's held_out section: {first_of(found)}. Leave them out "
            "with collect.benchmark.instances or collect.benchmark.split, or measure on them with "
            "`stepinto eval`"
        )
