"""Checks what the oracle says of place and value against the buggy and the fixed run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from collect.comparison import IDENTITY, Comparison, Visit
from collect.questions.claims import places, same_file, visits
from collect.questions.comparing import same_text
from collect.store.records import DebugAnswer

BEFORE = r"(?:^|; |, | where )"
"""What precedes the name of a value."""
VALUE_END = re.compile(r"  \(|; |\.$|\. ", re.MULTILINE)
CUT = "..."
SOURCE = re.compile(r"`[^`]*`")
"""Quoted code, in which `total = 3` is no value seen."""


def false_claims(answer: DebugAnswer, comparison: Comparison) -> list[str]:
    """What the answer says of the place, the visit and the values and is not so. What the runs
    don't show is not counted, nor anything if it is not known where the bug goes wrong.
    """
    visit = comparison.visit
    if visit is None:
        return []
    return [
        *_wrong_places(answer, comparison, visit),
        *_wrong_visits(answer, visit),
        *_wrong_values(answer, comparison, visit),
    ]


def _wrong_places(answer: DebugAnswer, comparison: Comparison, visit: Visit) -> Iterator[str]:
    spans = [(each.changed.start, each.changed.end) for each in comparison.faults]
    spans.append((visit.line, visit.line))
    for file, line, _ in places(answer.location):
        if not (same_file(file, visit.file) and any(a <= line <= b for a, b in spans)):
            yield f"it goes wrong at {visit.place}, not at {file}:{line}"


def _wrong_visits(answer: DebugAnswer, visit: Visit) -> Iterator[str]:
    for number in visits(answer.answer):
        if number != visit.hit:
            yield f"{visit.place} goes wrong on visit {visit.hit}, not {number}"


def _wrong_values(answer: DebugAnswer, comparison: Comparison, visit: Visit) -> Iterator[str]:
    name = visit.function.rpartition(".")[2]
    returned = {name: comparison.returned} if comparison.returned is not None else {}
    for text in (answer.answer, answer.evidence):
        shown = IDENTITY.sub("", SOURCE.sub("", text))
        yield from _unlike(shown, visit.values, " = ")
        yield from _unlike(shown, returned, " returned ")


def _unlike(text: str, values: Mapping[str, str], equals: str) -> Iterator[str]:
    for name, value in values.items():
        for found in re.finditer(f"{BEFORE}{re.escape(name)}{equals}", text):
            told = text[found.end() :]
            whole = VALUE_END.split(told, maxsplit=1)[0]
            is_start = CUT in told and value.startswith(told.partition(CUT)[0].rstrip())
            if not (told.startswith(value) or same_text(whole, value) or is_start):
                yield f"{name}{equals}{value[:200]}, not {whole[:200]}"
