"""The instances of a config without those that a verification marked."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.marks import Mark, Verification
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.benchmarks.ran_in import RanIn
from collect.benchmarks.verifications import Verifications, with_verifications
from collect.durable import write_text
from collect.errors import ConfigError
from collect.quantities import first_of
from collect.telling import tell
from sandbox import SandboxConfig

SKIPPED_FILE = "skipped.json"


@dataclass(frozen=True)
class Choice:
    """The bugs to work on, and those left out."""

    instances: tuple[Instance, ...]
    skipped: tuple[Verification, ...] = ()

    def __str__(self) -> str:
        """`3 bugs are skipped: 2 broken (one, two), 1 flaky (three)`; empty where none is."""
        if not self.skipped:
            return ""
        by_mark: dict[Mark, list[str]] = defaultdict(list)
        for each in self.skipped:
            by_mark[each.marks[0]].append(each.instance_id)
        groups = [f"{len(ids)} {mark} ({first_of(ids)})" for mark, ids in sorted(by_mark.items())]
        bugs = "1 bug is" if len(self.skipped) == 1 else f"{len(self.skipped)} bugs are"
        return f"{bugs} skipped: {', '.join(groups)}"


def open_chosen(config: BenchmarkConfig, sandbox: SandboxConfig) -> tuple[Benchmark, Choice]:
    """A config's benchmark, and which of its bugs are worked on. Raises ConfigError."""
    benchmark = open_benchmark(config, sandbox)
    return benchmark, choose_instances(config, benchmark, sandbox)


def choose_instances(
    config: BenchmarkConfig,
    benchmark: Benchmark,
    sandbox_config: SandboxConfig,
    verifications: Verifications | None = None,
) -> Choice:
    """What the config selects, but for those with a mark in `skip`; `limit` counts what is left.

    A bug that was never verified in this sandbox is not skipped. Raises ConfigError.
    """
    selected = select_instances(config.model_copy(update={"limit": None}), benchmark)
    found = with_verifications(selected, RanIn(sandbox_config), verifications or Verifications())
    kept: list[Instance] = []
    skipped: list[Verification] = []
    for instance, verification in found:
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


def tell_skipped(choice: Choice, folder: Path) -> None:
    """Say on standard error what is skipped, and keep it in the folder beside the rollouts."""
    path = folder / SKIPPED_FILE
    if not choice.skipped:
        path.unlink(missing_ok=True)
        return
    tell(f"{choice}; benchmark.skip=[] takes them all the same")
    folder.mkdir(parents=True, exist_ok=True)
    lines = TypeAdapter(tuple[Verification, ...]).dump_json(choice.skipped, indent=1)
    write_text(path, f"{lines.decode()}\n")
