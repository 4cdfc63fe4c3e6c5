"""A registry of this machine for a real engine: it serves small images, and refuses when told to.

An engine asks those of 127.0.0.0/8 without TLS.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
REPOSITORY = "stepinto-test-registry"
SIZE = 2_000_000
"""Bytes of each image."""


class Registry:
    """Has an image under every tag but `missing`."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        """How often, by tag."""
        self.limited = 0
        """So many more requests are answered with "too many requests"."""
        self.broken = 0
        """So many more layers come damaged, which an engine notices at their end."""
        self.holding = threading.Event()
        """Answers only once it is set."""
        self.holding.set()
        self._blobs: dict[str, bytes] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def repository(self) -> str:
        return f"127.0.0.1:{self._http.server_port}/{REPOSITORY}"

    def image(self, tag: str) -> str:
        return f"{self.repository}:{tag}"

    @contextmanager
    def running(self) -> Iterator[Registry]:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield self
        finally:
            self.holding.set()
            self._http.shutdown()
            self._http.server_close()

    def manifest(self, tag: str) -> bytes:
        """By tag or digest."""
        if tag in self._blobs:
            return self._blobs[tag]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            entry = tarfile.TarInfo(f"data-{tag}")
            entry.size = SIZE
            archive.addfile(entry, io.BytesIO(bytes(SIZE)))
        layer = buffer.getvalue()
        rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
        facts = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}
        config = json.dumps(facts).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._add(CONFIG, config),
            "layers": [self._add(LAYER, gzip.compress(layer, 1, mtime=0))],
        }
        data = json.dumps(manifest).encode()
        self._add(MANIFEST, data)
        return data

    def blob(self, digest: str) -> bytes:
        return self._blobs[digest]

    def _add(self, kind: str, data: bytes) -> dict[str, Any]:
        self._blobs[_digest(data)] = data
        return {"mediaType": kind, "size": len(data), "digest": _digest(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, _, name = self.path.rpartition("/")
            if kind.endswith("/manifests"):
                self._manifest(name)
            elif kind.endswith("/blobs"):
                self._blob(name)
            else:
                self._answer(200, "application/json", b"{}")

        def do_HEAD(self) -> None:
            self.do_GET()

        def _manifest(self, tag: str) -> None:
            registry.holding.wait()
            registry.asked[tag] += self.command == "GET"
            if registry.limited:
                registry.limited -= 1
                self._refuse(429, "TOOMANYREQUESTS", "You have reached your pull rate limit.")
            elif tag == "missing":
                self._refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
            else:
                self._answer(200, MANIFEST, registry.manifest(tag))

        def _blob(self, digest: str) -> None:
            data = registry.blob(digest)
            if registry.broken and b"rootfs" not in data:
                registry.broken -= 1
                data = bytes(len(data))
            self._answer(200, "application/octet-stream", data)

        def _refuse(self, status: int, code: str, message: str) -> None:
            told = {"errors": [{"code": code, "message": message}]}
            self._answer(status, "application/json", json.dumps(told).encode())

        def _answer(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Docker-Content-Digest", _digest(data))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    return Handler
