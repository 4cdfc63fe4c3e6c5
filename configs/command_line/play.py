"""`stepinto play`: answer a run's requests by hand."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from collect.errors import ConfigError
from collect.models.manual import BadAnswer, Request, answer_request, is_over, open_requests
from configs.command_line.shared import console

POLL_SECONDS = 0.2
HOW = (
    "Write text, then any calls, each on a line of its own: >>> NAME {arguments as JSON}\n"
    "End with a line that holds only a full stop."
)


def add_play(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the folder of a run with a model `manual`")
    parser.add_argument("--role", help="only requests of this role, such as main, debug_subagent")
    parser.add_argument("--id", default="", help="only requests whose id begins so: one rollout's")
    parser.add_argument(
        "--answer",
        metavar="FILE",
        help="answer the request shown before with this file (- for standard input), then show "
        "the next; without it, a terminal asks for answers, and anything else shows one request",
    )
    parser.add_argument("--whole", action="store_true", help="show the conversation from its start")
    parser.add_argument(
        "--wait", type=float, default=600.0, metavar="SECONDS", help="for a request (default 600)"
    )
    parser.set_defaults(command=play)


def play(options: argparse.Namespace) -> int:
    """Show requests, and send the answers."""
    run: Path = options.run
    if not run.is_dir():
        raise ConfigError(f"there is no folder {run}; give a run that is going on")
    if options.answer is not None:
        waiting = _waiting(options)
        if not waiting:
            raise ConfigError(
                "no request waits for an answer; run `stepinto play` without --answer"
            )
        from_input = options.answer == "-"
        text = sys.stdin.read() if from_input else Path(options.answer).read_text(encoding="utf-8")
        try:
            answer_request(run, waiting[0], text)
        except BadAnswer as error:
            raise ConfigError(f"not sent: {error}") from None
    deadline = time.monotonic() + options.wait
    while True:
        waiting = _waiting(options)
        if waiting:
            _show(waiting[0], options.whole)
            if options.answer is not None or not sys.stdin.isatty():
                return 0
            _ask_until_sent(run, waiting[0])
            deadline = time.monotonic() + options.wait
        elif is_over(run):
            console.print(f"the run is over: stepinto view {run}")
            return 0
        elif time.monotonic() > deadline:
            raise ConfigError(f"no request came within {options.wait:g} s, but the run goes on")
        else:
            time.sleep(POLL_SECONDS)


def _waiting(options: argparse.Namespace) -> list[Request]:
    found = open_requests(options.run, options.role)
    return [request for request in found if request.id.startswith(options.id)]


def _ask_until_sent(run: Path, request: Request) -> None:
    console.print(HOW)
    while True:
        lines = []
        for line in sys.stdin:
            if line.strip() == ".":
                break
            lines.append(line)
        else:
            raise KeyboardInterrupt  # end of input
        try:
            return answer_request(run, request, "".join(lines))
        except BadAnswer as error:
            console.print(f"Not sent: {error}. Write the whole answer again.")


def _show(request: Request, whole: bool) -> None:
    """Print what the model is sent: the new messages, at the start of a conversation all of it."""
    console.print(f"=== request {request.id}, {request.role}, played as {request.model}")
    shown = request.messages if whole else request.news
    for message in shown:
        console.print(f"--- {message.role}" + (f" {message.name}" if message.name else ""))
        if message.content:
            console.print(message.content)
        for call in message.tool_calls:
            console.print(f">>> {call.name} {call.arguments}")
    if len(shown) == len(request.messages):
        console.print("--- tools")
        for tool in request.tools:
            function = tool["function"]
            parameters = json.dumps(function["parameters"], ensure_ascii=False)
            console.print(f"{function['name']}: {function['description']}\n    {parameters}")
    if request.answer_only:
        console.print("(no calls are possible: answer with text)")
