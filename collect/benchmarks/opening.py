"""Open the benchmark that a config names, and choose its instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.bundled import BUNDLED, BundledBenchmark
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.gitbug_java.benchmark import GitBugJavaBenchmark
from collect.benchmarks.humanevalfix import HumanEvalFixBenchmark
from collect.benchmarks.humanevalfix_rows import HUB_ID
from collect.benchmarks.local import LocalBenchmark
from collect.benchmarks.self_repair import SelfRepairBenchmark
from collect.benchmarks.splits import held_out
from collect.benchmarks.swe_bench.benchmark import TEST_TIMEOUT, SweBenchBenchmark
from collect.errors import ConfigError
from collect.self_repair.records import BUNDLED_FILE


def open_benchmark(config: BenchmarkConfig) -> Benchmark:
    """The benchmark; its data is read by `instances()`."""
    path = Path(config.path) if config.path is not None else None
    if config.name == "bundled":
        return BundledBenchmark(path or BUNDLED, config.test_timeout, config.languages)
    if config.name == "self_repair":
        return SelfRepairBenchmark(path or BUNDLED_FILE, config.test_timeout)
    if config.name == "swe_bench":
        return _swe_bench(config, path)
    if config.name == "gitbug_java":
        return _gitbug_java(config, path)
    if config.name == "local":
        if path is None:
            raise ConfigError(
                "benchmark.path is missing: benchmark.name=local is about a bugs.jsonl, which "
                "benchmark.path names"
            )
        return LocalBenchmark(path, config.test_timeout, config.languages)
    return HumanEvalFixBenchmark(
        path, config.hub_id or HUB_ID, config.test_timeout, config.languages
    )


def _swe_bench(config: BenchmarkConfig, path: Path | None) -> SweBenchBenchmark:
    return SweBenchBenchmark(
        path,
        hub_id=config.hub_id,
        hub_split=config.hub_split,
        test_timeout=_long_timeout(config),
        languages=config.languages,
        show_tests=config.show_tests,
    )


def _gitbug_java(config: BenchmarkConfig, path: Path | None) -> GitBugJavaBenchmark:
    if config.language == "python":
        raise ConfigError("gitbug_java has Java bugs alone: set benchmark.language=java")
    return GitBugJavaBenchmark(
        path,
        hub_id=config.hub_id,
        hub_split=config.hub_split,
        test_timeout=_long_timeout(config),
        repositories=Path(config.repositories) if config.repositories else None,
        image=None if config.repositories else config.image,
        image_folder=config.image_folder,
    )


def _long_timeout(config: BenchmarkConfig) -> float:
    """Of benchmarks that run whole suites of real projects, building them."""
    return config.test_timeout if "test_timeout" in config.model_fields_set else TEST_TIMEOUT


def select_instances(config: BenchmarkConfig, benchmark: Benchmark) -> list[Instance]:
    """The instances that the config asks for, in the benchmark's order. Raises ConfigError."""
    instances = benchmark.instances()
    patterns = config.instances
    _refuse_duplicates(config, instances)
    if patterns is not None:
        _refuse_unknown(patterns, [instance.id for instance in instances])
    selected = [
        instance
        for instance in _split(config, instances)
        if patterns is None or any(fnmatchcase(instance.id, pattern) for pattern in patterns)
    ]
    if not selected:
        raise ConfigError(
            f"benchmark {config.name}: no instance left; benchmark.language is {config.language}, "
            f"benchmark.split is {config.split}, "
            f"benchmark.instances is {'all' if patterns is None else ', '.join(patterns)}"
        )
    return selected[: config.limit]


def _split(config: BenchmarkConfig, instances: Iterable[Instance]) -> list[Instance]:
    instances = list(instances)
    if config.split == "all":
        return instances
    # Each language by itself, so that a bug's side does not depend on which ones are asked for.
    kept: set[str] = set()
    for language in config.languages:
        repositories = {each.repository for each in instances if each.language == language}
        kept |= held_out(repositories, config.held_out_fraction, config.split_seed)
    wanted = config.split == "held_out"
    return [instance for instance in instances if (instance.repository in kept) == wanted]


def _refuse_duplicates(config: BenchmarkConfig, instances: Iterable[Instance]) -> None:
    counts = Counter(instance.id for instance in instances)
    twice = [instance_id for instance_id, count in counts.items() if count > 1]
    if twice:
        raise ConfigError(
            f"benchmark {config.name}: {', '.join(twice[:5])} stands there more than once; give "
            "each bug an id of its own, or remove the copies from the data"
        )


def _refuse_unknown(patterns: Iterable[str], ids: list[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(instance_id, pattern) for instance_id in ids):
            nearest = get_close_matches(pattern, ids, n=3, cutoff=0.4)
            hint = f"; the nearest are {', '.join(nearest)}" if nearest else ""
            raise ConfigError(f"benchmark.instances: {pattern} matches no instance{hint}")
