"""The scripted oracle as a server of OpenAI's chat completions, for the bundled bugs.

    python -m tests.chaos.oracle_server PORT

It can be killed at any time: which bug a conversation is about is read off its messages, and where
another server began it, its script is driven again up to where it is. A text counts as a quarter
as many tokens as it has characters.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.models.base import ConversationContext, Model, ModelBackend, Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.oracle.candidates import gold_candidate
from collect.store.messages import Message, ToolCall, to_openai
from collect.store.records import Role

CHARACTERS_PER_TOKEN = 4
QUESTION = "Question: "
"""How the task of a Debug Subagent begins."""


class OracleReplies:
    """What the oracle says next in a conversation."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._instances = instances
        self._backend: ModelBackend = OracleBackend("oracle", OracleConfig(backend="oracle"))
        self._held: dict[str, Model] = {}
        """The models of open conversations, by all that was said in them."""
        self._lock = threading.Lock()

    def reply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The chat completion for a request. Raises ValueError for a bug that is not known."""
        messages = [_read(plain) for plain in request["messages"]]
        tools = request.get("tools", [])
        model = self._model(request, messages)
        completion = model.complete(messages, tools, Sampling())
        with self._lock:
            if completion.message.tool_calls:
                self._held[_said([*messages, completion.message])] = model
        read, written = len(json.dumps(request)), len(json.dumps(to_openai(completion.message)))
        usage = {
            "prompt_tokens": read // CHARACTERS_PER_TOKEN,
            "completion_tokens": written // CHARACTERS_PER_TOKEN,
        }
        choice = {
            "index": 0,
            "message": to_openai(completion.message),
            "finish_reason": completion.finish_reason,
        }
        return {"id": "oracle", "object": "chat.completion", "choices": [choice], "usage": usage}

    def _model(self, request: Mapping[str, Any], messages: Sequence[Message]) -> Model:
        replies = [place for place, each in enumerate(messages) if each.role == "assistant"]
        if replies:
            with self._lock:
                held = self._held.pop(_said(messages[: replies[-1] + 1]), None)
            if held is not None:
                return held
        model = self._backend.open(self._context(request, messages))
        for place in replies:
            model.complete(messages[:place], request.get("tools", []), Sampling())
        return model

    def _context(
        self, request: Mapping[str, Any], messages: Sequence[Message]
    ) -> ConversationContext:
        task = next(each.content for each in messages if each.role == "user")
        debugs = task.startswith(QUESTION)
        found = [each for each in self._instances if _is_about(task, each, debugs)]
        if len(found) != 1:
            raise ValueError(f"{len(found)} bundled bugs fit this task: {task}")
        return ConversationContext(
            instance=found[0],
            variant=_variant({tool["function"]["name"] for tool in request.get("tools", [])}),
            attempt=request.get("seed") or 0,
            role=Role.DEBUG_SUBAGENT if debugs else Role.MAIN,
            index=int(debugs),
        )


def _is_about(task: str, instance: Instance, debugs: bool) -> bool:
    """A subagent is asked about candidates, one of which is the gold patch."""
    if not debugs:
        return instance.problem_statement.strip() in task
    named = any(f"Test: {test}" in task for test in instance.fail_to_pass)
    return named and gold_candidate(instance).place in task


def _variant(tools: set[str]) -> str:
    if "debug_subagent" in tools:
        return "debug2fix"
    return "debug_tools_only" if "debug_start_session" in tools else "baseline"


def _read(plain: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in plain.get("tool_calls") or ()
    )
    content = plain.get("content") or ""
    return Message(plain["role"], content, tool_calls=calls, tool_call_id=plain.get("tool_call_id"))


def _said(messages: Sequence[Message]) -> str:
    return json.dumps([to_openai(message) for message in messages])


def _handler(replies: OracleReplies) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, replies.reply(request)
            except ValueError as error:
                status, answer = 400, {"error": {"message": str(error)}}
            body = json.dumps(answer).encode()
            with suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing is said of single requests."""

    return Handler


def main() -> None:
    replies = OracleReplies(tuple(BundledBenchmark().instances()))
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _handler(replies))
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
