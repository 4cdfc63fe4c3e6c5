"""Compare the debugger with a plain trace of the same programs, and print one table.

    python -m benchmarks.truth [--language python] [--version 3.12 ...] [--program withs ...]

A breakpoint is set on each line. How often it is hit, the order of the stops and the values at each
must be those of a plain trace by the same interpreter. Exit code 1: some are not; each is listed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.truth import python
from benchmarks.truth.comparison import Row

COLUMNS = (
    *("runtime", "programs", "statements", "lines", "wrong hits"),
    *("stops", "wrong order", "wrong values"),
)


LANGUAGES: Mapping[str, Callable[[Sequence[str], Sequence[str]], Iterator[Row]]] = {
    "python": python.measure,
}
"""What compares a language's programs, given versions and names of programs; none: all."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--language", choices=LANGUAGES, help="default: all")
    parser.add_argument("--version", nargs="*", default=(), help="of the language; default: all")
    parser.add_argument("--program", nargs="*", default=(), help="by name; default: all")
    options = parser.parse_args()
    languages = [options.language] if options.language else LANGUAGES
    rows = [
        found
        for language in languages
        for found in LANGUAGES[language](options.version, options.program)
    ]
    Console(width=200).print(table(rows))
    for found in rows:
        for problem in found.problems:
            print(f"{found.runtime}: {problem}")
    sys.exit(any(found.problems for found in rows))


def table(rows: Iterable[Row]) -> Table:
    shown = Table(box=MARKDOWN)
    for name in COLUMNS:
        shown.add_column(name, justify="left" if name == "runtime" else "right")
    for found in rows:
        counts = (
            *(found.programs, found.statements, found.lines, found.wrong_hits),
            *(found.stops, found.wrong_stops, found.wrong_values),
        )
        shown.add_row(found.runtime, *map(str, counts))
    return shown


if __name__ == "__main__":
    main()
