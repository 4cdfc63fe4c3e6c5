"""`stepinto play`: answer a run's requests by hand."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from collect.errors import ConfigError
from collect.models.manual import BadAnswer, Request, answer_request, is_over, open_requests
from collect.store.messages import Message
from configs.command_line.shared import console

POLL_SECONDS = 0.2
HOW = (
    "Write text, then any calls, each on a line of its own: >>> NAME {arguments as JSON}\n"
    "End with a line that holds only a full stop."
)


def add_play(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the folder of a run with a model `manual`")
    parser.add_argument("--role", help="only requests of this role, such as main, debug_subagent")
    parser.add_argument("--id", help="only requests whose id begins so: one rollout's")
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
    if not options.run.is_dir():
        raise ConfigError(f"there is no folder {options.run}; give a run that is going on")
    if options.answer is not None:
        return _answer_from_file(options)
    while True:
        request = _next_request(options)
        if request is None:
            return 0
        _show(request, options.whole)
        if not sys.stdin.isatty():
            return 0
        _ask_until_sent(options.run, request)


def _answer_from_file(options: argparse.Namespace) -> int:
    waiting = _waiting(options)
    if not waiting:
        raise ConfigError("no request waits for an answer; run `stepinto play` without --answer")
    name: str = options.answer
    text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    try:
        answer_request(options.run, waiting[0], text)
    except BadAnswer as error:
        raise ConfigError(f"not sent: {error}") from None
    request = _next_request(options)
    if request is not None:
        _show(request, options.whole)
    return 0


def _waiting(options: argparse.Namespace) -> list[Request]:
    found = open_requests(options.run, options.role)
    return [request for request in found if request.id.startswith(options.id or "")]


def _next_request(options: argparse.Namespace) -> Request | None:
    """None if the run is over. Raises ConfigError if no request comes in time."""
    deadline = time.monotonic() + options.wait
    while not (waiting := _waiting(options)):
        if is_over(options.run):
            console.print(f"the run is over: stepinto view {options.run}")
            return None
        if time.monotonic() > deadline:
            raise ConfigError(f"no request came within {options.wait:g} s, but the run goes on")
        time.sleep(POLL_SECONDS)
    return waiting[0]


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
        console.print(_told(message))
    if len(shown) == len(request.messages):
        console.print("--- tools")
        for tool in request.tools:
            console.print(_tool(tool["function"]))
    if request.answer_only:
        console.print("(no calls are possible: answer with text)")


def _told(message: Message) -> str:
    heading = f"--- {message.role}" + (f" {message.name}" if message.name else "")
    calls: Iterable[str] = (f">>> {call.name} {call.arguments}" for call in message.tool_calls)
    return "\n".join(part for part in (heading, message.content, *calls) if part)


def _tool(function: dict[str, object]) -> str:
    parameters = json.dumps(function["parameters"], ensure_ascii=False)
    return f"{function['name']}: {function['description']}\n    {parameters}"
