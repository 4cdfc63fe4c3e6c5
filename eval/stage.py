"""The eval stage: (main, sub) pairs of models on held-out bugs, subagents alone on runtime
questions, and the tables of both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.benchmarks.config import BenchmarkConfig
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.models.serving.backend import POOL
from collect.preflight import Finding
from eval.config import EvalConfig
from eval.end_to_end import FOLDER, InPlaceReport, InPlaceStage
from eval.labels import Labels, labels_of
from eval.report.facts import Selection, sources_of
from eval.report.pages import ReportRequest, write_report
from eval.report.questions import question_files
from eval.standalone.stage import AloneReport, AloneStage

REPORT = "report"


@dataclass(frozen=True)
class EvalReport:
    """The results of an evaluation."""

    in_place: InPlaceReport | None
    """None if the config names no pair of models."""
    alone: AloneReport | None
    """Results of subagents alone; None if the config has no questions, or it was stopped before."""
    page: Path | None
    """The index of the HTML report; None if the config disables it."""

    @property
    def summary(self) -> str:
        """The tables, for a terminal."""
        return "\n".join(part.summary for part in (self.in_place, self.alone) if part is not None)


@POOL.kept()
def run_eval(
    runtime: RuntimeConfig,
    config: EvalConfig,
    collected: BenchmarkConfig,
    run: Path,
    described: dict[str, Any],
) -> EvalReport:
    """Do the rollouts and questions that `run/eval` lacks, and write the tables.

    `collected` is collect's benchmark: its held-out split is evaluated if the config names no
    benchmark. `described` is the whole config, stored with the results. Raises ConfigError.
    """
    labels = labels_of(runtime)
    in_place, alone = _parts(runtime, config, collected, run, labels)
    arms = in_place.measure(described) if in_place is not None else None
    stopped = arms is not None and arms.rollouts.stopped
    asked = alone.measure(described) if alone is not None and not stopped else None
    return EvalReport(arms, asked, _pages(config, run, labels))


@POOL.kept()
def look_before_eval(
    runtime: RuntimeConfig, config: EvalConfig, collected: BenchmarkConfig, run: Path
) -> dict[str, list[Finding]]:
    """Checks before `run_eval`, by what would be measured. Raises ConfigError."""
    in_place, alone = _parts(runtime, config, collected, run, labels_of(runtime))
    found = {"pairs in place": in_place.preflight()} if in_place is not None else {}
    return found | (alone.preflight() if alone is not None else {})


def check_eval(
    runtime: RuntimeConfig, config: EvalConfig, collected: BenchmarkConfig, run: Path
) -> None:
    """Raise ConfigError if the config measures nothing, or uses models that it does not define."""
    _parts(runtime, config, collected, run, labels_of(runtime))


def _parts(
    runtime: RuntimeConfig,
    config: EvalConfig,
    collected: BenchmarkConfig,
    run: Path,
    labels: Labels,
) -> tuple[InPlaceStage | None, AloneStage | None]:
    """The stages that the config requests. Raises ConfigError."""
    if not config.arms() and config.questions is None:
        raise ConfigError(
            "there is nothing to evaluate: set eval.pairs, e.g. [{main: a, sub: b}], or "
            "eval.questions, e.g. {models: [b]}"
        )
    benchmark = config.bugs_of(collected)
    alone = None
    if config.questions is not None:
        bugs = config.questions.benchmark or benchmark
        alone = AloneStage(runtime, config.questions, config.statistics, bugs, run, labels)
        alone.check()
    in_place = InPlaceStage(runtime, config, benchmark, run, labels)
    in_place.check()
    return in_place if config.arms() else None, alone


def _pages(config: EvalConfig, run: Path, labels: Labels) -> Path | None:
    """Write the HTML report of everything in the folder."""
    sources = [each for each in sources_of(run) if each.stage != "collect"]
    if not config.report.html or not sources:
        return None
    questions = question_files(run)
    if config.questions is not None and config.questions.path is not None:
        questions.append(Path(config.questions.path))
    return write_report(
        ReportRequest(
            title=f"{run.name}: evaluation",
            sources=sources,
            output=run / FOLDER / REPORT,
            selection=Selection(limit=config.report.limit),
            questions=questions,
            labels=labels,
        )
    ).index
