"""What the commands print."""

from __future__ import annotations

from rich.table import Table

from collect.questions.records import Card, Drop

SHORT = {
    Drop.UNREADABLE: "not comparable",
    Drop.NONDETERMINISTIC: "nondeterministic",
    Drop.ON_SOURCE: "readable off source",
    Drop.DUPLICATE: "duplicate",
    Drop.LIMIT: "over limit",
}


def funnel_table(card: Card) -> Table:
    """One line a category: what could be asked, what was dropped why, and what is left."""
    table = Table(title=f"{card.questions} questions about {card.instances} bugs")
    table.add_column("category", overflow="fold")
    for column in ("asked", *SHORT.values(), "questions"):
        table.add_column(column, justify="right")
    for category, counts in card.categories.items():
        dropped = [str(counts.dropped.get(why, 0)) for why in SHORT]
        table.add_row(category, str(counts.asked), *dropped, str(counts.questions))
    return table
