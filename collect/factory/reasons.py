"""Why tests failed, in a form that is equal for the same failure of the same program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Also what pytest leaves of one where it shortens a line.
_ADDRESS = re.compile(r"(?:0[xX]|\.\.\.x?)[0-9a-fA-F]{5,}")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")


@dataclass(frozen=True)
class Reason:
    """The failure of one test."""

    type: str
    """The exception's class, without its module."""
    message: str
    """As pytest shows it, without addresses."""
    place: str
    """Where it was raised: path and line."""


def read_reasons(reports: Sequence[Mapping[str, object]]) -> dict[str, Reason]:
    """The first failure of each failing test, from what `pytest_report` writes."""
    reasons: dict[str, Reason] = {}
    for report in reports:
        test = str(report["nodeid"])
        if report["outcome"] == "failed" and test not in reasons:
            reasons[test] = _reason(report.get("crash"))
    return reasons


def _reason(crash: object) -> Reason:
    if not isinstance(crash, dict):
        return Reason("Exception", "", "")
    message = _ADDRESS.sub("0x...", str(crash["message"]))
    if message.startswith("RecursionError"):
        # Where the stack ends depends on what else is on it.
        return Reason("RecursionError", "maximum recursion depth exceeded", "")
    named = _EXCEPTION.match(message)
    # pytest leaves the name out of a failed assertion.
    kind = named[1] if named and not message.startswith("assert ") else "AssertionError"
    return Reason(kind.rpartition(".")[2], message, f"{crash['path']}:{crash['line']}")
