"""A server that refuses what strict providers refuse of earlier replies, in three APIs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from collect.agents.conversation import AgentRun, AgentSpec, ConversationLog
from collect.agents.tools import Arguments, Toolbox, ToolReply
from collect.models.base import Sampling
from collect.models.budget import Budget
from collect.models.config import ModelConfig
from collect.models.endpoint import EndpointBackend
from collect.store.records import Role, StopReason
from tests.collect.models.chat_server import Answer, ChatServer, error
from tests.collect.models.contexts import context

APIS = ("openai", "anthropic", "responses")
Call = tuple[str | None, str | None, Any]
"""A call as a server gives it: id, name, arguments."""
Refuses = Callable[[str, dict[str, Any]], str | None]
"""What is wrong with a request to an API; None if nothing is."""


class Command(Arguments):
    command: str


class Bash:
    name, description, arguments = "bash", "Runs a command.", Command

    def call(self, arguments: Any, call_id: str) -> ToolReply:
        return ToolReply(f"ran {arguments.command}")


class StrictServer(ChatServer):
    """Refuses requests, in place of the queued answer."""

    def __init__(self, api: str, *refuses: Refuses) -> None:
        super().__init__()
        self.api, self.refuses = api, refuses
        self.refused = list[str]()

    def _next(self, request: dict[str, Any]) -> Answer:
        for refuse in self.refuses:
            problem = refuse(self.api, request)
            if problem is not None:
                self.refused.append(problem)
                return error(400, problem)
        return super()._next(request)

    def open(self, **settings: Any) -> EndpointBackend:
        url = self.url.removesuffix("/v1") if self.api == "anthropic" else self.url
        fields = {"backend": self.api, "model": "large", "base_url": url, "api_key_env": None}
        retries = {"max_retries": 1, "backoff_base": 0.001, "outage_wait": 0}
        config = TypeAdapter[Any](ModelConfig).validate_python(
            {**fields, "retries": retries, **settings}
        )
        return EndpointBackend("main", config, Budget(None), threading.Event())

    def converse(self, **settings: Any) -> ConversationLog:
        """A conversation with an agent that has one tool, and asks once for more."""
        toolbox = Toolbox([Bash()])
        log = ConversationLog(0, Role.MAIN, "main", "model", "{}", toolbox.schemas())
        spec = AgentSpec(
            "You fix bugs.", toolbox, 6, follow_up=lambda said: "Go on.", max_follow_ups=1
        )
        model = self.open(**settings).open(context())
        run = AgentRun(spec, model, Sampling(), log, threading.Event())
        assert run.run("Fix it.") is StopReason.FINISHED
        return log


@dataclass(frozen=True)
class Said:
    """What a server gets of a conversation, in one form for all APIs."""

    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Of replies without calls."""


def said_of(api: str, request: dict[str, Any]) -> Said:
    read = {"openai": _said_in_chat, "anthropic": _said_in_messages, "responses": _said_in_items}
    return read[api](request)


def _said_in_chat(request: dict[str, Any]) -> Said:
    said = Said()
    for message in request["messages"]:
        made = message.get("tool_calls", ())
        for call in made:
            function = call["function"]
            said.calls.append((call["id"], function["name"], function["arguments"]))
        if message["role"] == "tool":
            said.answered.append(message["tool_call_id"])
        if message["role"] == "assistant" and not made:
            said.texts.append(message["content"])
    return said


def _said_in_items(request: dict[str, Any]) -> Said:
    said = Said()
    for item in request["input"]:
        if item.get("type") == "function_call":
            said.calls.append((item["call_id"], item["name"], item["arguments"]))
        elif item.get("type") == "function_call_output":
            said.answered.append(item["call_id"])
        elif item.get("role") == "assistant":
            content = item["content"]
            parts = content if isinstance(content, list) else [{"text": content}]
            said.texts.extend(part["text"] for part in parts)
    return said


def _said_in_messages(request: dict[str, Any]) -> Said:
    said = Said()
    for turn in request["messages"]:
        for block in turn["content"]:
            if block["type"] == "tool_use":
                said.calls.append((block["id"], block["name"], json.dumps(block["input"])))
            if block["type"] == "tool_result":
                said.answered.append(block["tool_use_id"])
            if block["type"] == "text" and turn["role"] == "assistant":
                said.texts.append(block["text"])
    return said


def strict(api: str, request: dict[str, Any]) -> str | None:
    """What the strictest of the servers refuses, but for the form of ids."""
    said = said_of(api, request)
    ids = [call_id for call_id, _, _ in said.calls]
    if len(set(ids)) < len(ids):
        return "tool call ids must be unique"
    if sorted(ids) != sorted(said.answered):
        return "each call must be answered once"
    if not all(text and text.strip() for text in said.texts):
        return "the message with role 'assistant' must not be empty"
    wrong = [problem for call in said.calls if (problem := _wrong_call(*call))]
    return wrong[0] if wrong else None


def _wrong_call(call_id: str, name: str, arguments: str) -> str | None:
    if not 1 <= len(call_id) <= 40:
        return "Invalid id: string too long. Expected a string with maximum length 40"
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_-]{0,63}", name):
        return f"Invalid name: {name!r} does not match pattern"
    try:
        decoded = json.loads(arguments, parse_constant=float.fromhex)
    except ValueError:
        return "the arguments are not JSON"
    return None if isinstance(decoded, dict) else "the arguments are no object"


def nine_characters(api: str, request: dict[str, Any]) -> str | None:
    """What Mistral's servers refuse."""
    ids = [call_id for call_id, _, _ in said_of(api, request).calls]
    if all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in ids):
        return None
    return f"Tool call id was {ids[0]} but must be a-z, A-Z, 0-9, with a length of 9."


def saying(api: str, text: str | None, *calls: Call, **more: Any) -> Answer:
    """A reply; `more` are further fields of its message (chat)."""
    if api == "openai":
        made = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
        message: dict[str, Any] = {"role": "assistant", "content": text, **more}
        message |= {"tool_calls": made} if made else {}
        return whole(choices=[{"message": message, "finish_reason": "stop"}])
    if api == "anthropic":
        blocks: list[Any] = [] if text is None else [{"type": "text", "text": text}]
        for call_id, name, arguments in calls:
            block = {"type": "tool_use", "id": call_id, "name": name}
            blocks.append({**block, "input": _decoded(arguments)})
        return whole(content=blocks)
    items: list[Any] = []
    if text is not None:
        part = {"type": "output_text", "text": text}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    for call_id, name, arguments in calls:
        item = {"type": "function_call", "call_id": call_id, "name": name}
        items.append({**item, "arguments": arguments})
    return whole(output=items)


def _decoded(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def whole(**body: Any) -> Answer:
    """A response with this body."""
    return Answer(body=json.dumps({"model": "large", **body}))
