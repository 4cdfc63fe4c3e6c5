"""`stepinto clean`: remove what killed runs left behind on this machine."""

from __future__ import annotations

import argparse

from configs.command_line.shared import console
from sandbox.errors import SandboxUnavailable
from sandbox.leftovers import remove_leftovers


def add_clean(parser: argparse.ArgumentParser) -> None:
    """It takes no options."""
    parser.set_defaults(command=clean)


def clean(options: argparse.Namespace) -> int:
    """Remove the folders and containers whose process has died, and name them.

    Those of runs that go on are locked, or tell that their process lives, and stay.
    """
    from sandbox.engine import remove_leftover_containers

    folders = remove_leftovers()
    for folder in folders:
        console.print(f"removed {folder}", highlight=False)
    try:
        containers = remove_leftover_containers()
    except SandboxUnavailable as error:
        console.print(f"containers were not looked for: {error}", highlight=False, markup=False)
        containers = []
    for container in containers:
        console.print(f"removed container {container[:12]}", highlight=False)
    console.print(f"{len(folders)} sandbox folders and {len(containers)} containers removed")
    return 0
