"""Who copies a run to a store: one driver at a time, as an object there says."""

from __future__ import annotations

import os
import platform
import threading
from contextlib import suppress
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.copying.folder import Folder
from collect.errors import ConfigError
from sandbox.leftovers import owner_is_dead, owner_tag

NAME = ".owner.json"
BEAT_SECONDS = 20.0
SILENT_SECONDS = 120.0
"""An owner that says nothing for so long has died."""
SETTLE_SECONDS = 1.0
"""In which of two that start at once the second has written its name over the first's."""


class Owner(BaseModel):
    """A driver."""

    model_config = ConfigDict(frozen=True)

    token: str
    """No other start has it."""
    host: str
    process: int
    tag: str
    """Of the process, see `sandbox.owners`: hosts may share a name, and processes a number."""

    @classmethod
    def here(cls) -> Owner:
        """This process."""
        host, process = platform.node(), os.getpid()
        return cls(token=uuid4().hex, host=host, process=process, tag=owner_tag())

    def died(self, here: Owner) -> bool:
        """Whether it is known to have, of a process of this machine; a second of one process is
        there only once the first has ended."""
        return self.tag == here.tag or owner_is_dead(self.tag) is True


class Ownership:
    """Keeps the object fresh, from a thread of its own, and notices where it is taken away."""

    def __init__(self, copy: Folder, every: float = BEAT_SECONDS) -> None:
        self._copy, self._here, self._every = copy, Owner.here(), every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="copy-owner", daemon=True)
        self._other: Owner | None = None

    def take(self, now_ns: int) -> None:
        """Become the owner; `now_ns` is the time by the clock of the store.

        Raises ConfigError where another driver is, and OSError.
        """
        owner, stamp = self._read(), self._copy.stamp(NAME)
        if owner is not None and stamp is not None and not owner.died(self._here):
            silent = (now_ns - stamp.changed_ns) / 1e9
            if silent < SILENT_SECONDS:
                raise ConfigError(
                    f"{_told(owner)} copies its rollouts to {self._copy.name}, last heard of "
                    f"{max(silent, 0):.0f} seconds ago: stop it, or choose another `run` name; if "
                    f"it has died, start again in {SILENT_SECONDS - silent:.0f} seconds"
                )
        self._write()
        self._ended.wait(SETTLE_SECONDS)
        self._look()
        self.check()
        self._thread.start()

    def check(self) -> None:
        """Raises ConfigError where another driver has taken over."""
        if self._other is not None:
            raise ConfigError(
                f"{_told(self._other)} has taken {self._copy.name} over, as this one was not heard "
                f"of for {SILENT_SECONDS:.0f} seconds, or started at the same time; its rollouts "
                "count. Leave them to it, or stop it and start again"
            )

    def give_back(self) -> None:
        """Let another driver be the owner. What can't be removed now is taken over later."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(Exception):
            self._look()
            if self._other is None:
                self._copy.remove(NAME)

    def _beat_on(self) -> None:
        while self._other is None and not self._ended.wait(self._every):
            # Whatever it is: another driver takes over from a thread that has ended.
            with suppress(Exception):
                self._look()
                if self._other is None:
                    self._write()

    def _look(self) -> None:
        owner = self._read()
        if owner is not None and owner.token != self._here.token:
            self._other = owner

    def _write(self) -> None:
        self._copy.write(NAME, self._here.model_dump_json(indent=2).encode())

    def _read(self) -> Owner | None:
        text = self._copy.read(NAME)
        try:
            return Owner.model_validate_json(text) if text is not None else None
        except ValidationError:
            return None


def _told(owner: Owner) -> str:
    return f"another driver (process {owner.process} on {owner.host})"
