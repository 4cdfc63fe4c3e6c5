"""Open the benchmark that a config names, and select its instances."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, TypeVar

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.bundled import BUNDLED, BundledBenchmark
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.git_clones import is_git_url
from collect.benchmarks.gitbug_java import GitBugJavaBenchmark
from collect.benchmarks.humanevalfix import HUB_ID, HumanEvalFixBenchmark
from collect.benchmarks.local import BUGS_FILE, LocalBenchmark
from collect.benchmarks.local_repository import LocalRepositoryBenchmark
from collect.benchmarks.marks import (
    EnvironmentFingerprint,
    Mark,
    Verification,
    Verifications,
    with_verifications,
)
from collect.benchmarks.self_repair.benchmark import BUNDLED_FILE, SelfRepairBenchmark
from collect.benchmarks.swe_bench.benchmark import TEST_TIMEOUT, SweBenchBenchmark
from collect.errors import ConfigError, the_nearest
from collect.quantities import first_of
from sandbox import SandboxConfig

logger = logging.getLogger(__name__)

SHORT_TEST_TIMEOUT = 60.0
"""Seconds for one run of a bug's few tests; TEST_TIMEOUT is for whole suites of real projects,
builds included."""


def open_benchmark(config: BenchmarkConfig, sandbox: SandboxConfig | None = None) -> Benchmark:
    """Open the benchmark; `instances()` reads its data. `sandbox` runs a repository's tests to find
    the failing ones; None: the default one."""
    path = Path(config.path) if config.path is not None else None
    short, long = config.test_timeout or SHORT_TEST_TIMEOUT, config.test_timeout or TEST_TIMEOUT
    if config.name == "bundled":
        return BundledBenchmark(path or BUNDLED, short, config.languages)
    if config.name == "humanevalfix":
        return HumanEvalFixBenchmark(path, config.hub_id or HUB_ID, short, config.languages)
    if config.name == "self_repair":
        if config.language == "java":
            raise ConfigError("self_repair has Python bugs alone: set benchmark.language=python")
        return SelfRepairBenchmark(path or BUNDLED_FILE, short)
    if config.name == "swe_bench":
        return SweBenchBenchmark(
            path,
            hub_id=config.hub_id,
            hub_split=config.hub_split,
            test_timeout=long,
            languages=config.languages,
            show_tests=config.show_tests,
        )
    if config.name == "gitbug_java":
        if config.language == "python":
            raise ConfigError("gitbug_java has Java bugs alone: set benchmark.language=java")
        return GitBugJavaBenchmark(
            path,
            hub_id=config.hub_id,
            hub_split=config.hub_split,
            test_timeout=long,
            repositories=Path(config.repositories) if config.repositories else None,
            image=None if config.repositories else config.image,
            image_folder=config.image_folder,
        )
    return _open_local(config, sandbox or SandboxConfig(), short, long)


def _open_local(
    config: BenchmarkConfig, sandbox: SandboxConfig, short: float, long: float
) -> Benchmark:
    if config.path is None:
        raise ConfigError(
            "benchmark.path is missing: benchmark.name=local is about a bugs.jsonl, or a "
            "repository in a folder or at a git URL, which benchmark.path names"
        )
    path = Path(config.path)
    if is_git_url(config.path) or (path.is_dir() and not (path / BUGS_FILE).is_file()):
        return LocalRepositoryBenchmark(
            config.path, config, sandbox, long, java=config.language == "java"
        )
    if config.repository_keys:
        raise ConfigError(
            f"benchmark.{config.repository_keys[0]} is about a repository, and {path} is not one: "
            "name its folder or its git URL, or leave the key out; the lines of a bugs.jsonl have "
            "fields of their own"
        )
    return LocalBenchmark(path, short, config.languages)


def select_instances(config: BenchmarkConfig, benchmark: Benchmark) -> list[Instance]:
    """The instances that the config selects, in order. Raises ConfigError."""
    instances = benchmark.instances()
    if not instances:
        raise ConfigError(
            f"benchmark {config.name}: {config.path or config.hub_id or 'its data'} holds no bugs; "
            "benchmark.path names the file or folder that does"
        )
    ids = [instance.id for instance in instances]
    if twice := [instance_id for instance_id, count in Counter(ids).items() if count > 1]:
        raise ConfigError(
            f"benchmark {config.name}: {', '.join(twice[:5])} stands there more than once; give "
            "each bug an id of its own, or remove the copies from the data"
        )
    named = set(ids) if config.instances is None else set()
    for pattern in config.instances or ():
        matching = {instance_id for instance_id in ids if fnmatchcase(instance_id, pattern)}
        if not matching:
            raise ConfigError(
                f"benchmark.instances: {pattern} matches no instance{the_nearest(pattern, ids)}; "
                "`stepinto bench list CONFIG collect.benchmark.instances=null` lists all"
            )
        named |= matching
    in_split = _in_split(config, instances)
    if selected := [instance for instance in in_split if instance.id in named]:
        return list(drawn(selected, config.shuffle_seed, config.limit))
    told = f"benchmark {config.name}: no instance left of {len(instances)}"
    if config.instances == ():
        raise ConfigError(f"{told}: benchmark.instances is empty; leave it out for all of them")
    told += f": {len(in_split)} of them are in benchmark.split={config.split}"
    if config.instances is not None:
        told += ", none of which benchmark.instances names"
    if config.split != "all" and len({instance.repository for instance in instances}) == 1:
        told += (
            "; its bugs are of one repository, which can't be divided: give `eval.benchmark` other "
            "bugs, or set benchmark.split to all"
        )
    raise ConfigError(told)


def _in_split(config: BenchmarkConfig, instances: Sequence[Instance]) -> Sequence[Instance]:
    if config.split == "all":
        return instances
    # Each language separately, so that a bug's side does not depend on the selected languages.
    kept: set[str] = set()
    for language in config.languages:
        repositories = {each.repository for each in instances if each.language == language}
        kept |= held_out(repositories, config.held_out_fraction, config.split_seed)
    wanted = config.split == "held_out"
    return [instance for instance in instances if (instance.repository in kept) == wanted]


@dataclass(frozen=True)
class Choice:
    """The instances of a config, without those that a verification marked."""

    instances: tuple[Instance, ...]
    skipped: tuple[Verification, ...] = ()

    def __str__(self) -> str:
        """`3 bugs are skipped: 2 broken (one, two), 1 flaky (three)`; empty if there are none."""
        if not self.skipped:
            return ""
        by_mark: dict[Mark, list[str]] = defaultdict(list)
        for each in self.skipped:
            by_mark[each.marks[0]].append(each.instance_id)
        groups = [f"{len(ids)} {mark} ({first_of(ids)})" for mark, ids in sorted(by_mark.items())]
        bugs = "1 bug is" if len(self.skipped) == 1 else f"{len(self.skipped)} bugs are"
        return f"{bugs} skipped: {', '.join(groups)}"


def open_chosen(config: BenchmarkConfig, sandbox: SandboxConfig) -> tuple[Benchmark, Choice]:
    """A config's benchmark and its selected bugs; logs which are skipped. Raises ConfigError."""
    benchmark = open_benchmark(config, sandbox)
    choice = choose_instances(config, benchmark, sandbox)
    if choice.skipped:
        logger.info(f"{choice}; benchmark.skip=[] takes them all the same")
    return benchmark, choice


def choose_instances(
    config: BenchmarkConfig,
    benchmark: Benchmark,
    sandbox_config: SandboxConfig,
    verifications: Verifications | None = None,
) -> Choice:
    """The instances that the config selects, without those that a verification in this sandbox
    marked with one of `skip`; `limit` counts the rest. Raises ConfigError."""
    selected = select_instances(config.model_copy(update={"limit": None}), benchmark)
    kept: list[Instance] = []
    skipped: list[Verification] = []
    ran_in = EnvironmentFingerprint(sandbox_config)
    for instance, verification in with_verifications(
        selected, ran_in, verifications or Verifications()
    ):
        if verification is not None and not set(config.skip).isdisjoint(verification.marks):
            skipped.append(verification)
        else:
            kept.append(instance)
        if len(kept) == config.limit:
            break
    choice = Choice(tuple(kept), tuple(skipped))
    if not kept:
        raise ConfigError(
            f"benchmark {config.name}: no instance left: {choice}; `stepinto bench verify` says "
            "what is wrong with them, and benchmark.skip=[] takes them all the same"
        )
    return choice


class _Named(Protocol):
    @property
    def id(self) -> str: ...


Named = TypeVar("Named", bound=_Named)


def held_out(repositories: Iterable[str], fraction: float, seed: int = 0) -> frozenset[str]:
    """The repositories held out for evaluation.

    Deterministic for a set, fraction and seed, on every machine and in every stage. Of two or more
    repositories at least one is on each side, unless the fraction is 0 or 1.
    """
    ranked = sorted(set(repositories), key=lambda name: _rank(name, seed))
    count = round(fraction * len(ranked))
    if 0 < fraction < 1 and len(ranked) > 1:
        count = min(max(count, 1), len(ranked) - 1)
    return frozenset(ranked[:count])


def drawn(items: Sequence[Named], seed: int | None, limit: int | None) -> Sequence[Named]:
    """At most `limit` items: the first ones, or with a seed, the first ones in a random order, in
    which an item's place beside the others does not depend on them."""
    if seed is not None:
        items = sorted(items, key=lambda item: _rank(item.id, seed))
    return items[:limit]


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
