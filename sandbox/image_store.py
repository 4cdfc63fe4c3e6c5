"""Which images StepInto has pulled, when each was used last, and which are held: small files."""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable

STATE = "images.json"
HOLDS = "images"
"""The folder with a file for each image that was ever held."""
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
    """The state file, and beside it the holds. Safe for several threads and processes."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / STATE

    def read(self) -> dict[str, PulledImage]:
        """By name; empty where nothing was pulled yet."""
        if not self.path.is_file():
            return {}
        images = json.loads(self.path.read_text(encoding="utf-8"))
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
        """Keep an image from being evicted meanwhile, by any process."""
        with ExitStack() as held:
            # Without a home to write to, no image is known as pulled, and none is evicted.
            with suppress(OSError):
                file = held.enter_context(self._hold_file(name).open("w"))
                fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextmanager
    def if_free(self, name: str) -> Iterator[bool]:
        """Whether nobody holds an image; if so, nobody can meanwhile."""
        with self._hold_file(name).open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
            except BlockingIOError:
                free = False
            yield free

    def _hold_file(self, name: str) -> Path:
        folder = self.path.parent / HOLDS
        folder.mkdir(parents=True, exist_ok=True)
        return folder / hashlib.sha256(name.encode()).hexdigest()[:16]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, PulledImage]]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                images = self.read()
                yield images
                new = self.path.with_suffix(".new")
                facts = {name: vars(image) for name, image in images.items()}
                new.write_text(json.dumps(facts, indent=1), encoding="utf-8")
                new.rename(self.path)
        except OSError as error:
            raise SandboxUnavailable(
                f"which images were fetched can't be noted in {self.path}: {error}; set "
                "XDG_CACHE_HOME to a folder that can be written to"
            ) from error


def note_use(image: str) -> None:
    """Note that a sandbox is opened with an image."""
    ImageStore().note_use(image)
