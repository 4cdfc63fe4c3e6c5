"""Texts by name in a file, so that two can be put together that lie far apart in a run."""

from __future__ import annotations

import json
from typing import IO, Any


class Spool:
    """Takes JSON objects by name, and gives them back in any order."""

    def __init__(self, file: IO[bytes]) -> None:
        """`file` is empty, and open for writing and reading."""
        self._file = file
        self._places: dict[str, int] = {}

    def put(self, name: str, value: dict[str, Any]) -> None:
        """Keep an object."""
        self._places[name] = self._file.seek(0, 2)
        self._file.write(json.dumps(value).encode() + b"\n")

    def get(self, name: str) -> dict[str, Any]:
        """An object that was kept. Raises KeyError."""
        self._file.seek(self._places[name])
        value: dict[str, Any] = json.loads(self._file.readline())
        return value
