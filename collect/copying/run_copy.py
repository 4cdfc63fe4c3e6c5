"""The copy of a run that is kept up to date while a command works on the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from collect.config import RunnerConfig
from collect.console import tell
from collect.copying.fetching import refuse_part_of_run, restore
from collect.copying.folder import Folder
from collect.copying.lineage import leave_mark
from collect.copying.owner import Ownership
from collect.copying.transfer import Changed, Transfer
from collect.errors import ConfigError

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
LAST_TRIES = 3
"""At the end, before what is not copied is given up."""
HOLD_SECONDS = 0.5
TOLD_AFTER = 10
"""Tries in a row that the run folder had changed under."""
PASSING = (Changed, FileNotFoundError)
"""Failures of a folder that is worked in, which the next try mostly does not meet."""


class RunCopy:
    """Copies a run folder from a thread of its own."""

    def __init__(self, config: RunnerConfig, copy: Folder, run: Path) -> None:
        self._config, self._copy, self._run = config, copy, run
        self._owner = Ownership(copy)
        self._transfer: Transfer | None = None
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._copy_on, name="run-copy", daemon=True)
        self._copied_at = time.monotonic()
        self._failure: Exception | None = None

    def open(self) -> None:
        """Restore the run where it is not on this machine, and begin to copy.

        Raises ConfigError where the store can't be used, or another driver uses it.
        """
        now_ns = self._copy.probed()
        try:
            self._owner.take(now_ns)
            if restore(self._copy, self._run):
                tell(f"{self._run} was fetched from {self._copy.name}")
            leave_mark(self._copy, self._run)
            self._begin()
        except OSError as error:
            self._owner.give_back()
            raise ConfigError(f"{self._copy.name} can't be used: {error}; try again") from error
        except BaseException:
            self._owner.give_back()
            raise

    def hold(self, stop: threading.Event) -> None:
        """Wait while the copy is too far behind. Raises ConfigError where it was taken over."""
        self._owner.check()
        while self.behind > self._config.copy_behind and not stop.wait(HOLD_SECONDS):
            self._owner.check()

    @property
    def behind(self) -> float:
        """Seconds since the copy was all that the folder was."""
        return time.monotonic() - self._copied_at

    def up_to_date(self) -> bool:
        """Copy what is left, and try so a few times; whether it is all there."""
        for number in range(LAST_TRIES):
            if self._bring():
                return True
            if number + 1 < LAST_TRIES:
                time.sleep(FIRST_WAIT * 2**number)
        return False

    def close(self) -> str | None:
        """Copy what is left, and let another driver have it; what is missing there, if anything."""
        self._ended.set()
        self._thread.join()
        try:
            return None if self.up_to_date() else self._missing()
        except ConfigError as error:
            return str(error)
        finally:
            self._owner.give_back()

    def _begin(self) -> None:
        self._transfer = Transfer(Folder.local(self._run), self._copy)
        self._transfer.trust()
        self._thread.start()

    def _copy_on(self) -> None:
        failed, wait = 0, self._config.copy_every
        while not self._ended.wait(wait):
            try:
                failed = 0 if self._bring() else failed + 1
            except ConfigError:  # which `hold` raises
                return
            if failed == TOLD_AFTER and isinstance(self._failure, PASSING):
                tell(
                    f"{self._copy.name} can't be brought up to date: {self._failure}; the run goes "
                    "on, and it is tried again"
                )
            longest = min(FIRST_WAIT * 2.0 ** min(failed, 10), LONGEST_WAIT)
            wait = longest if failed else self._config.copy_every

    def _bring(self) -> bool:
        """Copy what there is; whether all of it. Raises ConfigError where it was taken over."""
        assert self._transfer is not None, "opened before"
        with self._lock:
            self._owner.check()
            began = time.monotonic()
            try:
                self._transfer.run()
            except PASSING as error:
                self._failure = self._failure or error
                return False
            except Exception as error:  # `hold` would wait for ever if this thread ended by it
                if self._failure is None or isinstance(self._failure, PASSING):
                    tell(
                        f"{self._copy.name} can't be written now: {_said(error)}; the run goes on, "
                        "and it is tried again"
                    )
                self._failure = error
                return False
            self._copied_at, self._failure = began, None
            return True

    def _missing(self) -> str:
        assert self._transfer is not None, "opened before"
        assert self._failure is not None, "tried before"
        try:
            files = f"{self._transfer.missing()} files"
        except Exception:  # what fails may be the listing of the folder
            files = "Files"
        return (
            f"{files} of {self._run} are not in {self._copy.name}: {_said(self._failure)}; they "
            "are safe on this machine alone, and the same command copies them when it is started "
            "again"
        )


_copy: ContextVar[RunCopy | None] = ContextVar("copy", default=None)


def copy_of_this_run() -> RunCopy | None:
    """The copy that the command which is under way keeps; None where it keeps none."""
    return _copy.get()


@contextmanager
def copying(config: RunnerConfig, run: Path) -> Iterator[list[str]]:
    """Keep the copy that the config wants meanwhile; at the end the list says what is missing.

    Raises ConfigError before any work where the store can't be used.
    """
    missing: list[str] = []
    if config.copy_to is None:
        refuse_part_of_run(run)
        yield missing
        return
    copy = RunCopy(config, Folder.at(config.copy_to).below(run.name), run)
    copy.open()
    token = _copy.set(copy)
    try:
        yield missing
    finally:
        _copy.reset(token)
        left = copy.close()
        if left is not None:
            missing.append(left)
            tell(left)


def _said(error: Exception) -> str:
    """Its message, with its kind where that is none which the message explains."""
    plain = isinstance(error, (Changed, OSError))
    return str(error) if plain else f"{type(error).__name__}: {error}"
