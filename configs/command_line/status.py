"""`stepinto status`: how far a run has come, while it runs or afterwards."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from collect.console import visible
from collect.errors import ConfigError
from collect.quantities import dollars, duration, tokens
from collect.rollouts.heartbeat import SECONDS
from collect.rollouts.status import SILENT_SECONDS, RunStatus, has_begun, read_status
from configs.command_line.shared import console, heading

SHOWN_RUNNING = 5
Worded = Callable[[float], str]


def add_status(parser: argparse.ArgumentParser) -> None:
    """The options of `stepinto status`."""
    parser.add_argument("run", type=Path, help="a run folder")
    parser.set_defaults(command=status)


def status(options: argparse.Namespace) -> int:
    """Print it for each of the folder's sets of rollouts: collect's, and eval's."""
    from eval.report.facts import SOURCES

    folders = {stage: options.run / below for stage, below in SOURCES}
    begun = {stage: folder for stage, folder in folders.items() if has_begun(folder)}
    if not begun:
        raise ConfigError(f"{options.run} has no rollouts; give the folder of a run that began")
    for stage, folder in begun.items():
        heading(stage)
        console.print(render(read_status(folder)), highlight=False)
    return 0


def render(status: RunStatus) -> RenderableType:
    """A table of numbers, what failed, what took longest, what is running."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(status):
        facts.add_row(Text(name, style="dim"), Text(value))
    return Group(facts, *_lists(status))


def _facts(status: RunStatus) -> Iterator[tuple[str, str]]:
    beat = status.heartbeat
    yield "state", _state(status)
    yield "rollouts", f"{status.rows}" if beat is None else f"{beat.done} of {beat.total}"
    if beat is not None and beat.beside:
        yield "", f"and {beat.beside} that the config asks for no more; the rest counts both"
    share = f" ({status.resolved / status.judged:.0%})" if status.judged else ""
    yield "resolved", f"{status.resolved} of {status.judged} judged{share}"
    if status.tampered:
        yield "tampered", f"{status.tampered}: their code interfered with the run of the tests"
    if status.per_hour is not None:
        yield "rate", f"{status.per_hour:.0f} an hour"
    if status.seconds_left is not None:
        yield "left", duration(status.seconds_left)
    yield "tokens", _sum(tokens(status.tokens), status.at_end(status.tokens), tokens)
    yield "dollars", _sum(dollars(status.dollars), status.at_end(status.dollars), dollars)
    if dollars(status.spent) != dollars(status.dollars):
        more = "first requests, and rollouts that left no row or were done again"
        yield "", f"{dollars(status.spent)} with {more}"


def _state(status: RunStatus) -> str:
    beat = status.heartbeat
    if beat is None:
        return "no start is known here"
    where = f"{beat.host}, process {beat.process}"
    if status.silent is None:
        rest = "" if not status.remaining else f", {status.remaining} left to do"
        return f"ended {duration(status.now - beat.seen_at)} ago{rest} ({where})"
    gone = beat.host == platform.node() and not Path(f"/proc/{beat.process}").exists()
    if status.silent > (2 * SECONDS if gone else SILENT_SECONDS):
        return f"died, last heard of {duration(status.silent)} ago ({where}); start it again"
    return f"running for {duration(status.now - beat.started_at)} ({where})"


def _sum(so_far: str, at_end: float | None, worded: Worded) -> str:
    return so_far if at_end is None else f"{so_far} so far, about {worded(at_end)} at the end"


def _lists(status: RunStatus) -> Iterator[RenderableType]:
    for (kind, name), count in status.failures.most_common():
        yield Text(visible(f"failed: {count} {kind}, {name}"))
    for slow in status.slowest:
        yield Text(visible(f"slow: {duration(slow.seconds)} {slow.instance_id} {slow.variant}"))
    beat = status.heartbeat
    if beat is None:
        return
    for node in beat.nodes:
        counts = f"{node.running} running, {node.done} done, {node.lost} lost"
        yield Text(visible(f"node: {node.host} {node.state}: {counts}"))
    if beat.ended:
        return
    for rollout in beat.running[:SHOWN_RUNNING]:
        yield Text(visible(f"running: {duration(rollout.seconds)} {rollout.label}"))
    if len(beat.running) > SHOWN_RUNNING:
        yield Text(f"and {len(beat.running) - SHOWN_RUNNING} more")
