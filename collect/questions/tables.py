"""What the commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from collect.quantities import counted
from collect.questions.answered import Answered
from collect.questions.records import Card, Category, Drop

SHORT = {
    Drop.UNREADABLE: "not comparable",
    Drop.NONDETERMINISTIC: "nondeterministic",
    Drop.ON_SOURCE: "readable off the source",
    Drop.DUPLICATE: "duplicate",
    Drop.UNBALANCED: "unbalanced",
    Drop.LIMIT: "over limit",
}


def funnel_table(card: Card) -> Table:
    """One line a category: what could be asked, what was dropped why, and what is left."""
    bugs = counted(card.instances, "bug")
    table = Table(title=f"{counted(card.questions, 'question')} about {bugs}")
    table.add_column("category", no_wrap=True)
    table.add_column("asked", justify="right")
    table.add_column("dropped as")
    table.add_column("questions", justify="right")
    for category, counts in card.categories.items():
        dropped = [f"{SHORT[why]} {count}" for why, count in counts.dropped.items() if count]
        row = (str(counts.asked), ", ".join(dropped) or "-", str(counts.questions))
        table.add_row(category, *row)
    return table


def score_table(answered: Sequence[Answered], by: str) -> Table:
    """Accuracy by category and overall, and why the wrong answers are wrong."""
    right = sum(each.verdict.correct for each in answered)
    table = Table(title=f"{by}: {right} of {len(answered)} right ({_share(right, len(answered))})")
    table.add_column("category", no_wrap=True)
    for column in ("questions", "right", "accuracy", "facts", "steps"):
        table.add_column(column, justify="right")
    table.add_column("wrong because", overflow="fold")
    for category in Category:
        group = [each for each in answered if each.question.category is category]
        if group:
            table.add_row(category, *_cells(group))
    table.add_row("all", *_cells(answered), style="bold")
    return table


def _cells(group: Sequence[Answered]) -> list[str]:
    right = sum(each.verdict.correct for each in group)
    facts = sum(each.verdict.share for each in group) / max(len(group), 1)
    steps = sum(each.steps for each in group) / max(len(group), 1)
    reasons = Counter(each.verdict.reason for each in group if not each.verdict.correct)
    return [
        str(len(group)),
        str(right),
        _share(right, len(group)),
        f"{facts:.0%}",
        f"{steps:.1f}",
        ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "-",
    ]


def _share(right: int, total: int) -> str:
    return f"{right / total:.1%}" if total else "-"
