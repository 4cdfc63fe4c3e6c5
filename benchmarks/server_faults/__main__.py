"""Which faults of models' servers a conversation survives, by API.

    python -m benchmarks.server_faults

A scripted server speaks chat completions, Anthropic's Messages, OpenAI's Responses, and stands in
for a vLLM that StepInto starts. In each conversation it has one fault that another request can
save, and refuses, as strict servers do, what it should not have been sent. A cell is `ok` with the
number of replies if the conversation reaches its answer and its row is right.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from benchmarks.server_faults.faults import ANSWER, FAULTS, Fault
from collect.agents.conversation import AgentRun, AgentSpec, ConversationLog
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.benchmarks.base import Instance
from collect.errors import ModelFailure, RolloutError
from collect.models.base import ConversationContext, Sampling
from collect.models.budget import Budget
from collect.models.config import ModelConfig
from collect.models.endpoint import EndpointBackend
from collect.models.serving.server import VllmBackend
from collect.rollouts.executor import open_model
from collect.store.records import Conversation, Role, ToolOutcome

ROOT = Path(__file__).parents[2]
NAMES = [fault.name for fault in FAULTS]
BACKENDS = ("chat", "messages", "responses", "vllm")
RETRIES = {"max_retries": 2, "backoff_base": 0.01, "outage_wait": 0}
BUG = Instance("fault", "faults", "python", "r", "It fails.", ("t",), (), "", {})


class LookArguments(Arguments):
    what: str


@dataclass(frozen=True)
class Look:
    """Answers with so many characters."""

    chars: int
    name: str = "look"
    description: str = "Look at something."
    arguments: type[Arguments] = LookArguments

    def call(self, arguments: LookArguments, call_id: str) -> ToolReply:
        return ToolReply(arguments.what * self.chars)


@contextmanager
def running_server(folder: Path) -> Iterator[VllmBackend]:
    """The scripted server, as the server of a vLLM model."""
    command = (sys.executable, "-m", "benchmarks.server_faults.server")
    server = {"model": "org/model", "command": command, "environment": {"PYTHONPATH": str(ROOT)}}
    backend = _open("vllm", {"server": server}, folder)
    assert isinstance(backend, VllmBackend)
    try:
        yield backend
    finally:
        backend.close()


def _open(backend: str, settings: Mapping[str, Any], folder: Path) -> EndpointBackend:
    kind = {"chat": "openai", "messages": "anthropic"}.get(backend, backend)
    given = {"backend": kind, "retries": RETRIES, **settings}
    config = TypeAdapter[Any](ModelConfig).validate_python(given)
    opened = open_model(backend, config, Budget(None), threading.Event(), folder)
    assert isinstance(opened, EndpointBackend)
    return opened


def outcome(fault: Fault, backend: str, vllm: VllmBackend, folder: Path) -> str:
    """What comes of a conversation with the fault."""
    settings = dict(fault.settings)
    if backend in ("messages", "responses"):
        settings.pop("reasoning_field", None)
    if backend == "vllm":
        assert vllm.server is not None, "it is open"
        settings["server"] = vllm.server.config
    else:
        url = vllm.address.rstrip("/")
        url = url.removesuffix("/v1") if backend == "messages" else url
        settings |= {"model": "scripted", "base_url": url, "api_key_env": None}
    tools: list[Tool] = [Look(fault.result_chars)]
    spec = AgentSpec(
        "You look at things.",
        Toolbox(tools),
        fault.steps,
        forced_answer="Answer now.",
        follow_up=lambda said: None if said.strip() else "Go on.",
        max_follow_ups=2,
    )
    log = ConversationLog(0, Role.MAIN, backend, "model", "{}", spec.toolbox.schemas())
    with ExitStack() as opened:
        model = _open(backend, settings, folder)
        opened.callback(model.close)
        context = ConversationContext(BUG, "faults", 0, "main", 0)
        run = AgentRun(spec, model.open(context), Sampling(), log, threading.Event())
        try:
            run.run(f"fault {NAMES.index(fault.name)} of {backend}")
        except ModelFailure as failure:
            return f"the model's failure: {failure}"
        except RolloutError as failure:
            return f"{type(failure).__name__}: {failure}"
    return _verdict(fault, log)


def _verdict(fault: Fault, log: ConversationLog) -> str:
    row = log.row(BUG, "faults", 0, "0" * 16)
    if log.final_answer != ANSWER:
        return f"no answer, but {log.final_answer!r:.60}"
    if wrong := _wrong(row):
        return wrong
    if fault.tokens is not None and log.usage.completion_tokens != fault.tokens:
        return f"{log.usage.completion_tokens} tokens, not {fault.tokens}"
    return f"ok, {log.steps}"


def _wrong(row: Conversation) -> str | None:
    """Why the row is not what happened."""
    stored = TypeAdapter(Conversation)
    if stored.validate_json(stored.dump_json(row)) != row:
        return "the row can't be stored"
    done = {
        each.message.tool_call_id
        for each in row.messages
        if each.tool_outcome is ToolOutcome.OK and each.message.role == "tool"
    }
    calls = [call for each in row.messages for call in each.message.tool_calls]
    if len({call.id for call in calls}) < len(calls):
        return "two calls with one id in the row"
    names = {tool["function"]["name"] for tool in json.loads(row.tools)}
    for call in calls:
        try:
            if call.id in done and call.name in names:
                LookArguments.model_validate_json(call.arguments)
        except ValidationError:
            return f"arguments against their schema: {call.arguments:.60}"
    return None


def measure(faults: tuple[Fault, ...] = FAULTS) -> dict[str, dict[str, str]]:
    """The outcomes by fault and backend."""
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as vllm:
        return {
            fault.name: {each: outcome(fault, each, vllm, Path(folder)) for each in BACKENDS}
            for fault in faults
        }


def is_right(cell: str) -> bool:
    return cell.startswith("ok")


def table(results: Mapping[str, Mapping[str, str]]) -> Table:
    made = Table("fault", *BACKENDS, title="conversations that go on, and their replies")
    for fault, by_backend in results.items():
        cells = (by_backend[each] for each in BACKENDS)
        made.add_row(fault, *(each if is_right(each) else "lost" for each in cells))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="faults with these words in their names")
    options = parser.parse_args()
    logging.getLogger("collect").setLevel(logging.ERROR)
    results = measure(tuple(fault for fault in FAULTS if options.only in fault.name))
    Console().print(table(results))
    cells = [(name, *each) for name, row in results.items() for each in row.items()]
    lost = [each for each in cells if not is_right(each[-1])]
    for each in lost:
        print(": ".join(each))
    print(f"{len(cells) - len(lost)} of {len(cells)} reach their answer with a right row")


if __name__ == "__main__":
    main()
