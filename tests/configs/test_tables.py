"""Tables in a terminal."""

from __future__ import annotations

from configs.command_line.stages import fitted

TABLE = "| Arm | Pass % | Call % |\n|-----|--------|--------|\n| one | 100.0  | 50.0   |"


def test_tables_are_cut_after_a_column_and_text_is_not() -> None:
    text = f"A long line of text that a terminal wraps.\n\n{TABLE}\n"
    assert fitted(text, 30) == text
    assert fitted(text, 25).splitlines()[0] == text.splitlines()[0]
    assert fitted(TABLE, 20).splitlines() == [
        "| Arm | Pass % |…",
        "|-----|--------|…",
        "| one | 100.0  |…",
    ]
    assert fitted("| a name that is long | 1 |", 10) == "| a name …"
