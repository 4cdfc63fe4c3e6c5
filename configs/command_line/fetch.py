"""`stepinto fetch`: get a run's copy out of a shared store."""

from __future__ import annotations

import argparse
from pathlib import Path

from collect.errors import ConfigError
from configs.command_line.shared import console


def add_fetch(parser: argparse.ArgumentParser) -> None:
    """The options of `stepinto fetch`."""
    parser.add_argument(
        "copy", metavar="URI", help="the run's folder in the store: runner.copy_to, then /RUN"
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="where it goes (runs/RUN)"
    )
    parser.set_defaults(command=fetch_run)


def fetch_run(options: argparse.Namespace) -> int:
    """Fetch it to a folder that is empty, or into which it was not fetched as a whole yet."""
    from collect.copying.fetching import UNFINISHED, fetch, has_rollouts
    from collect.copying.folder import Folder

    copy = Folder.at(options.copy)
    folder: Path = options.folder or Path("runs") / copy.path.rpartition("/")[2]
    if folder.is_dir() and any(folder.iterdir()) and not (folder / UNFINISHED).exists():
        raise ConfigError(f"{folder} is not empty; name a folder that is not there yet")
    try:
        if not has_rollouts(copy):
            raise ConfigError(
                f"{copy.name} has no rollouts; give the folder of a run: runner.copy_to, and the "
                "run's name after it"
            )
        fetch(copy, folder)
    except OSError as error:
        raise ConfigError(f"{copy.name} can't be fetched: {error}; try again") from error
    console.print(f"{copy.name} is in {folder}", highlight=False, markup=False)
    return 0
