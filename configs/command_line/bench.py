"""The actions of `stepinto bench`, and their options."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.quantities import counted, dollars
from collect.rollouts.progress import ProgressBar
from collect.store.files import write_text
from configs.command_line.shared import (
    AGAIN,
    CONFIG_HELP,
    FAILED,
    add_overrides,
    console,
    stopped,
    tell_failures,
)
from configs.command_line.stages import run_stages
from configs.loading import RunConfig, load_config

logger = logging.getLogger(__name__)


def add_bench(bench: argparse.ArgumentParser) -> None:
    actions = bench.add_subparsers(required=True, metavar="ACTION")
    for name, (command, text) in BENCH_COMMANDS.items():
        example = f"example: stepinto bench {name} {EXAMPLES.get(name, 'debug2fix')}"
        action = actions.add_parser(name, help=text, description=text, epilog=example)
        action.set_defaults(command=command, stage=name)
        add = action.add_argument
        add("config", type=Path, help=CONFIG_HELP)
        if name == "show":
            add("id", help="a bug's id, or a glob over ids")
            add("--gold", action="store_true", help="also show the gold patch")
        elif name == "verify":
            told = "test runs on each side of the gold patch (2)"
            add("--repeats", type=_count, default=2, metavar="N", help=told)
            told = "seconds over which a bug is slow (sandbox.command_timeout)"
            add("--slow", type=float, metavar="SECONDS", help=told)
            add("--again", action="store_true", help="also those that were verified before")
        elif name == "export":
            told = "where to write a folder for each bug"
            add("--to", type=Path, required=True, metavar="FOLDER", help=told)
            told = "Python's version in the containers (the one that runs StepInto)"
            own = f"{sys.version_info.major}.{sys.version_info.minor}"
            add("--python", type=_version, default=own, metavar="VERSION", help=told)
        elif name == "contamination":
            told = "run folders with rows in sft/, files of rows, or configs of benchmarks"
            add("--training", type=Path, nargs="+", required=True, metavar="PATH", help=told)
            add("--ngram", type=_count, default=13, metavar="N", help="words of an n-gram (13)")
        add_overrides(action)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _version(text: str) -> str:
    if not re.fullmatch(r"3\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version such as 3.12")
    return text


def bench_list(options: argparse.Namespace) -> int:
    from collect.benchmarks.marks import EnvironmentFingerprint, Verifications, with_verifications

    config = load_config(options.config, options.overrides)
    _, instances = _bugs(config, config.collect.benchmark)
    kept = with_verifications(instances, EnvironmentFingerprint(config.sandbox), Verifications())
    for bug, verification in kept:
        marks = verification.marks if verification else ["not verified"]
        tests = f"{len(bug.fail_to_pass)} failing, {len(bug.pass_to_pass)} passing"
        facts = (bug.id, bug.category or "-", tests, ", ".join(marks))
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
    overrides = [word for word in words if "=" in word]
    overrides += ["collect.benchmark.split=all", "collect.benchmark.limit=null"]
    overrides.append(f"collect.benchmark.instances={json.dumps(ids)}")
    config = load_config(options.config, overrides)
    _, instances = _bugs(config, config.collect.benchmark)
    for instance in instances:
        console.print(describe(instance, options.gold), markup=False, highlight=False)
    return 0


def bench_verify(options: argparse.Namespace) -> int:
    from collect.benchmarks.marks import Verifications, verification_table, verify

    config = load_config(options.config, options.overrides)
    benchmark, instances = _bugs(config, config.collect.benchmark)
    slow_over = config.sandbox.command_timeout if options.slow is None else options.slow
    kept = Verifications()
    with ProgressBar("bugs", len(instances)) as bar:
        results = verify(
            benchmark,
            instances,
            config.sandbox,
            repeats=options.repeats,
            slow_over=slow_over,
            workers=config.runner.concurrency,
            again=options.again,
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

    config = load_config(options.config, options.overrides)
    _, instances = _bugs(config, config.collect.benchmark)
    images = required_images(instances, config.sandbox)
    if not images:
        raise ConfigError(
            "there is no image to fetch: these bugs run in sandbox.backend="
            f"{config.sandbox.backend}, or name no image"
        )
    if told := short_of_images(config):
        logger.warning(told)
    report = ImagePuller(connect(), config.images, on_event=console.print).fetch(images)
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


def bench_export(options: argparse.Namespace) -> int:
    from collect.benchmarks.harbor import export

    config = load_config(options.config, options.overrides)
    benchmark, instances = _bugs(config, config.collect.benchmark)
    tasks = export(benchmark, instances, config.sandbox, options.python, options.to)
    console.print(f"{counted(len(tasks), 'task')} of Harbor's in {options.to}")
    return 0


def bench_contamination(options: argparse.Namespace) -> int:
    from format import contamination

    config = load_config(options.config, options.overrides)
    _, instances = _bugs(config, config.eval.bugs_of(config.collect.benchmark))

    def training_rows() -> Iterator[Any]:
        for path in options.training:
            if path.suffix in (".yaml", ".yml"):
                other = load_config(path)
                yield from contamination.instance_rows(_bugs(other, other.collect.benchmark)[1])
            else:
                yield from contamination.rows_of(path)

    names = [str(path) for path in options.training]
    report = contamination.measure(instances, training_rows(), names, options.ngram)
    console.print(*contamination.report_tables(report))
    path = config.folder / "contamination.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, report.model_dump_json(indent=1) + "\n")
    console.print(f"every bug: {path}")
    return 0


def bench_self_repair(options: argparse.Namespace) -> int:
    from collect.quantities import funnel_table
    from collect.synthesis.self_repair.building import build

    config = load_config(options.config, options.overrides)
    built = build(config, config.self_repair, config.folder)
    card = built.card
    if card is None:
        reasons = [built.reason] if built.reason else []
        return FAILED if tell_failures(reasons, AGAIN) else stopped(reasons)
    console.print(funnel_table(card.steps))
    console.print(
        f"{counted(card.bugs, 'bug')} in {built.path}; {card.passed} of "
        f"{counted(card.problems, 'problem')} solved at once; {dollars(card.dollars)}"
    )
    return 0


def _bugs(config: RunConfig, chosen: BenchmarkConfig) -> tuple[Benchmark, list[Instance]]:
    from collect.benchmarks.opening import open_benchmark, select_instances

    benchmark = open_benchmark(chosen, config.sandbox)
    return benchmark, select_instances(chosen, benchmark)


BENCH_COMMANDS = {
    "answer": (run_stages, "put questions about runs to a model, and score its answers"),
    "export": (bench_export, "write bugs as task folders of Harbor's"),
    "list": (bench_list, "list a config's bugs"),
    "show": (bench_show, "show a bug: what an agent is told, its files and its tests"),
    "contamination": (bench_contamination, "say what training data has of eval's bugs"),
    "make": (run_stages, "make verified bugs of projects with test suites"),
    "questions": (run_stages, "make questions about runs, with their true answers"),
    "pull": (bench_pull, "fetch the container images of a config's bugs"),
    "self-repair": (bench_self_repair, "make a benchmark of the programs that fail their tests"),
    "verify": (bench_verify, "check that all fail before their gold patch and pass after it"),
}
EXAMPLES = {
    "answer": "questions",
    "show": "debug2fix shopcart__negative-base --gold",
    "contamination": "debug2fix --training runs/first",
    "make": "factory",
    "questions": "questions",
    "self-repair": "self-repair",
    "verify": "debug2fix --repeats 3",
}
"""Arguments of an action to begin with."""


def describe(instance: Instance, gold: bool) -> str:
    """A bug as text: what the agent is told, the files with their number of lines, and the tests
    that must pass."""
    named = ("benchmark", "language", "repository", "category", "image", "hash")
    facts = [f"{name:<11}{getattr(instance, name) or '-'}" for name in named]
    files = []
    if instance.image_workspace is not None:
        files.append(f"in {instance.image_workspace.folder} of the image")
    for path, data in sorted(instance.files.items()):
        is_test = any(path == test or path.startswith(f"{test}/") for test in instance.test_paths)
        files.append(f"{len(data.splitlines()):>5} {path}{'  (tests)' if is_test else ''}")
    sections: list[tuple[str, Iterable[str]]] = [
        ("Problem statement", instance.problem_statement.splitlines()),
        ("Files", files),
        ("Fail to pass", instance.fail_to_pass),
        ("Pass to pass", instance.pass_to_pass),
    ]
    environment = instance.environment
    if told := (*environment.runs(), *environment.deficiencies()):
        sections.append(("Environment", told))
    if gold:
        sections.append(("Gold patch", instance.gold_patch.splitlines()))
    parts = [instance.id, "\n".join(facts)]
    for title, lines in sections:
        text = "\n".join(f"    {line}".rstrip() for line in lines)
        parts.append(f"{title}:\n{text or '    none'}")
    return "\n\n".join(parts)
