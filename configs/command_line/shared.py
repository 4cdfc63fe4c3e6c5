"""Shared by all commands: output, exit statuses, and config overrides."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from rich.console import RenderableType
from rich.constrain import Constrain
from rich.rule import Rule

from collect.console import VisibleConsole
from collect.errors import BudgetExhausted
from train.job import is_main_process

logger = logging.getLogger(__name__)

FAILED = 1
"""Exit status if failures remain or a check failed."""
STOPPED = 130
"""Exit status if the user or the budget ended the run early, as for Ctrl-C in a shell."""
STOPPED_EARLY = "stopped before the end; the same command goes on"
AGAIN = ", and done again by the next start"
SHOWN_REASONS = 3
OF_BUDGET = f"{BudgetExhausted.__name__}: "
"""Prefix of the reason if a budget ends a run."""
CONFIG_HELP = "a YAML file, a run folder, or a shipped config's name (stepinto init --list)"

# Tables in files and pipes are not cut or folded.
console = VisibleConsole(
    soft_wrap=True,
    width=None if sys.stdout.isatty() else 10_000,
    quiet=not is_main_process(),
)


def heading(title: str) -> None:
    """A line across the terminal with a title in it."""
    console.print(rule(title))


def rule(title: str) -> RenderableType:
    """The line of `heading`."""
    return Constrain(Rule(title), None if console.is_terminal else 80)


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Let a command take settings after its config, and more after its flags."""
    told = "e.g. collect.attempts=4"
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help=told)


def tell_failures(reasons: Sequence[str], then: str = "") -> bool:
    """Print the first few failures; returns whether there are any. `reasons` are those that a start
    ended with, as `type: message`; `stopped` reports a spent budget."""
    failures = [reason for reason in reasons if not reason.startswith(OF_BUDGET)]
    for reason in failures[:SHOWN_REASONS]:
        logger.warning(f"failed{then}: {reason[:500]}")
    return bool(failures)


def is_spent(reasons: Sequence[str]) -> bool:
    """Whether a start ended because of a budget."""
    return any(reason.startswith(OF_BUDGET) for reason in reasons)


def stopped(reasons: Sequence[str] = ()) -> int:
    """Report that the user or the budget ended the run early; returns the exit status."""
    spent = [reason for reason in reasons if reason.startswith(OF_BUDGET)]
    logger.warning(spent[0].removeprefix(OF_BUDGET) if spent else STOPPED_EARLY)
    return STOPPED
