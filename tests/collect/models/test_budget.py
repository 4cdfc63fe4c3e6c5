"""What a run may spend, in all of its folders."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from collect.errors import BudgetExhausted
from collect.models.budget import SPENT, Budget, MachineTime, read_spent, spent_elsewhere

PARTS = {"": 1.0, "eval": 2.0, "eval/questions": 4.0}
"""Of a run, and the dollars in each."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for part, spent in PARTS.items():
        folder = tmp_path / "first" / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SPENT).write_text(f"{spent}\n")
    (tmp_path / "first" / "config.yaml").touch()
    other = tmp_path / "second"
    other.mkdir()
    (other / SPENT).write_text("100.0\n")
    return tmp_path / "first"


@pytest.mark.parametrize(("part", "elsewhere"), [("", 6.0), ("eval", 5.0), ("eval/questions", 3.0)])
def test_all_folders_of_a_run_share_its_budget(run: Path, part: str, elsewhere: float) -> None:
    folder = run / part
    assert spent_elsewhere(folder) == elsewhere
    budget = Budget(8.0, read_spent(folder), folder)
    budget.check()
    budget.add(1.0)
    with pytest.raises(BudgetExhausted, match=r"the budget of \$8\.00 is spent \(\$8\.00\)"):
        budget.check()
    budget.note()
    assert read_spent(folder) == PARTS[part] + 1.0, "each notes its own"
    assert spent_elsewhere(folder) == elsewhere


def test_a_relative_folder_is_the_same(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    assert spent_elsewhere(Path("eval")) == 5.0
    assert spent_elsewhere(Path()) == 6.0


def test_a_run_may_be_called_as_a_part(tmp_path: Path) -> None:
    (tmp_path / "eval" / "eval").mkdir(parents=True)
    (tmp_path / "eval" / "config.yaml").touch()
    (tmp_path / "eval" / "eval" / SPENT).write_text("5.0\n")
    assert spent_elsewhere(tmp_path / "eval") == 5.0


def test_the_rounds_of_a_run_share_its_budget(run: Path) -> None:
    for number, spent in ((1, 10.0), (2, 20.0)):
        folder = run / f"round-{number}"
        folder.mkdir()
        (folder / "config.yaml").touch()
        (folder / SPENT).write_text(f"{spent}\n")
    assert spent_elsewhere(run / "round-1") == 7.0 + 20.0
    assert spent_elsewhere(run / "eval") == 5.0 + 30.0


def test_requests_share_the_time_of_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone for 4 seconds, two for 6, the other alone for 1; nobody for 100."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    machine = MachineTime()
    now = 100.0
    first = machine.begin()
    now = 104.0
    second = machine.begin()
    now = 110.0
    assert machine.end(first) == pytest.approx(4 + 3)
    now = 111.0
    assert machine.end(second) == pytest.approx(3 + 1)
