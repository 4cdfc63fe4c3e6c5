"""The command line: `stepinto collect | format | train | eval | run | bench | doctor`."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.rollouts import RolloutsSummary
from configs.loading import config_saved, load_config
from configs.run_config import RunConfig
from sandbox.errors import SandboxError
from train.report import LossPoint

if TYPE_CHECKING:
    from format.contamination.training import TrainingRow

FAILED = 1
"""Exit status where rollouts kept failing for the infrastructure's sake."""
STOPPED = 130
"""Exit status where the user or the budget ended the run early, as for Ctrl-C in a shell."""

SHOWN_REASONS = 3
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
KEPT = "rollouts that were finished before are kept"

CONFIG_HELP = "a YAML file, or a run folder"

console = Console(soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 where it did what it was asked."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (ConfigError, SandboxError) as error:
        print(f"stepinto: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # Before or after the rollouts, which stop at their next step by themselves.
        return STOPPED
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        print(f"stepinto: {error}; mend that, and start again: {KEPT}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stepinto",
        description="Collect debugger trajectories, train a debug subagent on them, measure it.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (stages, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("config", type=Path, help=CONFIG_HELP)
        _add_overrides(command)
        command.set_defaults(command=lambda options, stages=stages: _run_stages(options, stages))
    _add_bench(
        commands.add_parser(
            "bench",
            help="list a config's bugs, show or verify them, get their images, or make some",
        )
    )
    doctor = commands.add_parser("doctor", help="what this machine has, and what is missing")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_bench(bench: argparse.ArgumentParser) -> None:
    actions = bench.add_subparsers(required=True, metavar="ACTION")
    for name, (command, text) in BENCH_COMMANDS.items():
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("config", type=Path, help=CONFIG_HELP)
        if name == "show":
            action.add_argument("id", help="a bug's id, or a glob over ids")
            action.add_argument("--gold", action="store_true", help="also show the gold patch")
        if name == "verify":
            _add_verify(action)
        if name == "contamination":
            _add_contamination(action)
        _add_overrides(action)
        action.set_defaults(command=command)


def _add_verify(verify: argparse.ArgumentParser) -> None:
    repeats, slow = "test runs on each side of the gold patch", "seconds over which a bug is slow"
    verify.add_argument("--repeats", type=_count, default=2, metavar="N", help=f"{repeats} (2)")
    verify.add_argument(
        "--slow", type=float, metavar="SECONDS", help=f"{slow} (sandbox.command_timeout)"
    )
    verify.add_argument("--again", action="store_true", help="also those that were verified before")


def _add_contamination(action: argparse.ArgumentParser) -> None:
    kinds = "run folders, sft folders, files of rows, or configs of benchmarks"
    action.add_argument(
        "--training", type=Path, nargs="+", required=True, metavar="PATH", help=kinds
    )
    words, share = "words of an n-gram", "exit with 1 where a bug shares more than this, 0 to 1"
    action.add_argument("--ngram", type=_count, default=13, metavar="N", help=f"{words} (13)")
    action.add_argument("--fail-over", type=float, metavar="SHARE", help=share)
    place = "write PATH.json and PATH.md (contamination in the run's folder)"
    action.add_argument("--output", type=Path, metavar="PATH", help=place)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. collect.attempts=4")


def _run_stages(options: argparse.Namespace, stages: Sequence[Callable[[RunConfig], int]]) -> int:
    config = load_config(options.config, options.overrides)
    with config_saved(config):
        for stage in stages:
            status = stage(config)
            if status:
                return status
    return 0


def _collect(config: RunConfig) -> int:
    from collect.stage import run_collect

    console.rule("collect")
    summary = run_collect(config, config.collect, config.folder, config.held_out)
    console.print(
        f"{summary.done} of {summary.total} rollouts, {summary.resolved} resolved, "
        f"{summary.failed} failed, ${summary.dollars:.2f}; in {summary.folder}/rollouts and "
        f"{summary.folder}/conversations"
    )
    return _status(summary)


def _status(summary: RolloutsSummary) -> int:
    for reason in summary.reasons[:SHOWN_REASONS]:
        print(
            f"stepinto: failed, and done again by the next start: {reason[:500]}", file=sys.stderr
        )
    if summary.nothing_worked:
        print(f"stepinto: {summary.nothing_worked}", file=sys.stderr)
        return FAILED
    if summary.stopped:
        print("stepinto: stopped before the end; the same command goes on", file=sys.stderr)
        return STOPPED
    return 0


def _format(config: RunConfig) -> int:
    from format.stage import run_format

    console.rule("format")
    report = run_format(config.format, config.folder, config.held_out)
    table = Table("filter", "dropped", "left")
    table.add_row("conversations in the run", "", str(report.funnel.conversations))
    for step in report.funnel.steps:
        table.add_row(step.name, str(step.dropped), str(step.remaining))
    console.print(table)
    splits = ", ".join(f"{split.rows} rows to {name}" for name, split in report.splits.items())
    console.print(f"{splits}; in {config.folder}/sft (README.md is the dataset card)")
    return 0


def _train(config: RunConfig) -> int:
    from train.stage import run_train

    console.rule("train")
    report = run_train(config.train, config.folder, on_step=_print_step)
    console.print(
        f"{report.base_model}\n{report.steps} steps on {report.preflight.rows} rows of up to "
        f"{report.preflight.longest} tokens in {report.seconds:.0f} s; "
        f"{report.trained_parameters:,} of {report.parameters:,} parameters trained; "
        f"model in {config.folder}/model (training.json has the curve)"
    )
    return 0


def _print_step(point: LossPoint, steps: int) -> None:
    console.print(f"step {point.step}/{steps} loss {point.loss:.3f}")


def _eval(config: RunConfig) -> int:
    from eval.stage import run_eval

    console.rule("eval")
    described = config.model_dump(mode="json")
    report = run_eval(config, config.eval, config.collect.benchmark, config.folder, described)
    console.print(report.summary, markup=False, highlight=False)
    tables = report.tables
    console.print(f"tables: {tables.markdown}, {tables.csv}, {tables.json}")
    return _status(report.rollouts)


COMMANDS: dict[str, tuple[tuple[Callable[[RunConfig], int], ...], str]] = {
    "collect": ((_collect,), "roll out the agents on the bugs"),
    "format": ((_format,), "make fine-tuning data from the rollouts"),
    "train": ((_train,), "fine-tune the small model"),
    "eval": ((_eval,), "measure pairs of models on held-out bugs"),
    "run": ((_collect, _format, _train, _eval), "all four stages in a row"),
}


def _bench_list(options: argparse.Namespace) -> int:
    from collect.benchmarks.ran_in import RanIn
    from collect.benchmarks.verifications import Verifications, with_verifications

    config, _, instances = _bugs(options)
    kept = with_verifications(instances, RanIn(config.sandbox), Verifications())
    for instance, verification in kept:
        marks = verification.marks if verification else ["not verified"]
        failing, passing = len(instance.fail_to_pass), len(instance.pass_to_pass)
        facts = f"{instance.id}  {instance.category}  {failing} failing, {passing} passing"
        console.print(f"{facts}  {', '.join(marks)}")
    return 0


def _bench_show(options: argparse.Namespace) -> int:
    from collect.benchmarks.show import describe

    wanted = [f"collect.benchmark.instances=[{json.dumps(options.id)}]"]
    every = ["collect.benchmark.split=all", "collect.benchmark.limit=null"]
    _, _, instances = _bugs(options, [*every, *wanted])
    for instance in instances:
        console.print(describe(instance, options.gold), markup=False, highlight=False)
    return 0


def _bench_verify(options: argparse.Namespace) -> int:
    from collect.benchmarks.verifications import Verifications
    from collect.benchmarks.verify import VerifySettings, verify
    from collect.benchmarks.verify_report import verification_table

    config, benchmark, instances = _bugs(options)
    slow_over = config.sandbox.command_timeout if options.slow is None else options.slow
    settings = VerifySettings(
        options.repeats, slow_over, config.runner.concurrency, again=options.again
    )
    kept = Verifications()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("bugs", total=len(instances))
        results = verify(
            benchmark,
            instances,
            config.sandbox,
            settings,
            verifications=kept,
            on_done=lambda _: bar.advance(task),
        )
    console.print(verification_table(results))
    console.print(f"kept in {kept.path(benchmark.name)}; collect and eval skip by it")
    if len(results) < len(instances):
        print("stepinto: stopped before the end; the same command goes on", file=sys.stderr)
        return STOPPED
    return 0 if all(result.ok for result in results) else FAILED


def _bench_contamination(options: argparse.Namespace) -> int:
    from format.contamination.measuring import measure
    from format.contamination.rendering import report_tables, totals, write_report

    config = load_config(options.config, options.overrides)
    instances = _selected(config.eval.benchmark or config.collect.benchmark)
    rows = (row for path in options.training for row in _training_rows(path))
    report = measure(instances, rows, [str(path) for path in options.training], options.ngram)
    console.print(*report_tables(report))
    console.print(totals(report))
    paths = write_report(report, options.output or config.folder / "contamination")
    console.print(f"every bug: {paths[0]}, {paths[1]}")
    if options.fail_over is None or not report.over(options.fail_over):
        return 0
    found = f"{report.over(options.fail_over)} of {len(instances)} bugs"
    told = f"{found} share more than {options.fail_over:.0%} with the training data"
    print(f"stepinto: {told}", file=sys.stderr)
    return FAILED


def _training_rows(path: Path) -> Iterator[TrainingRow]:
    from format.contamination.training import instance_rows, rows_of

    if path.suffix in (".yaml", ".yml"):
        return instance_rows(_selected(load_config(path).collect.benchmark))
    return rows_of(path)


def _selected(config: BenchmarkConfig) -> list[Instance]:
    from collect.benchmarks.opening import open_benchmark, select_instances

    return select_instances(config, open_benchmark(config))


def _bench_pull(options: argparse.Namespace) -> int:
    from collect.benchmarks.images import required_images
    from sandbox.engine import connect
    from sandbox.images import GIGABYTE, ImagePuller

    config, _, instances = _bugs(options)
    images = required_images(instances, config.sandbox)
    if not images:
        raise ConfigError(
            "there is no image to fetch: these bugs run in sandbox.backend="
            f"{config.sandbox.backend}, or name no image"
        )
    client = connect()
    report = ImagePuller(client, config.images, on_event=console.print).fetch(images)
    console.print(
        f"{len(report.pulled)} images fetched, {len(report.present)} were there, "
        f"{len(report.evicted)} evicted; all images take {report.used_bytes / GIGABYTE:.1f} GB"
    )
    if report.left:
        print(
            f"stepinto: no room for {len(report.left)} more within images.disk_gb="
            f"{config.images.disk_gb:g}: raise it, or choose fewer bugs",
            file=sys.stderr,
        )
    return FAILED if report.left or report.failed else 0


def _bench_self_repair(options: argparse.Namespace) -> int:
    from collect.self_repair.building import build

    config = load_config(options.config, options.overrides)
    built = build(config, config.self_repair, config.folder)
    if built.card is None:
        reason = f": {built.reason}" if built.reason else ""
        print(f"stepinto: stopped{reason}; the same command goes on", file=sys.stderr)
        return FAILED if built.reason else STOPPED
    table = Table("step", "dropped", "left")
    for step in built.card.steps:
        table.add_row(step.name, str(step.dropped), str(step.remaining))
    console.print(table)
    card = built.card
    console.print(
        f"{card.bugs} bugs in {built.path}; {card.passed} of {card.problems} problems were solved "
        f"at once; ${card.dollars:.2f}"
    )
    return 0


def _bench_make(options: argparse.Namespace) -> int:
    from collect.factory.building import make_bugs
    from collect.factory.report import funnel_table, projects_table

    config = load_config(options.config, options.overrides)
    made = make_bugs(config, config.factory, config.folder)
    if made.card is None:
        print("stepinto: stopped before the end; the same command goes on", file=sys.stderr)
        return STOPPED
    console.print(projects_table(made.card))
    console.print(funnel_table(made.card))
    console.print(
        f"{made.card.bugs} bugs in {made.folder}, {made.card.bugs_per_hour:.0f} an hour with "
        f"{made.card.concurrency} at once"
    )
    return 0


def _bench_questions(options: argparse.Namespace) -> int:
    from collect.questions.building import build
    from collect.questions.tables import funnel_table

    config = load_config(options.config, options.overrides)
    built = build(config, config.questions, config.folder)
    if built.card is None:
        print("stepinto: stopped before the end; the same command goes on", file=sys.stderr)
        return STOPPED
    console.print(funnel_table(built.card))
    console.print(f"{built.card.questions} questions in {built.path}")
    return 0


def _bench_answer(options: argparse.Namespace) -> int:
    from collect.questions.answers import answer
    from collect.questions.tables import score_table

    config = load_config(options.config, options.overrides)
    with config_saved(config):
        answers = answer(config, config.questions, config.folder)
    console.print(score_table(answers.answered, config.questions.answer_with))
    if answers.conversations is not None:
        console.print(f"conversations in {answers.conversations}")
    for reason in answers.reasons[:SHOWN_REASONS]:
        print(f"stepinto: failed: {reason[:500]}", file=sys.stderr)
    if answers.missing:
        print(
            f"stepinto: {answers.missing} questions have no answer yet; the same command goes on",
            file=sys.stderr,
        )
        return FAILED if answers.reasons else STOPPED
    return 0


def _bugs(
    options: argparse.Namespace, more: Sequence[str] = ()
) -> tuple[RunConfig, Benchmark, list[Instance]]:
    from collect.benchmarks.opening import open_benchmark, select_instances

    config = load_config(options.config, [*options.overrides, *more])
    benchmark = open_benchmark(config.collect.benchmark)
    return config, benchmark, select_instances(config.collect.benchmark, benchmark)


BENCH_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "answer": (_bench_answer, "put questions about runs to a model, and score its answers"),
    "list": (_bench_list, "list a config's bugs"),
    "show": (_bench_show, "show a bug: what an agent is told, its files and its tests"),
    "contamination": (_bench_contamination, "say what training data has of eval's bugs"),
    "make": (_bench_make, "make verified bugs of projects with test suites"),
    "questions": (_bench_questions, "make questions about runs, with their true answers"),
    "pull": (_bench_pull, "fetch the container images of a config's bugs"),
    "self-repair": (_bench_self_repair, "make a benchmark of the programs that fail their tests"),
    "verify": (_bench_verify, "check that all fail before their gold patch and pass after it"),
}


def _doctor(options: argparse.Namespace) -> int:
    from sandbox.doctor import check_machine, render

    console.print(render(check_machine()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
