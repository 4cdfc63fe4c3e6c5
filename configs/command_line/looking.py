"""`stepinto bench` on bugs that there are: list, show, verify, images, contamination."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.errors import ConfigError
from collect.quantities import counted
from collect.telling import tell
from collect.watching.progress_bar import ProgressBar
from configs.command_line.shared import FAILED, console, stopped
from configs.loading import load_config
from configs.run_config import RunConfig

if TYPE_CHECKING:
    from format.contamination.training import TrainingRow


def bench_list(options: argparse.Namespace) -> int:
    from collect.benchmarks.ran_in import RanIn
    from collect.benchmarks.verifications import Verifications, with_verifications

    config, _, instances = _bugs(options)
    kept = with_verifications(instances, RanIn(config.sandbox), Verifications())
    for instance, verification in kept:
        marks = verification.marks if verification else ["not verified"]
        failing, passing = len(instance.fail_to_pass), len(instance.pass_to_pass)
        tests = f"{failing} failing, {passing} passing"
        facts = (instance.id, instance.category or "-", tests, ", ".join(marks))
        console.print("  ".join(facts), highlight=False)
    return 0


def bench_show(options: argparse.Namespace) -> int:
    from collect.benchmarks.show import describe

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
    from collect.benchmarks.verifications import Verifications
    from collect.benchmarks.verify import VerifySettings, verify
    from collect.benchmarks.verify_report import verification_table

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
    from collect.benchmarks.images import required_images
    from collect.preflight.disk import short_of_images
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
        tell(told)
    client = connect()
    report = ImagePuller(client, config.images, on_event=console.print).fetch(images)
    console.print(
        f"{counted(len(report.pulled), 'image')} fetched, {len(report.present)} there before, "
        f"{len(report.evicted)} evicted; all images take {report.used_bytes / GIGABYTE:.1f} GB"
    )
    if report.left:
        tell(
            f"no room for {len(report.left)} more within images.disk_gb="
            f"{config.images.disk_gb:g}: raise it, or choose fewer bugs"
        )
    return FAILED if report.left or report.failed else 0


def bench_contamination(options: argparse.Namespace) -> int:
    from format.contamination.measuring import measure
    from format.contamination.rendering import report_tables, totals, write_report

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
    tell(told)
    return FAILED


def _training_rows(path: Path) -> Iterator[TrainingRow]:
    from format.contamination.training import instance_rows, rows_of

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
