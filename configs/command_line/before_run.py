"""`stepinto collect --preflight`: all that is looked at before rollouts, and none of them."""

from __future__ import annotations

import argparse

from rich.markup import escape
from rich.table import Table

from configs.command_line.shared import console
from configs.run_config import RunConfig

REFUSED = 2
"""Exit status where a check failed: `stepinto collect` would refuse."""


def add_checks(parser: argparse.ArgumentParser) -> None:
    """The flag of `stepinto collect`."""
    told = "look at images, disks, sandbox, models and limits, say what was found, and end"
    parser.add_argument("--preflight", action="store_true", help=told)


def check_collect(config: RunConfig) -> int:
    """Look at all that the config's rollouts need, and print it; the exit status."""
    from collect.stage import look_before_collect

    findings = look_before_collect(config, config.collect, config.folder, config.held_out)
    table = Table("", "what", "found, or what to do")
    for finding in findings:
        mark = "[green]ok[/green]" if finding.ok else "[red]no[/red]"
        table.add_row(mark, finding.name, escape(finding.said))
    console.print(table)
    return 0 if all(finding.ok for finding in findings) else REFUSED
