"""A patch's lines, each with what it is."""

from __future__ import annotations

from dataclasses import dataclass

MOST_LINES = 3_000
"""Of one patch in a page; the Parquet files have the whole."""
HEADS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "# ")
KINDS = {"+": "added", "-": "removed", "@": "hunk"}


@dataclass(frozen=True)
class PatchLine:
    """One line of a unified diff."""

    text: str
    kind: str
    """added, removed, hunk, head or same; the class of its line."""


@dataclass(frozen=True)
class PatchView:
    """A patch as a page shows it."""

    lines: tuple[PatchLine, ...]
    left_out: int
    """Lines that the page does not have."""
    added: int
    removed: int


def patch_view(patch: str) -> PatchView:
    """The lines of a unified diff."""
    lines = patch.rstrip("\n").split("\n") if patch.strip() else []
    told = [PatchLine(line, _kind(line)) for line in lines]
    kinds = [line.kind for line in told]
    shown = tuple(told[:MOST_LINES])
    return PatchView(shown, len(told) - len(shown), kinds.count("added"), kinds.count("removed"))


def _kind(line: str) -> str:
    if line.startswith(HEADS):
        return "head"
    return KINDS.get(line[:1], "same")
