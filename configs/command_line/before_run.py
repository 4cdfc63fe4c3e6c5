"""`--preflight` of collect, eval and run: all checks before rollouts, and no rollouts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import takewhile

from rich.table import Table
from rich.text import Text

from collect.preflight import Finding
from configs.command_line.preflight import check_sections
from configs.command_line.shared import console
from configs.run_config import RunConfig

REFUSED = 2
"""Exit status if a check failed: a start would refuse."""


def add_checks(parser: argparse.ArgumentParser) -> None:
    """Add the flag to commands that run rollouts."""
    told = "look at images, disks, sandbox, models and limits, say what was found, and end"
    parser.add_argument("--preflight", action="store_true", help=told)


def check_collect(config: RunConfig) -> int:
    """Check all that the config's rollouts need, and print it; returns the exit status."""
    from collect.rollouts.stage import look_before_collect

    return _told(look_before_collect(config, config.collect, config.folder, config.held_out))


def check_eval(config: RunConfig) -> int:
    """Check the config's evaluation, each set of rollouts separately; returns the exit status."""
    from eval.stage import look_before_eval

    found = look_before_eval(config, config.eval, config.collect.benchmark, config.folder)
    return max(_told(findings, name) for name, findings in found.items())


def check_run(config: RunConfig) -> int:
    """Check each stage of `run` whose rollouts need nothing from an earlier one; of the others only
    their sections. Raises ConfigError if a section is invalid."""
    check_sections(config)
    console.print("the sections of all stages will do")
    there = takewhile(lambda name: name not in MAKERS, config.stages)
    now = [name for name in there if name in CHECKS]
    status = max((CHECKS[name](config) for name in now), default=0)
    for name in config.stages:
        if name == "answer":
            console.print("answer: its questions and models are looked at when its turn comes")
        elif name in CHECKS and name not in now:
            console.print(
                f"{name}: more can be looked at once the stages before it are done, with "
                f"`stepinto {name} CONFIG --preflight`"
            )
    return status


CHECKS: dict[str, Callable[[RunConfig], int]] = {
    "collect": check_collect,
    "eval": check_eval,
}
"""The stages that run rollouts."""
MAKERS = ("make", "questions", "train")
"""The stages that make bugs, questions or a model."""


def _told(findings: Sequence[Finding], name: str | None = None) -> int:
    table = Table("", "what", "found, or what to do", title=name)
    for finding in findings:
        mark = Text("ok", "green") if finding.ok else Text("no", "red")
        table.add_row(mark, finding.name, Text(finding.said))
    console.print(table)
    return 0 if all(finding.ok for finding in findings) else REFUSED
