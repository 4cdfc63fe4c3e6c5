"""Measurements to run by hand: `python -m benchmarks.NAME`."""

from __future__ import annotations

import argparse


def add_sections(parser: argparse.ArgumentParser, sections: tuple[str, ...]) -> None:
    """Add an argument that chooses sections; `sections` is empty if none is named.

    With `choices` CPython 3.11 refuses an empty list.
    """

    def section(name: str) -> str:
        if name not in sections:
            raise argparse.ArgumentTypeError(f"{name!r} is none of: {', '.join(sections)}")
        return name

    text = f"of {', '.join(sections)}; default: all"
    parser.add_argument("sections", nargs="*", type=section, metavar="SECTION", help=text)
