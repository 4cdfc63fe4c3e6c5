"""What all commands share: where they print, how they end, and the overrides of a config."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from configs.processes import is_main_process

FAILED = 1
"""Exit status where something kept failing, or what was checked is not well."""
STOPPED = 130
"""Exit status where the user or the budget ended the run early, as for Ctrl-C in a shell."""
SHOWN_REASONS = 3
CONFIG_HELP = "a YAML file, or a run folder"

console = Console(soft_wrap=True, quiet=not is_main_process())


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Let a command take settings after its config."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. collect.attempts=4")


def stopped() -> int:
    """Tell that the run ended early, and give the exit status."""
    print("stepinto: stopped before the end; the same command goes on", file=sys.stderr)
    return STOPPED
