"""The eval stage: (main, sub) pairs of models on held-out bugs, subagents alone on runtime
questions, and the tables of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from collect.benchmarks.choosing import choose_instances, tell_skipped
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark
from collect.config import Machinery
from collect.errors import ConfigError
from collect.models.serving.pool import keep_servers
from collect.rollout import RolloutSpec
from collect.rollout_rows import RunIdentity
from collect.rollouts import RolloutsSummary, do_rollouts
from collect.store import RunStore
from eval.alone.stage import AloneReport, AloneStage
from eval.config import EvalConfig
from eval.figures import Record
from eval.full_set import full_set_of
from eval.labels import Labels, labels_of
from eval.metrics import compare
from eval.output import TablePaths, write_tables
from eval.page import summary
from eval.paired.report import paired_report
from eval.panels import panels_of
from eval.paper_figures import arm_records, panel_records
from eval.qualitative.agreement_tables import agreement_records
from eval.qualitative.judge import Judge, JudgeReport, check_judge
from eval.qualitative.samples import Samples
from eval.qualitative.study import gold_patches, study
from eval.qualitative.tables import qualitative_records
from eval.report.facts import Selection, sources_of
from eval.report.questions import question_files
from eval.report.writing import ReportRequest, write_report
from eval.training_data import note_training

FOLDER, REPORT = "eval", "report"


@dataclass(frozen=True)
class EvalReport:
    """What an evaluation came to."""

    summary: str
    """The tables, for a terminal."""
    rollouts: RolloutsSummary | None
    """None where the config names no pair of models."""
    tables: TablePaths | None
    alone: AloneReport | None = None
    """Subagents alone; None where the config has no questions, or was stopped before them."""
    judge: JudgeReport | None = None
    """What a model said of questions and failures; None where none is asked."""
    page: Path | None = None
    """The index of the report for a browser; None where the config wants none."""


@keep_servers()
def run_eval(
    machinery: Machinery,
    config: EvalConfig,
    collected: BenchmarkConfig,
    run: Path,
    described: dict[str, Any],
) -> EvalReport:
    """Do the rollouts and ask the questions that `run/eval` does not have; write the tables.

    `collected` is collect's benchmark: its held-out split is evaluated where the config names no
    benchmark. `described` is the whole config, noted beside the numbers. Raises ConfigError.
    """
    benchmark = config.benchmark or collected.model_copy(update={"split": "held_out"})
    if not config.arms() and config.questions is None:
        raise ConfigError(
            "there is nothing to evaluate: set eval.pairs, e.g. [{main: a, sub: b}], or "
            "eval.questions, e.g. {models: [b]}"
        )
    labels = labels_of(machinery)
    alone = None
    if config.questions is not None:
        asked = config.questions.benchmark or benchmark
        alone = AloneStage(machinery, config.questions, config.statistics, asked, run, labels)
        alone.check()
    if config.judge is not None:
        check_judge(machinery, config.judge)
    report = EvalReport("", None, None)
    if config.arms():
        report = _in_place(machinery, config, benchmark, run, described=described, labels=labels)
    if alone is not None and not (report.rollouts is not None and report.rollouts.stopped):
        measured = alone.measure(described)
        summary = "\n".join(part for part in (report.summary, measured.summary) if part)
        report = replace(report, summary=summary, alone=measured)
    return replace(report, page=_pages(config, run, labels))


def _pages(config: EvalConfig, run: Path, labels: Labels) -> Path | None:
    """The report for a browser, of all that the folder holds."""
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


def _in_place(
    machinery: Machinery,
    config: EvalConfig,
    benchmark_config: BenchmarkConfig,
    run: Path,
    *,
    described: dict[str, Any],
    labels: Labels,
) -> EvalReport:
    """Every arm on the bugs of the benchmark."""
    benchmark = open_benchmark(benchmark_config, machinery.sandbox)
    choice = choose_instances(benchmark_config, benchmark, machinery.sandbox)
    full_set = full_set_of(benchmark)
    specs = [
        RolloutSpec(instance, variant, main, sub, attempt)
        for attempt in range(config.attempts)
        for instance in choice.instances
        for variant, main, sub in config.arms()
    ]
    folder = run / FOLDER
    tell_skipped(choice, folder)
    rollouts = do_rollouts(
        machinery, benchmark, specs, RunIdentity(run.name, machinery.seed), folder
    )
    asked = {spec.id for spec in specs}
    rows = [row for row in RunStore(folder).read_rollouts() if row.rollout_id in asked]
    comparison = note_training(compare(rows, config.baseline), choice.instances, run)
    comparison = replace(comparison, skipped=str(choice))
    panels = panels_of(comparison, rows, {benchmark.name: full_set} if full_set else {})
    paired = paired_report(rows, config.statistics, config.baseline)
    samples = Samples.of(config.judge) if config.judge and not rollouts.stopped else None
    conversations = RunStore(folder).read_conversations()
    found = study(rows, conversations, gold_patches(choice.instances), samples)
    records: list[Record] = [
        *arm_records(comparison, rows, labels),
        *panel_records(panels, labels),
        *qualitative_records(found, labels),
    ]
    write = partial(
        write_tables,
        comparison,
        rows,
        folder,
        panels=panels,
        paired=paired,
        config=described,
        labels=labels,
    )
    report = EvalReport(
        summary(comparison, labels, panels, paired), rollouts, write(records=records)
    )
    if config.judge is None or samples is None:
        return report
    # The tables lie there before: a model that does not work costs none of them.
    judge = Judge(machinery, config.judge, choice.instances, folder).judge(samples.items)
    return replace(report, tables=write(records=[*records, *agreement_records(judge)]), judge=judge)
