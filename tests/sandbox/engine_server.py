"""A container engine that answers that it lives, and to all else as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = {"ApiVersion": "1.41", "Version": "20.10.24"}


class EngineServer:
    """At a port of this machine."""

    def __init__(self) -> None:
        self.status: int | None = 500
        """Of each answer; None: the connection is closed instead."""
        self.facts: dict[str, Any] | None = None
        """What an answer of status 200 holds, in the place of a message."""
        self.message = "containerd: connection refused"
        self.asked: list[str] = []
        """The paths, but for those of the liveness."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def answer(self) -> dict[str, Any]:
        return {"message": self.message} if self.facts is None else self.facts

    @property
    def host(self) -> str:
        """For DOCKER_HOST."""
        return f"tcp://127.0.0.1:{self._http.server_port}"

    @contextmanager
    def running(self) -> Iterator[EngineServer]:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()


def _handler(engine: EngineServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/version":
                self._answer(200, json.dumps(VERSION))
            elif self.path.endswith("/_ping"):
                self._answer(200, "OK")
            else:
                engine.asked.append(self.path)
                if engine.status is not None:
                    self._answer(engine.status, json.dumps(engine.answer))

        def do_POST(self) -> None:
            self.do_GET()

        def do_DELETE(self) -> None:
            self.do_GET()

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    return Handler
