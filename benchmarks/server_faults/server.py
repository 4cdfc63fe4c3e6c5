"""A server that speaks all three APIs and has the faults. It is started like `vllm serve`.

A conversation's first message names its fault and its backend.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.server_faults.apis import APIS, Api, Call, Plain, Request, Said
from benchmarks.server_faults.faults import FAULTS, Broken, Exchange, Fault, Refused

TASK = re.compile(r"fault (\d+) of (\w+)")
CHECK = Said(calls=(Call("total", "call_0", "evaluate", '{"expression": "total"}'),))
"""The reply to the question that comes before the conversations."""


class Conversations:
    """How far each conversation is."""

    def __init__(self) -> None:
        self._replies: Counter[str] = Counter()
        self._asked: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def answer(self, api: Api, plain: Plain) -> tuple[int, Plain | str, Mapping[str, str]]:
        """Status, body (text if it is a stream) and headers of the answer to a request."""
        request, prompt = api.read(plain), len(json.dumps(plain)) // 4
        found = TASK.search(json.dumps(plain))
        if found is None:
            said = Said("The total is 3.") if request.results else CHECK
            return 200, api.reply(said, prompt), {}
        fault, backend = FAULTS[int(found[1])], found[2]
        with self._lock:
            answer = self._answer(found[0], fault, backend, api, request)
        if isinstance(answer, Refused):
            return answer.status, answer.body, answer.headers
        said = answer.said if isinstance(answer, Broken) else answer
        if not fault.settings.get("stream"):
            return 200, api.reply(said, prompt), {}
        if not plain.get("stream"):
            return 400, api.error("This model only supports stream mode"), {}
        events = "".join(f"data: {json.dumps(event)}\n\n" for event in api.events(said, prompt))
        end = "data: [DONE]\n\n" if api.name == "chat" else ""
        return 200, events + end, {"Content-Type": "text/event-stream"}

    def _answer(
        self, key: str, fault: Fault, backend: str, api: Api, request: Request
    ) -> Said | Refused | Broken:
        turn = self._replies[key]
        exchange = Exchange(api, backend, request, turn, self._asked[key, turn])
        if request.problem is not None:
            return exchange.refused(400, request.problem)
        answer = fault.answer(exchange)
        self._asked[key, turn] += 1
        if isinstance(answer, Said):
            self._replies[key] += 1
        return answer


def serve(host: str, port: int, model: str) -> ThreadingHTTPServer:
    """The server, not running yet."""
    conversations, apis = Conversations(), {api.path: api for api in APIS}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": model}]}, {})

        def do_POST(self) -> None:
            plain = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(*conversations.answer(apis[self.path], plain))

        def _send(self, status: int, body: Plain | str, headers: Mapping[str, str]) -> None:
            text = body if isinstance(body, str) else json.dumps(body)
            self.send_response_only(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """The table is the output."""

    return ThreadingHTTPServer((host, port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_known_args()[0]
    serve(options.host, options.port, options.served_model_name).serve_forever()


if __name__ == "__main__":
    main()
