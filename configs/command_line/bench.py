"""The actions of `stepinto bench`, and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from configs.command_line.looking import (
    bench_contamination,
    bench_list,
    bench_pull,
    bench_show,
    bench_verify,
)
from configs.command_line.making import (
    bench_answer,
    bench_make,
    bench_questions,
    bench_self_repair,
)
from configs.command_line.shared import CONFIG_HELP, add_overrides, add_yes

BENCH_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "answer": (bench_answer, "put questions about runs to a model, and score its answers"),
    "list": (bench_list, "list a config's bugs"),
    "show": (bench_show, "show a bug: what an agent is told, its files and its tests"),
    "contamination": (bench_contamination, "say what training data has of eval's bugs"),
    "make": (bench_make, "make verified bugs of projects with test suites"),
    "questions": (bench_questions, "make questions about runs, with their true answers"),
    "pull": (bench_pull, "fetch the container images of a config's bugs"),
    "self-repair": (bench_self_repair, "make a benchmark of the programs that fail their tests"),
    "verify": (bench_verify, "check that all fail before their gold patch and pass after it"),
}


def add_bench(bench: argparse.ArgumentParser) -> None:
    actions = bench.add_subparsers(required=True, metavar="ACTION")
    for name, (command, text) in BENCH_COMMANDS.items():
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("config", type=Path, help=CONFIG_HELP)
        if name == "show":
            action.add_argument("id", help="a bug's id, or a glob over ids")
            action.add_argument("--gold", action="store_true", help="also show the gold patch")
        if name == "verify":
            _add_verify(action)
        if name == "contamination":
            _add_contamination(action)
        if name == "answer":
            add_yes(action)
        add_overrides(action)
        action.set_defaults(command=command)


def _add_verify(verify: argparse.ArgumentParser) -> None:
    repeats, slow = "test runs on each side of the gold patch", "seconds over which a bug is slow"
    verify.add_argument("--repeats", type=_count, default=2, metavar="N", help=f"{repeats} (2)")
    verify.add_argument(
        "--slow", type=float, metavar="SECONDS", help=f"{slow} (sandbox.command_timeout)"
    )
    verify.add_argument("--again", action="store_true", help="also those that were verified before")


def _add_contamination(action: argparse.ArgumentParser) -> None:
    kinds = "run folders, sft folders, files of rows, or configs of benchmarks"
    action.add_argument(
        "--training", type=Path, nargs="+", required=True, metavar="PATH", help=kinds
    )
    words, share = "words of an n-gram", "exit with 1 where a bug shares more than this, 0 to 1"
    action.add_argument("--ngram", type=_count, default=13, metavar="N", help=f"{words} (13)")
    action.add_argument("--fail-over", type=float, metavar="SHARE", help=share)
    place = "write PATH.json and PATH.md (contamination in the run's folder)"
    action.add_argument("--output", type=Path, metavar="PATH", help=place)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
