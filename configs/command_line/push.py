"""`stepinto format --push`: upload the finished dataset to the hub."""

from __future__ import annotations

import argparse

from collect.errors import ConfigError
from configs.command_line.shared import console, heading
from configs.run_config import RunConfig
from format.config import PushConfig


def add_push(parser: argparse.ArgumentParser) -> None:
    """The flags of `stepinto format` that upload the dataset."""
    parser.add_argument(
        "--push", metavar="OWNER/NAME", help="upload the dataset to this repository of the hub"
    )
    parser.add_argument("--private", action="store_true", help="with --push: make it private")


def check_target(config: RunConfig, options: argparse.Namespace | None = None) -> int:
    """Raise ConfigError, before any work, if the dataset could not be uploaded."""
    from format.push import check_push

    if options is not None and options.private and options.push is None:
        raise ConfigError("--private is for --push; give that too, or set format.push.private")
    target = _target(config, options)
    if target is not None:
        check_push(target)
    return 0


def push_dataset(config: RunConfig, options: argparse.Namespace | None = None) -> int:
    """Upload the run's dataset if the flags or the config say so."""
    from format.push import push

    target = _target(config, options)
    if target is not None:
        heading("push")
        console.print(push(config.folder / "sft", target), markup=False, highlight=False)
    return 0


def _target(config: RunConfig, options: argparse.Namespace | None) -> PushConfig | None:
    if options is None or options.push is None:
        return config.format.push
    return PushConfig(repository=options.push, private=options.private)
