"""What a folder of bugs was made of, as tables."""

from __future__ import annotations

from rich.table import Table

from collect.factory.records import Card


def projects_table(card: Card) -> Table:
    """One line a project; a refused one says why."""
    table = Table(title="projects")
    table.add_column("project", overflow="fold")
    for column in ("tests", "edits", "reached", "tried", "bugs", "minutes"):
        table.add_column(column, justify="right")
    table.add_column("remarks", overflow="fold")
    for project in card.projects:
        counts = (project.tests, project.edits_found, project.edits_reached, project.edits_tried)
        table.add_row(
            f"{project.name} {project.version}",
            *map(str, (*counts, project.bugs)),
            f"{project.seconds / 60:.1f}",
            "\n".join([*_first_line(project.refused), *project.notes]),
        )
    return table


def _first_line(refused: str | None) -> list[str]:
    """Of the reason, which the card has in full."""
    return [refused.splitlines()[0]] if refused else []
