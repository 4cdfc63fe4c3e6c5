"""The command line: `stepinto COMMAND`; `stepinto --help` lists the commands."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from collect.console import tell
from collect.errors import ConfigError
from configs.command_line.before_run import CHECKS, add_checks, check_run
from configs.command_line.bench import add_bench
from configs.command_line.preflight import add_preflight, check_flags, check_sections, preflight
from configs.command_line.push import add_push, check_target, push_dataset
from configs.command_line.runs import add_clean, add_replay, add_status, add_view
from configs.command_line.shared import (
    CONFIG_HELP,
    STOPPED,
    add_overrides,
    add_yes,
    console,
    overrides_of,
)
from configs.command_line.stages import (
    STAGES,
    Stage,
    collect,
    evaluate,
    format_rows,
    train,
)
from configs.loading import config_saved, load_config
from sandbox.errors import SandboxError
from train.processes import process_count

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
OF_A_PATH = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP)
"""Errors of a path: a name too long, or a file in place of a folder or the reverse."""
KEPT = "rollouts that were finished before are kept"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if it succeeded."""
    options = _options(arguments)
    try:
        return int(options.command(options))
    except (ConfigError, SandboxError) as error:
        tell(str(error))
        return 2
    except KeyboardInterrupt:
        # Interrupted outside the rollouts, which stop at their next step by themselves.
        return STOPPED
    except OSError as error:
        if error.errno not in (*DISK_ERRORS, *OF_A_PATH):
            raise
        tell(f"{error}; fix that, and start again: {KEPT}")
        return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; settings may stand before and after flags."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    unknown = [word for word in rest if word.startswith("-") or "=" not in word]
    if unknown or (rest and not hasattr(options, "overrides")):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stepinto",
        description="Collect debugger trajectories, train a debug subagent on them, measure it.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (stages, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("config", type=Path, help=CONFIG_HELP)
        add_overrides(command)
        command.set_defaults(command=lambda options, stages=stages: _run_stages(options, stages))
        if name in ROLLING_OUT:
            add_yes(command)
        if name in CHECKED:
            add_checks(command)
            command.set_defaults(command=lambda options, name=name: _do_or_check(options, name))
        if name == "format":
            add_preflight(command)
            add_push(command)
            command.set_defaults(command=_format_and_check)
    add_bench(
        commands.add_parser(
            "bench",
            help="list a config's bugs, show or verify them, get their images, or make some",
        )
    )
    add_status(commands.add_parser("status", help="how far a run has come, while it runs or later"))
    add_replay(
        commands.add_parser("replay", help="drive a run's recorded calls again, and compare")
    )
    add_view(commands.add_parser("view", help="show a run's numbers and conversations as pages"))
    add_clean(commands.add_parser("clean", help="remove what killed runs left on this machine"))
    doctor = commands.add_parser("doctor", help="what this machine has, and what is missing")
    doctor.set_defaults(command=_doctor)
    return parser


def _format_and_check(options: argparse.Namespace) -> int:
    check_flags(options)
    stages = (
        lambda config: check_target(config, options),
        format_rows,
        lambda config: preflight(config, options),
        lambda config: push_dataset(config, options),
    )
    return _run_stages(options, stages)


def _do_or_check(options: argparse.Namespace, name: str) -> int:
    if options.preflight:
        return _run_stages(options, (CHECKED[name],), save=False)
    return _run_stages(options, COMMANDS[name][0])


def _run_stages(
    options: argparse.Namespace, stages: Sequence[Stage] | None, save: bool = True
) -> int:
    """Run some stages, None for those that the config names; `save` saves the config in its
    folder."""
    config = load_config(options.config, overrides_of(options))
    if stages is None:
        check_sections(config)
        stages = [STAGES[name] for name in config.stages]
    if process_count() > 1 and list(stages) != [train]:
        raise ConfigError(
            f"{process_count()} processes were launched, and only `stepinto train` shares its work "
            "among them; start the other stages without `accelerate launch`"
        )
    with config_saved(config) if save else nullcontext():
        for stage in stages:
            status = stage(config)
            if status:
                return status
    return 0


COMMANDS: dict[str, tuple[tuple[Stage, ...] | None, str]] = {
    "collect": ((collect,), "roll out the agents on the bugs"),
    "format": ((format_rows,), "make fine-tuning data from the rollouts"),
    "train": ((train,), "fine-tune the small model"),
    "eval": ((evaluate,), "measure pairs of models on held-out bugs"),
    "run": (None, "the config's stages in a row: collect, format, train and eval by default"),
}
"""The stages of each command; None for those that the config names."""
ROLLING_OUT = ("collect", "eval", "run")
CHECKED: dict[str, Stage] = {**CHECKS, "run": check_run}
"""What `--preflight` runs instead, for the commands that have it."""


def _doctor(options: argparse.Namespace) -> int:
    from sandbox.doctor import check_machine, render

    console.print(render(check_machine()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
