"""Files of Maven repositories: fetched by this process, checked, and kept for later builds.

A build in a sandbox reaches nothing but an `ArtifactServer`, which answers only requests to read an
artifact's path. This process alone talks to the repositories, and alone writes to the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from sandbox.environment import cache_folder
from sandbox.java.project_repository import METADATA

if TYPE_CHECKING:
    import requests

TIMEOUT = (10.0, 60.0)
"""Seconds to connect to a repository, and to wait for each part of an answer."""
MEGABYTE = 1024 * 1024
PATH = re.compile(r"(?:[A-Za-z0-9_][\w.+~-]{0,250}/)*[A-Za-z0-9_][\w.+~-]{0,250}", re.ASCII)
"""No segment begins with a dot, so no path leads out of a folder."""
LONGEST_PATH = 1024
LONGEST_CHECKSUM = 1024
"""Bytes that are read of a published checksum."""
MOST_MISSING = 20_000
"""Files that one build may ask for and no repository has."""
MOST_CONNECTIONS = 256
"""Of one build at a time. A thread answers each."""
MOST_REASONS = 10
"""Reasons that are kept of the files that one build was not given."""
CHECKSUMS = ("sha1", "md5", "sha256", "sha512")
"""Kinds of a file's checksum, which are its suffixes too."""


class ArtifactRefused(Exception):
    """A file that is not given; the message says why."""


@dataclass(frozen=True)
class Repository:
    """A Maven repository that the user configured."""

    url: str
    """`https://host/path`, without a slash at the end."""
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    """User and password."""

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        digest = hashlib.sha256(self.url.encode()).hexdigest()[:8]
        return cache_folder() / "artifacts" / f"{urlsplit(self.url).hostname}-{digest}"


class ArtifactStore:
    """The files of some repositories, by their path below a repository. Thread-safe."""

    def __init__(self, repositories: Sequence[Repository], largest: int, most_bytes: int) -> None:
        """Of repositories that have a file, the first decides. `largest` limits the bytes of one
        file, `most_bytes` those of all together."""
        self.repositories, self.largest, self.most_bytes = repositories, largest, most_bytes
        self.given: dict[str, Path] = {}
        """The files that were asked for and are there, by path."""
        self.unreachable: dict[str, str] = {}
        """Why a repository did not answer, by its address."""
        self._down: set[str] = set()
        self._missing: set[str] = set()
        self._bytes = 0
        self._lock = threading.Lock()
        self._own = threading.local()

    def get(self, path: str) -> Path | None:
        """The file with this path; None if no repository has it. Raises ArtifactRefused."""
        if not PATH.fullmatch(path) or len(path) > LONGEST_PATH:
            raise ArtifactRefused(f"{path[:LONGEST_PATH]!r} is not the path of an artifact")
        if path in self.given:
            return self.given[path]
        if path in self._missing:
            return None
        if len(self._missing) >= MOST_MISSING:
            raise ArtifactRefused(
                f"the build asks for more than {MOST_MISSING} files that no repository has"
            )
        self._spend(0)
        for repository in self.repositories:
            file = self._find(repository, path)
            if file is not None:
                self.given[path] = file
                return file
        self._missing.add(path)
        return None

    def _spend(self, size: int) -> None:
        """Count bytes that the build was given. Raises ArtifactRefused if they are too many."""
        with self._lock:
            self._bytes += size
            if self._bytes > self.most_bytes:
                raise ArtifactRefused(
                    f"the build asks for more than {self.most_bytes // MEGABYTE} MB of files"
                )

    def _find(self, repository: Repository, path: str) -> Path | None:
        """One repository's file, which is fetched unless it is in the cache."""
        import requests

        kept = repository.folder / path
        if kept.is_file() and kept.name != METADATA:
            self._spend(kept.stat().st_size)
            return kept
        if repository.url not in self._down:
            try:
                return kept if self._fetch_surely(repository, path, kept) else None
            except requests.RequestException as error:
                self.unreachable[repository.url] = str(error)
                if isinstance(error, requests.ConnectionError | requests.Timeout):
                    # Waiting for each file anew would take hours.
                    self._down.add(repository.url)
            except OSError as error:
                raise ArtifactRefused(f"{path} can't be kept: {error}") from error
        return kept if kept.is_file() else None

    def _fetch_surely(self, repository: Repository, path: str, kept: Path) -> bool:
        """Fetch a file, once more if the connection breaks off; False if the repository lacks it.
        Raises ArtifactRefused, RequestException, OSError."""
        from requests.exceptions import ChunkedEncodingError

        with suppress(ChunkedEncodingError):
            return self._fetch(repository, path, kept)
        return self._fetch(repository, path, kept)

    def _fetch(self, repository: Repository, path: str, kept: Path) -> bool:
        """Fetch and check a file; False if the repository lacks it. Raises ArtifactRefused,
        RequestException, OSError."""
        with self._request(repository, path) as answer:
            if answer is None:
                return False
            kept.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=".tmp-", dir=kept.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    digest = self._copy(answer, file, path)
                if kept.name != METADATA:
                    self._check(repository, path, digest)
                # The sandbox's commands may run as another user.
                os.chmod(name, 0o644)
                os.rename(name, kept)
            finally:
                Path(name).unlink(missing_ok=True)
        return True

    def _copy(self, answer: requests.Response, file: IO[bytes], path: str) -> str:
        """Write an answer's body; returns its SHA-1. Raises ArtifactRefused, RequestException."""
        digest = hashlib.sha1(usedforsecurity=False)
        size = 0
        for chunk in answer.iter_content(MEGABYTE):
            size += len(chunk)
            if size > self.largest:
                raise ArtifactRefused(f"{path} has more than {self.largest // MEGABYTE} MB")
            self._spend(len(chunk))
            digest.update(chunk)
            file.write(chunk)
        return digest.hexdigest()

    def _check(self, repository: Repository, path: str, digest: str) -> None:
        """Compare a file with the checksum that its repository publishes, if there is one. Raises
        ArtifactRefused, RequestException."""
        with self._request(repository, f"{path}.sha1") as answer:
            published = b"" if answer is None else next(answer.iter_content(LONGEST_CHECKSUM), b"")
        words = re.findall(r"\b[0-9a-f]{40}\b", published.decode("ascii", "replace").lower())
        if words and digest not in words:
            raise ArtifactRefused(f"{path} of {repository.url} does not have its checksum")

    @contextmanager
    def _request(self, repository: Repository, path: str) -> Iterator[requests.Response | None]:
        """A repository's answer; None if it has no such file. Raises RequestException."""
        answer = self._session().get(
            f"{repository.url}/{path}",
            auth=repository.credentials,
            headers={"Accept-Encoding": "identity"},
            stream=True,
            timeout=TIMEOUT,
        )
        with answer:
            # Some repositories forbid what they don't have.
            if answer.status_code in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
                yield None
                return
            answer.raise_for_status()
            if urlsplit(answer.url).path.endswith("/"):
                # A page that lists a folder; kept as a file, it would stand in the folder's place.
                yield None
                return
            yield answer

    def _session(self) -> requests.Session:
        """This thread's connections."""
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        session: requests.Session | None = getattr(self._own, "session", None)
        if session is None:
            codes = (429, 500, 502, 503, 504)
            retries = Retry(3, connect=1, backoff_factor=0.5, status_forcelist=codes)
            session = self._own.session = requests.Session()
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retries))
        return session


def is_artifact(path: str) -> bool:
    """Whether a path is `GROUP/ARTIFACT/VERSION/ARTIFACT-VERSION...`, or a list of versions. No
    other file is asked for by a build tool: it may be a folder of the repository."""
    *groups, artifact, version, name = ["", "", *path.split("/")]
    if name == METADATA:
        return True
    # A snapshot's file has its time in the place of the word.
    start = f"{artifact}-{version.removesuffix('SNAPSHOT')}"
    return any(groups) and name.startswith(start) and "." in name.removeprefix(start)


class ArtifactServer(ThreadingMixIn, UnixStreamServer):
    """Gives a store's files over a Unix socket, by HTTP."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, store: ArtifactStore, socket: Path) -> None:
        super().__init__(str(socket), _Handler)
        # Sandboxes run as other users. The token in each path keeps all others out.
        socket.chmod(0o666)
        self.store, self.token = store, secrets.token_hex(16)
        self.refused: dict[str, None] = {}
        """Why files were not given; the first reasons."""
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def note_refusal(self, reason: str) -> None:
        """Keep a reason for the user, of a build that may ask without end."""
        if len(self.refused) < MOST_REASONS:
            self.refused[reason] = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600
    server: ArtifactServer

    def do_GET(self) -> None:
        token, _, path = unquote(self.path.partition("?")[0]).lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        try:
            self._give(path)
        except ArtifactRefused as error:
            self.server.note_refusal(str(error))
            self._refuse(HTTPStatus.FORBIDDEN)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _give(self, path: str) -> None:
        """Raises ArtifactRefused."""
        name, _, suffix = path.rpartition(".")
        kind = suffix if suffix in CHECKSUMS else ""
        wanted = name if kind else path
        if not is_artifact(wanted):
            raise ArtifactRefused(f"{wanted[:LONGEST_PATH]!r} is not the path of an artifact")
        file = self.server.store.get(wanted)
        if file is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        with file.open("rb") as opened:
            if kind:
                self._answer(hashlib.file_digest(opened, kind).hexdigest().encode())
                return
            self._begin(os.fstat(opened.fileno()).st_size)
            if self.command == "GET":
                shutil.copyfileobj(opened, self.wfile)

    def _answer(self, body: bytes) -> None:
        self._begin(len(body))
        if self.command == "GET":
            self.wfile.write(body)

    def _begin(self, length: int) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: a build asks for thousands of files."""

    def handle(self) -> None:
        # A killed build closes its connections.
        with suppress(ConnectionError, TimeoutError):
            super().handle()


@contextmanager
def serving(store: ArtifactStore, socket: Path) -> Iterator[ArtifactServer]:
    """Serve a store's files on a new socket meanwhile."""
    with ArtifactServer(store, socket) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
