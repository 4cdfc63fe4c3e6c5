"""A Maven repository of this machine: it serves a folder, with the checksums of its files."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PACKAGED = Path("/usr/share/maven-repo")
"""Debian's packages of Java libraries and Maven plugins."""


class MavenServer:
    """Serves one folder, below `/repository`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        """The paths of all requests, as they came."""
        self.authorizations: set[str] = set()
        """What the requests gave as `Authorization`."""
        self.lies = False
        """Whether the checksums are wrong."""
        self.breaks_off = 0
        """How many of the next answers end before their end."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/repository"

    @contextmanager
    def running(self) -> Iterator[MavenServer]:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str) -> bytes | None:
        """The body for a path below the repository; None if there is no such file."""
        file = self.folder / path.removesuffix(".sha1")
        if not file.is_file():
            return None
        data = file.read_bytes()
        if not path.endswith(".sha1"):
            return data
        return hashlib.sha1(b"other" if self.lies else data).hexdigest().encode()


def _handler(server: MavenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.asked.append(self.path)
            server.authorizations.add(self.headers.get("Authorization", ""))
            path = self.path.removeprefix("/repository/")
            is_folder = (server.folder / path).is_dir()
            if is_folder and not path.endswith("/"):
                self.give(301, b"", Location=f"{self.path}/")
                return
            body = b"<html>a list of files</html>" if is_folder else server.answer(path)
            self.give(404 if body is None else 200, body or b"")

        def give(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if server.breaks_off > 0:
                server.breaks_off -= 1
                self.close_connection = True
                body = body[: len(body) // 2]
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    return Handler
