"""What pytest's output says of one test."""

from __future__ import annotations

import re

SECTION = re.compile(r"^_{3,} (?:ERROR at \w+ of |ERROR collecting )?(.+?) _{3,}$", re.MULTILINE)
SUMMARY = re.compile(
    r"^=+ (?:short test summary info|warnings summary|\d+ \w+.*) =+$", re.MULTILINE
)


def section_of(test: str, output: str) -> str:
    """What pytest's output says of one test, by its node id, or of its whole file; all of it where
    there is no such part."""
    name = test.partition("::")[2].replace("::", ".")
    pieces = SECTION.split(output)
    for title, text in zip(pieces[1::2], pieces[2::2], strict=True):
        if title in (name, test.partition("::")[0]):
            return SUMMARY.split(text)[0].strip("\n")
    return output.strip()
