"""Make a folder of bugs for the `local` benchmark: `bugs.jsonl`, `repositories/` with the correct
trees, and `card.json`."""

from __future__ import annotations

import platform
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from collect.benchmarks.local import BUGS_FILE, LocalBenchmark
from collect.benchmarks.marks import note_verified
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.workspace import write_folder
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.funnel import funnel
from collect.store.atomic_files import write_text
from collect.store.build_info import code_version
from collect.synthesis.making import WORK_FOLDER, ProjectBugs, ProjectMaker
from collect.synthesis.records import Card, Step
from sandbox import clean_up

CARD_FILE = "card.json"
REPOSITORIES = "repositories"


@dataclass(frozen=True)
class Made:
    """The result of a run."""

    folder: Path
    card: Card | None
    """None if the run was stopped before the end."""


def check_factory(config: FactoryConfig) -> None:
    """Raise ConfigError if there is nothing to make bugs from."""
    if not config.projects:
        raise ConfigError("factory.projects is empty: name at least one project")


def make_bugs(runtime: RuntimeConfig, config: FactoryConfig, run: Path) -> Made:
    """Make the folder, in the run's folder unless the config names another place.

    An unusable project is on the card with the reason. Raises ConfigError if all are unusable,
    SandboxError.
    """
    check_factory(config)
    folder = run / "factory" if config.output is None else Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    clean_up(runtime.sandbox)
    maker = ProjectMaker(runtime, config, folder, threading.Event())
    done: list[ProjectBugs] = []
    with Progress(console=Console(stderr=True)) as bar:
        for wanted in config.projects:
            task = bar.add_task(wanted.place, total=config.bugs_per_project)
            made = maker.make(wanted, partial(bar.update, task))
            if made is None:
                return Made(folder, None)
            done.append(made)
            bar.update(task, total=1, completed=1)
            bar.console.print(made.card.summary(), markup=False, highlight=False)
    if not any(made.bugs for made in done):
        why = [f"{m.card.name}: {m.card.refused or 'no edit became a bug'}" for m in done]
        raise ConfigError("not one bug could be made: " + "\n".join(why))
    card = _card(runtime, config, done)
    _write(folder, done, card)
    instances = LocalBenchmark(folder, languages=("python", "java")).instances()
    note_verified(instances, runtime.sandbox)
    return Made(folder, card)


def _card(runtime: RuntimeConfig, config: FactoryConfig, done: Sequence[ProjectBugs]) -> Card:
    bugs = [bug for made in done for bug in made.bugs]
    dropped: Counter[Step] = Counter()
    for made in done:
        dropped.update({Step(step.name): step.dropped for step in made.card.steps})
    kinds = Counter("+".join(edit.kind for edit in bug.edits) for bug in bugs)
    failures = Counter(bug.failure.type for bug in bugs if bug.failure is not None)
    return Card(
        bugs=len(bugs),
        projects=tuple(made.card for made in done),
        steps=funnel(Step, dropped, sum(made.card.edits_tried for made in done)),
        kinds=_most_first(kinds),
        categories=_most_first(Counter(bug.category or "" for bug in bugs)),
        failures=_most_first(failures),
        concurrency=runtime.runner.concurrency,
        seconds=sum(made.card.seconds for made in done),
        settings=config.model_dump(mode="json"),
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _write(folder: Path, done: Sequence[ProjectBugs], card: Card) -> None:
    """Write the bugs last, so that no file of bugs exists without its repositories and card."""
    for made in done:
        if made.bugs:
            tree = folder / made.bugs[0].repository
            shutil.rmtree(tree, ignore_errors=True)
            write_folder(tree, made.files)
    write_text(folder / CARD_FILE, card.model_dump_json(indent=2) + "\n")
    lines = [bug.model_dump_json() for made in done for bug in made.bugs]
    write_text(folder / BUGS_FILE, "".join(f"{line}\n" for line in lines))
    shutil.rmtree(folder / WORK_FOLDER)


def projects_table(card: Card) -> Table:
    """One row per project; a refused one has the reason's first line."""
    table = Table(title="projects")
    table.add_column("project", overflow="fold")
    for column in ("tests", "edits", "reached", "tried", "bugs", "minutes"):
        table.add_column(column, justify="right")
    table.add_column("remarks", overflow="fold")
    for project in card.projects:
        counts = (project.tests, project.edits_found, project.edits_reached, project.edits_tried)
        table.add_row(
            f"{project.name} {project.version}",
            *map(str, (*counts, project.bugs)),
            f"{project.seconds / 60:.1f}",
            "\n".join([*(project.refused or "").splitlines()[:1], *project.notes]),
        )
    return table
