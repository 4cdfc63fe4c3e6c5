"""`stepinto clean`: remove what killed runs left behind on this machine."""

from __future__ import annotations

import argparse

from collect.quantities import counted
from configs.command_line.shared import console
from sandbox.errors import SandboxUnavailable
from sandbox.leftovers import remove_leftovers


def add_clean(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument(
        "--all",
        action="store_true",
        help="also remove the containers of other machines, and of other containers of this one, "
        "that share its container engine, whether or not their process lives",
    )
    parser.set_defaults(command=clean)


def clean(options: argparse.Namespace) -> int:
    """Remove the folders and containers whose process has died, and name them.

    Those of runs that go on are locked, or tell that their process lives, and stay.
    """
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
