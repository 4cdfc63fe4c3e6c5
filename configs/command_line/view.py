"""`stepinto view`: a run as pages for a browser."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from collect.config import SAVED_NAME
from collect.console import tell
from collect.errors import ConfigError
from collect.field_errors import did_you_mean
from collect.quantities import counted
from configs.command_line.shared import add_questions, console, question_files
from configs.loading import load_config
from configs.run_config import RunConfig

if TYPE_CHECKING:
    from eval.report.facts import Outcome

DEFAULT_LIMIT = 1000
FOLDER = "report"


def add_view(parser: argparse.ArgumentParser) -> None:
    """The options of `stepinto view`."""
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where the pages go (RUN/report)"
    )
    parser.add_argument("--open", action="store_true", help="show them in the browser")
    parser.add_argument(
        "--limit",
        type=_limit,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"most rollouts that get pages, 0 for all ({DEFAULT_LIMIT})",
    )
    parser.add_argument(
        "--outcome",
        action="append",
        help="only these: resolved, not_resolved, right, wrong, failed; may be given several "
        "times, as may those that follow",
    )
    parser.add_argument("--variant", action="append", help="only these variants, as in configs")
    parser.add_argument("--model", action="append", help="only rollouts in which these play")
    parser.add_argument("--bug", action="append", metavar="GLOB", help="only bugs of such ids")
    add_questions(parser)
    parser.set_defaults(command=view)


def view(options: argparse.Namespace) -> int:
    """Write the pages, and say where."""
    from eval.labels import Labels, labels_of
    from eval.report.facts import Selection, sources_of
    from eval.report.writing import ReportRequest, write_report

    run: Path = options.run
    sources = sources_of(run)
    if not sources:
        raise ConfigError(f"{run} has no rollouts; give the folder of a run that collected some")
    config = _saved_config(run)
    selection = Selection(
        limit=options.limit or None,
        outcomes=frozenset(_outcome(text) for text in options.outcome or ()),
        variants=frozenset(options.variant or ()),
        models=frozenset(options.model or ()),
        instances=tuple(options.bug or ()),
    )
    request = ReportRequest(
        title=run.resolve().name,
        sources=sources,
        output=options.output or run / FOLDER,
        selection=selection,
        questions=list(question_files(options, run, config)),
        labels=labels_of(config) if config is not None else Labels(),
    )
    paths = write_report(request)
    if not paths.matching:
        console.print("no rollout is of what the options name; the report is empty")
    if paths.rollouts < paths.matching:
        console.print(f"the first {paths.rollouts} of {paths.matching} rollouts; see --limit")
    console.print(f"{counted(paths.pages, 'conversation')}; open {paths.index}")
    if options.open:
        webbrowser.open(paths.index.resolve().as_uri())
    return 0


def _saved_config(run: Path) -> RunConfig | None:
    """The run's config. One of another release is no reason to show nothing: it only says which
    models are scripted, and where questions lie."""
    if not (run / SAVED_NAME).is_file():
        return None
    try:
        return load_config(run)
    except ConfigError as error:
        tell(f"shown without the run's config: {error}")
        return None


def _outcome(text: str) -> Outcome:
    from eval.report.facts import Outcome

    try:
        return Outcome(text.replace("_", " "))
    except ValueError:
        outcomes = [each.value.replace(" ", "_") for each in Outcome]
        known, near = ", ".join(outcomes), did_you_mean(text, outcomes)
        raise ConfigError(f"--outcome: there is no {text!r}; there are: {known}{near}") from None


def _limit(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)
