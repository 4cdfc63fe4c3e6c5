"""A real HTTP server that speaks chat completions, and misbehaves when it is told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "debug2fix.yaml"


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False
    """Close the connection instead."""
    hold: bool = False
    """Answer only once the server is released."""
    slowly: bool = False
    """Send the body byte by byte, twenty a second, or until the server is released."""


class ChatServer:
    """Answers requests with the queued answers first, then always with the last."""

    def __init__(self, port: int = 0) -> None:
        """0: a free port."""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.cookies: list[str | None] = []
        self.after_a_call: Answer | None = None
        """Answers requests that end with what a tool said, in place of the queued answers."""
        self.most_at_once = 0
        self.arrived = threading.Semaphore(0)
        """Released once for each request."""
        self.released = threading.Event()
        """Ends every `hold`."""
        self._at_once = 0
        self._answers: deque[Answer] = deque([reply()])
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True

    def will_answer(self, *answers: Answer) -> None:
        """Queue answers; the last one stays."""
        self._answers = deque(answers)

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._http.shutdown()
            self._http.server_close()

    def handle(self, request: dict[str, Any], key: str | None) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            answer = self._next(request)
        self.arrived.release()
        if answer.hold:
            self.released.wait(300)
        with self._lock:
            self._at_once -= 1
        return answer

    def _next(self, request: dict[str, Any]) -> Answer:
        if self.after_a_call is not None and request["messages"][-1]["role"] == "tool":
            return self.after_a_call
        return self._answers[0] if len(self._answers) == 1 else self._answers.popleft()


def frontier_at(server: ChatServer) -> list[str]:
    """Overrides for rollouts that ask it, and nothing before them, with no subagent."""
    return [
        f"models.frontier.base_url={server.url}",
        "models.frontier.api_key_env=null",
        "models.frontier.check_tools=false",
        "models.frontier.retries={max_retries: 0, outage_wait: 0}",
        "collect.variants=[baseline]",
        "agents.main_max_reminders=0",
    ]


def collect_from(server: ChatServer, folder: Path, *overrides: str) -> list[str]:
    """The command for such rollouts, one after the other, in `folder/test`."""
    first = ("collect", str(CONFIG), f"runs_folder={folder}", "run=test")
    return [*first, *frontier_at(server), "runner.concurrency=1", *overrides]


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.cookies.append(self.headers["Cookie"])
            answer = server.handle(json.loads(body), self.headers["Authorization"])
            if answer.drop:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Type" not in answer.headers:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.body.encode())))
            self.end_headers()
            with suppress(ConnectionError):  # the client timed out, which is what is tested
                for piece in _pieces(answer):
                    self.wfile.write(piece)
                    if answer.slowly and server.released.wait(0.05):
                        return

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Tests read their own output."""

    return Handler


def _pieces(answer: Answer) -> list[bytes]:
    body = answer.body.encode()
    return [bytes([byte]) for byte in body] if answer.slowly else [body]


def reply(
    content: str | None = "Hello.",
    *,
    tool_calls: list[dict[str, Any]] | None = None,
    finish_reason: str = "stop",
    usage: dict[str, Any] | None = None,
    hold: bool = False,
    tokens: tuple[list[int], list[int], list[float]] | None = None,
    **extra: Any,
) -> Answer:
    """A chat completion; `extra` are further fields of its message. `tokens`: what vLLM adds when
    asked, the prompt's ids, the reply's, and their log-probabilities.
    """
    message = {"role": "assistant", "content": content, **extra}
    if tool_calls:
        message["tool_calls"] = tool_calls
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish_reason}
    counted = usage or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    body: dict[str, Any] = {"id": "x", "object": "chat.completion", "choices": [choice]}
    body["usage"] = counted
    if tokens:
        body["prompt_token_ids"], choice["token_ids"], logprobs = tokens
        sampled = [{"token": "?", "logprob": each, "top_logprobs": []} for each in logprobs]
        choice["logprobs"] = {"content": sampled}
    return Answer(body=json.dumps(body), hold=hold)


def error(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """An error in OpenAI's form; header names with underscores for hyphens."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}})
    return Answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})
