"""Saves outcomes as they come, so that a killed run can resume."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from collect.errors import ConfigError
from collect.store.atomic_files import locked, replacing, write_text

Outcome = TypeVar("Outcome", bound=BaseModel)


class WorkFile(Generic[Outcome]):
    """The outcomes so far, one per line, after a line with the settings. Thread-safe."""

    def __init__(
        self,
        output: Path,
        settings: str,
        kind: type[Outcome],
        key: Callable[[Outcome], str],
        advice: str,
    ) -> None:
        """`settings` is a hash of everything that decides the outcomes, `advice` says what it
        covers.

        Raises ConfigError if the file belongs to a run with other settings, or another process
        writes it.
        """
        name = output.name.removesuffix(".jsonl")
        self._path = output.with_name(f"{name}.work.jsonl")
        self._lock_path = output.with_name(f".{name}.lock")
        self._held = locked(self._lock_path)
        self._key = key
        self._lock = threading.Lock()
        self.outcomes: dict[str, Outcome] = {}
        heading = json.dumps({"settings": settings})
        if not self._path.is_file():
            write_text(self._path, f"{heading}\n")
            return
        first, *lines = self._path.read_bytes().split(b"\n")
        if first != heading.encode():
            raise ConfigError(f"{self._path} is of a run with {advice}")
        kept = [first]
        for line in lines:
            try:
                outcome = kind.model_validate_json(line)
            except ValidationError:
                # The last line of a run that was killed while writing, possibly cut within a
                # character.
                continue
            self.outcomes[key(outcome)] = outcome
            kept.append(line)
        with replacing(self._path) as temporary:
            temporary.write_bytes(b"\n".join([*kept, b""]))

    def add(self, outcome: Outcome) -> None:
        """Append one outcome."""
        with self._lock:
            self.outcomes[self._key(outcome)] = outcome
            with self._path.open("a", encoding="utf-8") as file:
                file.write(outcome.model_dump_json() + "\n")

    def remove(self) -> None:
        """Remove the file once the finished file contains everything."""
        self._path.unlink()
        self._lock_path.unlink()
        self._held.close()
