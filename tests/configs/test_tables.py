"""Tables in a terminal."""

from __future__ import annotations

import pytest

from configs.command_line.shared import console
from configs.command_line.stages import print_summary

NARROW = "| Arm | Pass % |\n|-----|--------|\n| one | 100.0  |"
WIDE = f"| Arm{' ' * 40} | Pass % |\n|{'-' * 42}|--------|\n| {'name ' * 8}end | 100.0  |"
COLUMNS = [f"column {number}" for number in range(9)]
MANY = "\n".join(f"| {' | '.join(cells)} |" for cells in (COLUMNS, ["---"] * 9, list("abcdefghi")))


@pytest.mark.parametrize(
    ("table", "is_folded", "told"),
    [
        (NARROW, False, NARROW),
        (WIDE, True, "100.0"),
        (MANY, True, "| column 0 | a |"),
    ],
)
def test_wide_tables_are_folded(
    table: str,
    is_folded: bool,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "width", 40)
    text = f"A line of text that is longer than the terminal is wide.\n\n{table}"
    assert print_summary(text) == is_folded
    out = capsys.readouterr().out
    assert out.startswith("A line of text that is longer than the terminal is wide.\n\n")
    assert told in out
    assert all(len(line) <= 40 for line in out.splitlines()[2:])
