"""Which images StepInto has pulled, when each was used last, and which are held: small files.

Each engine has its own, since machines with engines of their own may share a home.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from sandbox.engine import connect
from sandbox.engine_errors import engine_errors
from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable

STATE = "images.json"
"""The file of releases that had one for all engines."""
NOTED_EVERY = 60.0
"""Seconds within which a second use of an image is not noted again."""


@dataclass(frozen=True)
class PulledImage:
    """An image that StepInto has fetched."""

    id: str
    """The engine's id: another one under the same name is not ours."""
    used: float
    """Seconds since the epoch."""


class ImageStore:
    """The state file of an engine, and beside it a folder with a file for each image that was ever
    held. Safe for several threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, PulledImage]:
        """By name; empty where nothing was pulled yet."""
        path = self.path if self.path.is_file() else self.path.with_name(STATE)
        if not path.is_file():
            return {}
        images = json.loads(path.read_text(encoding="utf-8"))
        return {name: PulledImage(**image) for name, image in images.items()}

    def add(self, name: str, image_id: str) -> None:
        """Note an image as pulled, and used, now. Raises SandboxUnavailable."""
        with self._changing() as images:
            images[name] = PulledImage(image_id, time.time())

    def remove(self, name: str) -> None:
        """Forget an image. Raises SandboxUnavailable."""
        with self._changing() as images:
            images.pop(name, None)

    def note_use(self, name: str) -> None:
        """Note that an image is used now, where it is one that StepInto has pulled."""
        # A home that can't be written to must not keep a sandbox from opening.
        with suppress(OSError, SandboxUnavailable):
            known = self.read().get(name)
            if known is not None and time.time() - known.used > NOTED_EVERY:
                with self._changing() as images:
                    if name in images:
                        images[name] = PulledImage(images[name].id, time.time())

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Keep an image from being evicted meanwhile, by any process. Raises SandboxUnavailable."""
        with ExitStack() as held:
            file = None
            # Without a home to write to, no image is known as pulled, and none is evicted.
            with suppress(OSError):
                file = held.enter_context(self._open_hold(name))
            if file is not None:
                with self._noting():
                    fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def if_free(self, name: str) -> Iterator[bool]:
        """Whether nobody holds an image; if so, nobody can meanwhile. Raises SandboxUnavailable."""
        with ExitStack() as held:
            with self._noting():
                file = held.enter_context(self._open_hold(name))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    free = True
                except BlockingIOError:
                    free = False
            yield free

    def _open_hold(self, name: str) -> TextIO:
        folder = self.path.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        # NFS takes shared locks only on what is open for reading, exclusive ones for writing.
        return (folder / _short(name)).open("a+")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, PulledImage]]:
        with self._noting():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                images = self.read()
                yield images
                new = self.path.with_suffix(".new")
                facts = {name: vars(image) for name, image in images.items()}
                new.write_text(json.dumps(facts, indent=1), encoding="utf-8")
                new.rename(self.path)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Raises SandboxUnavailable where the files can't be written or locked."""
        try:
            yield
        except OSError as error:
            raise SandboxUnavailable(
                f"which images were fetched can't be noted in {self.path}: {error}; set "
                "XDG_CACHE_HOME to a folder that can be written to"
            ) from error


def store_here() -> ImageStore:
    """That of the engine which this process uses. Raises SandboxUnavailable, EngineDown."""
    engine = _engine_id(os.environ.get("DOCKER_HOST"))
    return ImageStore(cache_folder() / f"images-{_short(engine)}.json")


@lru_cache
@engine_errors()
def _engine_id(host: str | None) -> str:
    """Its own, of the engine at this DOCKER_HOST."""
    client = connect()
    try:
        return str(client.info()["ID"])
    finally:
        client.close()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
