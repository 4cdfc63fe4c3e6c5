"""The actions of `stepinto bench`, and their options."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.quantities import counted
from collect.rollouts.progress_bar import ProgressBar
from configs.command_line.making import (
    bench_answer,
    bench_make,
    bench_questions,
    bench_self_repair,
)
from configs.command_line.shared import (
    CONFIG_HELP,
    FAILED,
    add_overrides,
    console,
    stopped,
)
from configs.loading import load_config
from configs.run_config import RunConfig

if TYPE_CHECKING:
    from format.contamination import TrainingRow

logger = logging.getLogger(__name__)


# `stepinto bench` on existing bugs: list, show, verify, images, contamination.


def bench_list(options: argparse.Namespace) -> int:
    from collect.benchmarks.marks import (
        EnvironmentFingerprint,
        Verifications,
        with_verifications,
    )

    config, _, instances = _bugs(options)
    kept = with_verifications(instances, EnvironmentFingerprint(config.sandbox), Verifications())
    for instance, verification in kept:
        marks = verification.marks if verification else ["not verified"]
        failing, passing = len(instance.fail_to_pass), len(instance.pass_to_pass)
        tests = f"{failing} failing, {passing} passing"
        facts = (instance.id, instance.category or "-", tests, ", ".join(marks))
        console.print("  ".join(facts), highlight=False)
    return 0


def bench_show(options: argparse.Namespace) -> int:
    words = [options.id, *options.overrides]
    ids = [word for word in words if "=" not in word]
    if len(ids) != 1:
        raise ConfigError(
            f"bench show takes the id of one bug, or a glob over ids, and {len(ids)} are given; "
            "`stepinto bench list CONFIG` lists them"
        )
    options.overrides = [word for word in words if "=" in word]
    wanted = [f"collect.benchmark.instances={json.dumps(ids)}"]
    every = ["collect.benchmark.split=all", "collect.benchmark.limit=null"]
    _, _, instances = _bugs(options, [*every, *wanted])
    for instance in instances:
        console.print(describe(instance, options.gold), markup=False, highlight=False)
    return 0


def bench_verify(options: argparse.Namespace) -> int:
    from collect.benchmarks.marks import Verifications
    from collect.benchmarks.verify import VerifySettings, verification_table, verify

    config, benchmark, instances = _bugs(options)
    slow_over = config.sandbox.command_timeout if options.slow is None else options.slow
    settings = VerifySettings(
        options.repeats, slow_over, config.runner.concurrency, again=options.again
    )
    kept = Verifications()
    with ProgressBar("bugs", len(instances)) as bar:
        results = verify(
            benchmark,
            instances,
            config.sandbox,
            settings,
            verifications=kept,
            on_done=lambda _: bar.advance(),
        )
    console.print(verification_table(results))
    console.print(f"kept in {kept.path(benchmark.name)}; collect and eval skip by it")
    if len(results) < len(instances):
        return stopped()
    return 0 if all(result.ok for result in results) else FAILED


def bench_pull(options: argparse.Namespace) -> int:
    from collect.benchmarks.marks import required_images
    from collect.preflight import short_of_images
    from sandbox.engine import connect
    from sandbox.images import GIGABYTE, ImagePuller

    config, _, instances = _bugs(options)
    images = required_images(instances, config.sandbox)
    if not images:
        raise ConfigError(
            "there is no image to fetch: these bugs run in sandbox.backend="
            f"{config.sandbox.backend}, or name no image"
        )
    if told := short_of_images(config):
        logger.warning(told)
    client = connect()
    report = ImagePuller(client, config.images, on_event=console.print).fetch(images)
    console.print(
        f"{counted(len(report.pulled), 'image')} fetched, {len(report.present)} there before, "
        f"{len(report.evicted)} evicted; all images take {report.used_bytes / GIGABYTE:.1f} GB"
    )
    if report.left:
        logger.warning(
            f"no room for {len(report.left)} more within images.disk_gb="
            f"{config.images.disk_gb:g}: raise it, or choose fewer bugs"
        )
    return FAILED if report.left or report.failed else 0


def bench_contamination(options: argparse.Namespace) -> int:
    from format.contamination import measure, report_tables, totals, write_report

    config = load_config(options.config, options.overrides)
    instances = _selected(config, config.eval.bugs_of(config.collect.benchmark))
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
    logger.warning(told)
    return FAILED


def _training_rows(path: Path) -> Iterator[TrainingRow]:
    from format.contamination import instance_rows, rows_of

    if path.suffix in (".yaml", ".yml"):
        config = load_config(path)
        return instance_rows(_selected(config, config.collect.benchmark))
    return rows_of(path)


def _selected(config: RunConfig, benchmark: BenchmarkConfig) -> list[Instance]:
    from collect.benchmarks.opening import open_benchmark, select_instances

    return select_instances(benchmark, open_benchmark(benchmark, config.sandbox))


def _bugs(
    options: argparse.Namespace, more: Sequence[str] = ()
) -> tuple[RunConfig, Benchmark, list[Instance]]:
    from collect.benchmarks.opening import open_benchmark, select_instances

    config = load_config(options.config, [*options.overrides, *more])
    benchmark = open_benchmark(config.collect.benchmark, config.sandbox)
    return config, benchmark, select_instances(config.collect.benchmark, benchmark)


BENCH_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "answer": (bench_answer, "put questions about runs to a model, and score its answers"),
    "list": (bench_list, "list a config's bugs"),
    "show": (bench_show, "show a bug: what an agent is told, its files and its tests"),
    "contamination": (bench_contamination, "say what training data has of eval's bugs"),
    "make": (bench_make, "make verified bugs of projects with test suites"),
    "questions": (bench_questions, "make questions about runs, with their true answers"),
    "pull": (bench_pull, "fetch the container images of a config's bugs"),
    "self-repair": (bench_self_repair, "make a benchmark of the programs that fail their tests"),
    "verify": (bench_verify, "check that all fail before their gold patch and pass after it"),
}


def add_bench(bench: argparse.ArgumentParser) -> None:
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
        add_overrides(action)
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


# One bug as text: what the agent is told, the files, and the tests that must pass.


def describe(instance: Instance, gold: bool = False) -> str:
    """Describe a bug, on request with its gold patch."""
    facts = [
        ("benchmark", instance.benchmark),
        ("language", instance.language),
        ("repository", instance.repository),
        ("category", instance.category or "-"),
        ("image", instance.image or "-"),
        ("hash", instance.hash),
    ]
    sections = [
        instance.id,
        "\n".join(f"{name:<11}{value}" for name, value in facts),
        _section("Problem statement", instance.problem_statement.splitlines()),
        _section("Files", _files(instance)),
        _section("Fail to pass", instance.fail_to_pass),
        _section("Pass to pass", instance.pass_to_pass),
    ]
    if gold:
        sections.append(_section("Gold patch", instance.gold_patch.splitlines()))
    return "\n\n".join(sections)


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(f"    {line}".rstrip() for line in lines)
    return f"{title}:\n{text or '    none'}"


def _files(instance: Instance) -> Iterable[str]:
    """Paths with their number of lines; test files are marked."""
    if instance.image_workspace is not None:
        yield f"in {instance.image_workspace.folder} of the image"
    for path, data in sorted(instance.files.items()):
        is_test = any(path == test or path.startswith(f"{test}/") for test in instance.test_paths)
        lines = len(data.splitlines())
        yield f"{lines:>5} {path}{'  (tests)' if is_test else ''}"
