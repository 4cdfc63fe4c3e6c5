"""The rows that the filters let through, in a file of their own until it is known where they go.

The mixture and the splits take facts of all rows; these are small, and held. The rows are not.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from format.dataset import SplitWriter, read_rows, split_file
from format.mixture import Chances, Facets, MixtureConfig, MixtureShare, mixed, shares

NAME = "kept"


class KeptRows:
    """Rows in the order in which they came; each is read once more, when all are there."""

    def __init__(self, folder: Path, mixture: MixtureConfig) -> None:
        """Hold the rows in a folder below this one, until `remove`."""
        self._folder, self._mixture = folder / NAME, mixture
        self._writer = SplitWriter(self._folder, NAME)
        self._chances = Chances(mixture.seed)
        self._known: dict[Facets, Facets] = {}
        self._characters = array("L")
        self.facets: list[Facets] = []
        """Of each row."""

    def __len__(self) -> int:
        return len(self.facets)

    def add(self, row: dict[str, Any], characters: int) -> None:
        """Take one more; `characters` are those of its messages and tools."""
        facets = Facets.of(row)
        self.facets.append(self._known.setdefault(facets, facets))
        self._characters.append(characters)
        self._chances.add(row["conversation_id"])
        self._writer.add(row)

    def mixed(self) -> bytearray:
        """For each row 1 where the mixture has it, else 0."""
        return mixed(self._mixture, self.facets, self._chances)

    def shares(self, kept: bytearray) -> list[MixtureShare]:
        """What the mixture has left."""
        return shares(self._mixture, self.facets, kept)

    def rows(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The rows, JSON columns as texts, and how many characters each has."""
        self._writer.close()
        stored = read_rows(split_file(self._folder, NAME), decoded=False)
        yield from zip(stored, self._characters, strict=True)

    def remove(self) -> None:
        """Remove the file."""
        shutil.rmtree(self._folder, ignore_errors=True)
