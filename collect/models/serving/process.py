"""One start of a server, its output in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from collect.models.serving import guard

GRACE_SECONDS = 15.0
"""From the signal to end until a server is killed."""
TAIL_BYTES = 256 * 1024


class ServerProcess:
    """A running server, which ends with this process, however that ends."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        """Start it. The log is added to. Raises OSError where it can't be written."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._grace = GRACE_SECONDS
        with log.open("ab") as output:
            output.write(f"\n$ {' '.join(command)}\n".encode())
            output.flush()
            self._begins = output.tell()
            self._guard = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(self._grace), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for StepInto, which then stops its servers
            )

    @property
    def pid(self) -> int:
        """The guard's."""
        return self._guard.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._guard.poll()

    def output(self) -> str:
        """The end of what this start has said."""
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._begins, size - TAIL_BYTES))
            return file.read().decode(errors="replace")

    def stop(self) -> None:
        """End it and all that it started. Returns once that is gone."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(timeout=2 * self._grace + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
