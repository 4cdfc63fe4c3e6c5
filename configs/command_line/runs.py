"""The commands on configs, runs and this machine: init, status, replay, view, play, clean and
doctor."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import time
import webbrowser
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from collect.config import SAVED_NAME
from collect.console import VisibleConsole
from collect.errors import ConfigError, did_you_mean
from collect.models import manual
from collect.models.manual import BadAnswer, Request, answer_request, open_requests
from collect.quantities import counted
from collect.rollouts.status import has_begun, is_over, read_status
from collect.store.files import refuse_links
from configs.command_line.shared import (
    FAILED,
    SHOWN_REASONS,
    add_overrides,
    console,
    heading,
    rule,
    stopped,
)
from configs.loading import SHIPPED, RunConfig, load_config
from sandbox.errors import SandboxUnavailable
from sandbox.leftovers import remove_leftovers

if TYPE_CHECKING:
    from collect.replay import ReplayReport

logger = logging.getLogger(__name__)
RUN_HELP = "a run folder"
IS_COMMENT = re.compile("#").match
WATCH_SECONDS = 1.0
SHOWN = 10
"""Differing conversations of a replay that are shown."""


def add_init(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", default="debug2fix", metavar="NAME", help="(default debug2fix)")
    add("--list", action="store_true", help="list the shipped configs instead")
    parser.set_defaults(command=init)


def init(options: argparse.Namespace) -> int:
    """Copy a shipped config to the current folder, or list them."""
    if options.list:
        table = Table.grid(padding=(0, 2))
        for name, path in SHIPPED.items():
            comment = " ".join(line.lstrip("# ") for line in takewhile(IS_COMMENT, path.open()))
            told = re.split(r"(?<=\.)\s|:\s+`", " ".join(comment.split()))[0]
            table.add_row(name, told)
        console.print(table, highlight=False)
        return 0
    name, path = options.name, Path(f"{options.name}.yaml")
    if name not in SHIPPED:
        near = did_you_mean(name, SHIPPED) or "; `stepinto init --list` shows them"
        raise ConfigError(f"no shipped config is called {name!r}{near}")
    # Its comments name the files of a checkout.
    text = SHIPPED[name].read_text(encoding="utf-8").replace(f"configs/{path}", str(path))
    text = re.sub(r"configs/([\w.-]+)\.yaml", r"\1", text)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists, and is not overwritten; move it away first") from None
    console.print(f"{path} written; change it, then: stepinto run {path}", highlight=False)
    return 0


def add_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help=RUN_HELP)
    parser.add_argument("--watch", action="store_true", help="follow it until it has ended")
    parser.set_defaults(command=status)


def status(options: argparse.Namespace) -> int:
    """Print the status of each set of rollouts: collect's and eval's."""
    refuse_links(options.run)
    if not options.watch:
        console.print(run_status(options.run), highlight=False)
        return 0
    folding = VisibleConsole()
    with Live(console=folding, auto_refresh=False) as live:
        while True:
            over = is_over(list(begun_in(options.run).values()))
            live.update(run_status(options.run, waits=True), refresh=True)
            if over:
                return 0
            time.sleep(WATCH_SECONDS)


def run_status(run: Path, waits: bool = False) -> RenderableType:
    """The status of a run, which may have yet to begin if one waits. Raises ConfigError."""
    _require_folder(run)
    begun = begun_in(run)
    if not begun and not waits and not (run / SAVED_NAME).is_file():
        raise ConfigError(f"{run} has no rollouts; give the folder of a run that began")
    if not begun:
        return (
            "no rollout has begun: a start first makes its checks, and bugs and questions if its "
            "stages say so, and opens its models; its own output says how far it is"
        )
    parts: list[RenderableType] = []
    for stage, folder in begun.items():
        parts += [rule(stage), read_status(folder)]
    return Group(*parts)


def _require_folder(run: Path) -> None:
    if not run.is_dir():
        raise ConfigError(f"{run}: no such folder; give a run folder, such as runs/quickstart")


def begun_in(run: Path) -> dict[str, Path]:
    """The folders of a run that have rollouts, by stage."""
    from eval.report.facts import SOURCES

    folders = {stage: run / below for stage, below in SOURCES}
    return {stage: folder for stage, folder in folders.items() if has_begun(folder)}


def add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help=RUN_HELP)
    told = "at most so many more rollouts of each stage"
    parser.add_argument("--limit", type=int, metavar="N", help=told)
    _add_questions(parser)
    add_overrides(parser)
    parser.set_defaults(command=replay)


def replay(options: argparse.Namespace) -> int:
    """Check whether the recorded calls of rollouts give the recorded results again."""
    from collect.replay import Finder, replay_rollouts
    from collect.store.run_store import RunStore
    from eval.report.facts import SOURCES

    run: Path = options.run
    if options.limit is not None and options.limit < 1:
        raise ConfigError(f"--limit {options.limit}: give a number from 1 on")
    refuse_links(run)
    begun = {stage: run / below for stage, below in SOURCES if has_begun(run / below)}
    folders = {stage: at for stage, at in begun.items() if RunStore(at).rollouts.ids()}
    if not folders:
        raise ConfigError(f"{run} has no rollouts; give the folder of a run that collected some")
    config = load_config(run, options.overrides)
    collected, asked = config.collect.benchmark, config.eval.questions
    evaluated = config.eval.benchmark or collected
    benchmarks = {"collect": [collected, config.questions.benchmark], "eval": [evaluated]}
    of_questions = [asked.benchmark or evaluated] if asked is not None else []
    for stage, folder in folders.items():
        heading(stage)
        files = _question_files(options, config)
        finder = Finder(benchmarks.get(stage, of_questions), config.sandbox, files)
        report = replay_rollouts(config, finder, folder, options.limit)
        _show(report)
        if report.stopped:
            return FAILED if report.reasons else stopped()
    return 0


def _show(report: ReplayReport) -> None:
    table = Table("conversations", "", "")
    for status, count in report.counts.items():
        table.add_row(status.value, f"{count}", f"{count / report.conversations:.1%}")
    console.print(table)
    for row in report.unverified[:SHOWN]:
        console.print(
            f"{row.status.value}: {row.conversation_id} of {row.instance_id}, message "
            f"{row.message_index}\n  - {row.recorded}\n  + {row.replayed}",
            highlight=False,
        )
    if (more := len(report.unverified) - SHOWN) > 0:
        console.print(f"and {more} more; all are in {report.folder}/replay")
    for reason in report.reasons[:SHOWN_REASONS]:
        console.print(f"not replayed: {reason}", highlight=False)
    if report.left:
        console.print(f"{counted(report.left, 'rollout')} left; the same command goes on")
    if report.failed_before:
        console.print(f"{counted(report.failed_before, 'rollout')} had failed: nothing to verify")


def _add_questions(parser: argparse.ArgumentParser) -> None:
    told = "runtime questions that were answered, where neither the run nor its config has them"
    add = partial(parser.add_argument, type=Path, action="append", default=[])
    add("--questions", metavar="FILE", help=told)


def _question_files(options: argparse.Namespace, config: RunConfig | None) -> Iterator[Path]:
    """The question files on the command line, of the run's stages, and of its config."""
    from collect.questions.building import questions_path
    from eval.report.pages import question_files

    yield from options.questions
    yield from question_files(options.run)
    if config is not None:
        yield questions_path(config.questions, config.folder)
        asked = config.eval.questions
        if asked is not None and asked.path is not None:
            yield Path(asked.path)


def add_view(parser: argparse.ArgumentParser) -> None:
    from eval.report.facts import MOST_PAGES

    add, several = parser.add_argument, partial(parser.add_argument, action="append", default=[])
    add("run", type=Path, help=RUN_HELP)
    told = "a second run folder: the two on one page; only --output and --open apply"
    add("other", type=Path, nargs="?", help=told)
    told = "where the pages go (RUN/report or audit; OTHER/comparison)"
    add("--output", type=Path, metavar="FOLDER", help=told)
    add("--open", action="store_true", help="show them in the browser")
    told = f"most rollouts that get pages, 0 for all ({MOST_PAGES})"
    add("--limit", type=int, default=MOST_PAGES, metavar="N", help=told)
    told = "N rollouts drawn at random, with a sheet for verdicts on them, in RUN/audit"
    add("--sample", type=int, metavar="N", help=told)
    several(
        "--outcome",
        help="only these: resolved, not_resolved, not_judged, right, wrong, failed; may be given "
        "several times, as may those that follow",
    )
    several("--variant", help="only these variants, as in configs")
    several("--model", help="only rollouts in which these play")
    several("--bug", metavar="GLOB", help="only bugs of such ids")
    _add_questions(parser)
    parser.set_defaults(command=view)


def view(options: argparse.Namespace) -> int:
    """Write a run as HTML pages, or a page that compares two runs, and print where."""
    from eval.metrics import Labels, labels_of
    from eval.report.comparing import write_comparison
    from eval.report.facts import Outcome, Selection, sources_of
    from eval.report.pages import SAMPLE, ReportRequest, write_report

    run: Path = options.run
    for each in (run, options.other):
        if each is not None:
            _require_folder(each)
            refuse_links(each)
    configs = [_config_if_readable(each) for each in (run, options.other) if each is not None]
    labels = [labels_of(each) if each is not None else Labels() for each in configs]
    if options.other is not None:
        output = options.output or options.other / "comparison"
        _tell_page("compared", write_comparison((run, options.other), labels, output), options.open)
        return 0
    sampled = options.sample is not None
    limit = options.sample if sampled else options.limit
    if sampled and limit < 1:
        raise ConfigError(f"--sample: at least 1 rollout, not {limit}")
    sources = sources_of(run)
    if not sources:
        raise ConfigError(f"{run} has no rollouts; give the folder of a run that collected some")
    outcomes = {each.value.replace(" ", "_"): each for each in Outcome}
    for text in options.outcome:
        if text not in outcomes:
            known = f"{', '.join(outcomes)}{did_you_mean(text, outcomes)}"
            raise ConfigError(f"--outcome: there is no {text!r}; there are: {known}")
    request = ReportRequest(
        title=run.resolve().name,
        run=run,
        sources=sources,
        output=options.output or run / ("audit" if sampled else "report"),
        selection=Selection(
            limit=limit if limit > 0 else None,
            at_random=sampled,
            outcomes=frozenset(outcomes[text] for text in options.outcome),
            variants=frozenset(options.variant),
            models=frozenset(options.model),
            instances=tuple(options.bug),
        ),
        questions=list(_question_files(options, configs[0])),
        labels=labels[0],
    )
    paths = write_report(request)
    if not paths.matching:
        console.print("no rollout is of what the options name; the report is empty")
    if sampled:
        sheet = paths.index.with_name(SAMPLE)
        console.print(
            f"{paths.rollouts} of {paths.matching} rollouts; say in {sheet} what is correct"
        )
    elif paths.rollouts < paths.matching:
        console.print(f"the first {paths.rollouts} of {paths.matching} rollouts; see --limit")
    _tell_page(counted(paths.pages, "conversation"), paths.index, options.open)
    return 0


def _config_if_readable(run: Path) -> RunConfig | None:
    """A run's config, which pages need only for which models are scripted and where questions are;
    None if there is none, or it is another release's."""
    try:
        return load_config(run, tell=False) if (run / SAVED_NAME).is_file() else None
    except ConfigError as error:
        logger.warning(f"shown without the run's config: {error}")
        return None


def _tell_page(told: str, index: Path, is_opened: bool) -> None:
    console.print(f"{told}; open {index}")
    if is_opened:
        webbrowser.open(index.resolve().as_uri())


def add_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all",
        action="store_true",
        help="also remove the containers of other machines, and of other containers of this one, "
        "that share its container engine, whether or not their process lives",
    )
    parser.set_defaults(command=clean)


def clean(options: argparse.Namespace) -> int:
    """Remove the folders and containers that dead processes left on this machine, and list them.
    Those of live runs are locked, or name a live process, and stay."""
    from sandbox.engine import LeftContainers, remove_leftover_containers

    folders = remove_leftovers()
    for folder in folders:
        console.print(f"removed {folder}", highlight=False)
    try:
        found = remove_leftover_containers(of_others=options.all)
    except SandboxUnavailable as error:
        console.print(f"containers were not looked for: {error}", highlight=False, markup=False)
        found = LeftContainers()
    for container in found.removed:
        console.print(f"removed container {container[:12]}", highlight=False)
    console.print(
        f"{counted(len(folders), 'sandbox folder')} and "
        f"{counted(len(found.removed), 'container')} removed"
    )
    if found.of_others:
        console.print(
            f"{counted(len(found.of_others), 'container')} left: whether their process lives "
            "can't be told from here. Where it does not, `stepinto clean --all` removes them"
        )
    return 0


def add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """Show what this machine has and what each missing thing would enable."""
    from sandbox.doctor import check_machine, render

    console.print(render(check_machine()))
    return 0


POLL_SECONDS = 0.2
BETWEEN_STAGES = 5.0
"""Seconds for which a run that goes on may have no model open, such as between two pairs."""
HOW = (
    "Write text, then any calls, each on a line of its own: >>> NAME {arguments as JSON}\n"
    "End with a line that holds only a full stop."
)


def add_play(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, help="the folder of a run with a model `manual`")
    add("--role", help="only requests of this role, such as main, debug_subagent")
    add("--id", default="", help="only requests whose id begins so: one rollout's")
    told = (
        "answer the request shown before with this file (- for standard input), then show the "
        "next; without it, a terminal asks for answers, and anything else shows one request"
    )
    add("--answer", metavar="FILE", help=told)
    add("--whole", action="store_true", help="show the conversation from its start")
    add("--wait", type=float, default=600.0, metavar="SECONDS", help="for a request (default 600)")
    parser.set_defaults(command=play)


def play(options: argparse.Namespace) -> int:
    """Show requests, and send the answers."""
    run: Path = options.run
    if not run.is_dir():
        console.print(f"there is no folder {run} yet: waiting for a run to begin there")

    refuse_links(run)

    def next_request() -> Request | None:
        found = open_requests(run, options.role)
        return next((each for each in found if each.id.startswith(options.id)), None)

    if options.answer is not None:
        request = next_request()
        if request is None:
            raise ConfigError(
                "no request waits for an answer; run `stepinto play` without --answer"
            )
        source = sys.stdin.buffer if options.answer == "-" else Path(options.answer)
        try:
            data = source.read_bytes() if isinstance(source, Path) else source.read()
            answer_request(run, request, data.decode())
        except (BadAnswer, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"not sent: {error}") from None
    deadline = time.monotonic() + options.wait
    last_open = time.monotonic()
    while True:
        request = next_request()
        if not manual.is_over(run):
            last_open = time.monotonic()
        if request is not None:
            _show_request(request, options.whole)
            if options.answer is not None or not sys.stdin.isatty():
                return 0
            _ask_until_sent(run, request)
            deadline = time.monotonic() + options.wait
        elif time.monotonic() - last_open > BETWEEN_STAGES:
            console.print(f"the run is over: stepinto view {run}")
            return 0
        elif time.monotonic() > deadline:
            goes_on = "but the run goes on" if run.is_dir() else f"and there is no folder {run}"
            raise ConfigError(f"no request came within {options.wait:g} s, {goes_on}")
        else:
            time.sleep(POLL_SECONDS)


def _ask_until_sent(run: Path, request: Request) -> None:
    console.print(HOW)
    while True:
        lines = []
        for line in sys.stdin:
            if line.strip() == ".":
                break
            lines.append(line)
        else:
            raise KeyboardInterrupt  # end of input
        try:
            return answer_request(run, request, "".join(lines))
        except BadAnswer as error:
            console.print(f"Not sent: {error}. Write the whole answer again.")


def _show_request(request: Request, whole: bool) -> None:
    """Print what the model is sent: the new messages, at the start of a conversation all of it."""
    console.print(f"=== request {request.id}, {request.role}, played as {request.model}")
    shown = request.messages if whole else request.news
    for message in shown:
        console.print(f"--- {message.role}" + (f" {message.name}" if message.name else ""))
        if message.content:
            console.print(message.content)
        for call in message.tool_calls:
            console.print(f">>> {call.name} {call.arguments}")
    if len(shown) == len(request.messages):
        console.print("--- tools")
        for tool in request.tools:
            function = {"description": "", **tool["function"]}
            parameters = json.dumps(function["parameters"], ensure_ascii=False)
            console.print(f"{function['name']}: {function['description']}\n    {parameters}")
    if request.answer_only:
        console.print("(no calls are possible: answer with text)")
