"""Rules from text, like `every 2 weeks on mon, wed until 2024-05-01`."""

from __future__ import annotations

import re
from datetime import date

from .rules import Rule

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PATTERN = re.compile(
    r"every (?:(?P<every>\d+) )?(?P<unit>day|week|month)s?"
    r"(?: on (?P<on>[a-z]{3}(?:, ?[a-z]{3})*))?"
    r"(?: (?P<times>\d+) times)?"
    r"(?: until (?P<until>\d{4}-\d\d-\d\d))?"
)


def parse_rule(text: str) -> Rule:
    """The rule that a text describes. Raises ValueError."""
    match = PATTERN.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"not a rule: {text!r}")
    names = re.findall(r"\w+", match["on"] or "")
    unknown = sorted(set(names) - set(WEEKDAYS))
    if unknown or (names and match["unit"] != "week"):
        raise ValueError(f"no weekdays for every {match['unit']}: {unknown or names}")
    return Rule(
        match["unit"],
        every=int(match["every"] or 1),
        weekdays=tuple(map(WEEKDAYS.index, names)),
        times=int(match["times"]) if match["times"] else None,
        until=date.fromisoformat(match["until"]) if match["until"] else None,
    )
