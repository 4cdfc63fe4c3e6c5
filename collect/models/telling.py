"""What the user is told of models and their servers."""

from __future__ import annotations

from rich.console import Console


def tell(line: str) -> None:
    """A line on standard error."""
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
