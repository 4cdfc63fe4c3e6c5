"""A hub on this machine: as much of its protocol as an upload of a dataset needs."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

TOKEN = "hf_of_a_test"


@dataclass
class Hub:
    """What was made there."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """The files of each, by path."""
    private: dict[str, bool] = field(default_factory=dict)
    url: str = ""

    def commit(self, repository: str, lines: list[dict[str, Any]]) -> None:
        """Carry out a commit's operations."""
        files = self.repositories[repository]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                assert value["encoding"] == "base64"
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub while the block runs."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[Hub]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._answer(200, {"files": files})
        elif "/commit/" in path:
            name = path.removeprefix("/api/datasets/").partition("/commit/")[0]
            self.hub.commit(name, [json.loads(line) for line in body.splitlines()])
            url = f"{self.hub.url}/datasets/{name}/commit/{'0' * 40}"
            self._answer(200, {"success": True, "commitOid": "0" * 40, "commitUrl": url})
        else:
            self._answer(404, {"error": f"no such thing: POST {path}"})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = "/".join(path.removeprefix("/api/datasets/").split("/")[:2])
        if name not in self.hub.repositories:
            self._answer(404, {"error": f"no such thing: GET {path}"})
        elif "/tree/" in path:
            files = self.hub.repositories[name]
            self._answer(
                200,
                [
                    {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
                    for path, content in files.items()
                ],
            )
        else:
            self._answer(200, {"id": name, "sha": "0" * 40, "siblings": []})

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        assert asked["type"] == "dataset"
        known = name in self.hub.repositories
        self.hub.repositories.setdefault(name, {})
        self.hub.private.setdefault(name, asked.get("visibility") == "private")
        url = f"{self.hub.url}/datasets/{name}"
        self._answer(409 if known else 200, {"id": name, "url": url})

    def _answer(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""
