"""Open the problems that a config names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from collect.benchmarks.row_files import Rows, file_rows
from collect.errors import ConfigError
from collect.self_repair.bigcodebench import BigCodeBench
from collect.self_repair.config import SelfRepairConfig
from collect.self_repair.leetcodedataset import LeetCodeDataset
from collect.self_repair.livecodebench import LiveCodeBench
from collect.self_repair.problem import Problem, ProblemSource

PROBLEMS = Path(__file__).parent / "bundled" / "problems"
SOURCES: dict[str, ProblemSource] = {
    source.name: source for source in (BigCodeBench(), LiveCodeBench(), LeetCodeDataset())
}


def read_problems(config: SelfRepairConfig) -> list[Problem]:
    """All problems of the config's data, in its order. Raises ConfigError."""
    problems = list(_problems(config))
    ids = [problem.id for problem in problems]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ConfigError(
            f"{data_name(config)}: {', '.join(twice[:5])} stands there more than once; remove the "
            "copies from the data"
        )
    return problems


def data_name(config: SelfRepairConfig) -> str:
    """Where the problems come from, as the card says it."""
    if config.path is not None:
        return Path(config.path).name
    if config.source == "bundled":
        return "bundled"
    source = SOURCES[config.source]
    return f"{config.hub_id or source.hub_id} {config.split or source.split}"


def _problems(config: SelfRepairConfig) -> Iterator[Problem]:
    if config.source == "bundled":
        for name in ("bigcodebench", "livecodebench"):
            for problem in _read(SOURCES[name], file_rows(PROBLEMS / f"{name}.jsonl", "bundled")):
                yield replace(problem, source="bundled")
        return
    source = SOURCES[config.source]
    if config.path is not None:
        yield from _read(source, file_rows(Path(config.path), "self_repair.path"))
    else:
        hub_id, split = config.hub_id or source.hub_id, config.split or source.split
        yield from _read(source, source.hub_rows(hub_id, split))


def _read(source: ProblemSource, rows: Rows) -> Iterator[Problem]:
    for where, row in rows:
        yield source.problem(where, row)
