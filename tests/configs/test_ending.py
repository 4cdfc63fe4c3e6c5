"""What a command says at its end, and its exit status."""

from __future__ import annotations

import pytest

from configs.command_line.shared import FAILED, STOPPED, STOPPED_EARLY
from configs.command_line.stages import asked_status

LOST = "EndpointDown: lost"
SPENT = "BudgetExhausted: the budget is spent"


@pytest.mark.parametrize(
    ("reasons", "stopped", "status", "told"),
    [
        ((), True, STOPPED, [STOPPED_EARLY]),
        ((SPENT,), True, STOPPED, ["the budget is spent"]),
        ((LOST, SPENT), True, STOPPED, ["failed: EndpointDown: lost", "the budget is spent"]),
        ((LOST,), True, FAILED, ["failed: EndpointDown: lost", "5 left; the same command goes on"]),
        (
            (LOST,),
            False,
            FAILED,
            ["failed: EndpointDown: lost", "5 left; the same command goes on"],
        ),
    ],
)
def test_a_spent_budget_is_told_also_beside_failures(
    reasons: tuple[str, ...],
    stopped: bool,
    status: int,
    told: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asked_status(5, "5 left", reasons, stopped) == status
    assert capsys.readouterr().err.splitlines() == [f"stepinto: {line}" for line in told]
