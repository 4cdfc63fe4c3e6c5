"""The command line: `stepinto COMMAND`; `stepinto --help` lists the commands."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger("stepinto")
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
OF_A_PATH = (
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ELOOP,
    errno.ENOENT,
)
"""A name is too long, there is a file in place of a folder or the reverse, or nothing can be made
there, as in /proc."""
COMMANDS = {
    "quickstart": "the whole pipeline on bundled bugs, without a key, a GPU or Docker",
    "init": "write a shipped config to change and run",
    "collect": "roll out the agents on the bugs",
    "format": "make fine-tuning data from the rollouts",
    "train": "fine-tune the small model",
    "eval": "measure pairs of models on held-out bugs",
    "run": "the config's stages in a row: collect, format, train and eval by default",
    "iterate": "improve a small model in rounds, by the best of its own sessions",
    "bench": "list a config's bugs, show or verify them, get their images, or make some",
    "mcp": "serve the debug subagent to coding agents, on your own repository",
    "ask": "ask the debug subagent one question about a test of your repository",
    "status": "how far a run has come, while it runs or later",
    "play": "answer a run's requests by hand",
    "replay": "drive a run's recorded calls again, and compare",
    "view": "show a run's numbers and conversations as pages",
    "clean": "remove what killed runs left on this machine",
    "doctor": "what this machine has, and what is missing",
}
EXAMPLES = {
    "quickstart": ["quickstart", "quickstart run=again train.max_steps=12"],
    "init": ["init --list", "init debug2fix"],
    "collect": [
        "collect debug2fix.yaml --preflight",
        "collect debug2fix.yaml run=first models.frontier.model=gpt-5 runner.budget_dollars=5",
    ],
    "format": ["format runs/first", "format runs/first format.test_fraction=0.1"],
    "train": ["train runs/first", "train runs/first train.max_steps=100"],
    "eval": ["eval runs/first eval.attempts=4"],
    "run": ["run quickstart", "run debug2fix.yaml 'stages=[collect, format]'"],
    "iterate": ["iterate subagent-iterate iterate.rounds=2"],
    "bench": ["bench list debug2fix", "bench show debug2fix 'shopcart__*'"],
    "mcp": ["mcp --repo . --model runs/first/model", "mcp --http 127.0.0.1:8765"],
    "ask": [
        "ask 'What is total at line 40?' --test tests/test_x.py::test_y --model runs/first/model"
    ],
    "status": ["status runs/first", "status runs/first --watch"],
    "play": ["play runs/first", "play runs/first --answer answer.txt"],
    "replay": ["replay runs/first --limit 10"],
    "view": ["view runs/first --open", "view runs/first --outcome failed --limit 20"],
    "clean": ["clean"],
    "doctor": ["doctor"],
}
"""Arguments of `stepinto` to begin with, by command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if it did what it was asked."""
    _find_own_packages_first()
    if arguments is None:
        # Of what this starts, with `-m` or by multiprocessing, no module of the current folder is
        # run. A value of the user's stays, also an empty one.
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        with _terminated_like_interrupted():
            return _run_command(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # Before or after the rollouts, which stop at their next step by themselves.
        logger.warning("stopped")
        return 128 + signal.SIGINT  # as STOPPED, whose module may not be imported yet


def _run_command(arguments: Sequence[str]) -> int:
    options = read_arguments(arguments)
    # Errors are imported after the command line is read, so that `--help` answers at once.
    from collect.console import log_to_stderr
    from collect.errors import ConfigError
    from sandbox.errors import SandboxError

    log_to_stderr()
    try:
        return int(options.command(options))
    except (ConfigError, SandboxError) as error:
        logger.error(str(error))
        return 2
    except OSError as error:
        if error.errno not in (*DISK_ERRORS, *OF_A_PATH):
            raise
        kept = "rollouts that were finished before are kept"
        logger.error(f"{error}; fix that, and start again: {kept}")
        return 2


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _find_own_packages_first() -> None:
    """Let a project in the current folder have packages with StepInto's names, such as `configs`:
    with `python -m` or PYTHONPATH=. Python looks there first."""
    own = str(Path(__file__).parent)
    if sys.path[:1] != [own]:
        sys.path.insert(0, own)


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read; settings may stand before and after flags."""
    parser = argparse.ArgumentParser(
        prog="stepinto",
        description="Collect debugger trajectories, train a debug subagent on them, measure it.",
    )
    told = ""
    if "--version" in arguments:
        from collect.store.records import code_version

        told = f"stepinto {code_version()}"
    parser.add_argument("--version", action="version", version=told, help="show it, and end")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, text in COMMANDS.items():
        lines = [f"  stepinto {each}" for each in EXAMPLES[name]]
        command = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog="\n".join(["examples:", *lines]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # Only the chosen command's module is imported. It adds the arguments, and the function that
        # does the command as `command`.
        if name != chosen:
            continue
        if name == "bench":
            from configs.command_line.bench import add_bench

            add_bench(command)
        elif name == "iterate":
            from configs.command_line.iterate import add_iterate

            add_iterate(command)
        elif name in ("mcp", "ask"):
            from configs.command_line import live

            getattr(live, f"add_{name}")(command)
        elif name in ("init", "status", "play", "replay", "view", "clean", "doctor"):
            from configs.command_line import runs

            getattr(runs, f"add_{name}")(command)
        else:
            from configs.command_line.stages import add_stages

            add_stages(command, name)
    options, rest = parser.parse_known_args(arguments)
    unknown = [word for word in rest if word.startswith("-") or "=" not in word]
    if unknown or (rest and not hasattr(options, "overrides")):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    return options


if __name__ == "__main__":
    sys.exit(main())
