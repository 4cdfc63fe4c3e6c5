"""Verifications as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from collect.benchmarks.marks import Verification

LISTED = 60
"""Bugs of which all are listed; of more only those with something wrong."""


def verification_table(verifications: Sequence[Verification]) -> Table:
    """One line a bug, and the count of those that are well."""
    well = sum(verification.ok for verification in verifications)
    table = Table(
        title=f"{well} of {len(verifications)} instances are as they claim",
        caption=", ".join(f"{count} {mark}" for mark, count in mark_counts(verifications).items()),
    )
    for column in ("instance", "repository"):
        table.add_column(column, overflow="fold")
    for column in ("before (s)", "after (s)"):
        table.add_column(column, justify="right")
    for column in ("marks", "problems"):
        table.add_column(column, overflow="fold")
    for done in verifications:
        if len(verifications) <= LISTED or not done.ok:
            seconds = (f"{done.seconds_before:.1f}", f"{done.seconds_after:.1f}")
            marks = ", ".join(done.marks) or "not verified"
            table.add_row(done.instance_id, done.repository, *seconds, marks, _remarks(done))
    return table


def mark_counts(verifications: Sequence[Verification]) -> dict[str, int]:
    """How many bugs have each mark, the most frequent first; a bug can have several."""
    counts = Counter(
        mark for each in verifications for mark in map(str, each.marks or ["not verified"])
    )
    return dict(counts.most_common())


def _remarks(verification: Verification) -> str:
    return "\n".join(filter(None, [*verification.problems, verification.note])) or "-"
