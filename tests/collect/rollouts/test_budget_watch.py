"""What a run is estimated to cost, and its budget, against a real endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import ChatServer, collect_from, reply

EACH = "models.frontier.prices={input: 10000}"
"""A dollar a rollout, of 100 prompt tokens."""
BUDGET = "runner.budget_dollars=5"


def command(server: ChatServer, folder: Path, *overrides: str) -> list[str]:
    settings = (
        EACH,
        "collect.benchmark.limit=6",
        "runner.budget_dollars=null",
        "runner.estimate_after=3",
    )
    return collect_from(server, folder, *settings, *overrides)


def collect(server: ChatServer, folder: Path, *overrides: str) -> tuple[int, int]:
    """The status, and how many rollouts there are."""
    status = main(command(server, folder, *overrides))
    return status, len(list(RunStore(folder / "test").read_rollouts()))


@pytest.mark.slow
def test_the_whole_run_is_estimated(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(server, tmp_path) == (0, 6)
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "whole run" in each]
    assert line.startswith("the whole run: about $6.00 and 720 tokens, ")
    assert line.endswith("left at the present rate; by the first 3 of 6 rollouts")


@pytest.mark.slow
def test_a_budget_that_will_not_do_is_told(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collect(server, tmp_path, BUDGET)
    assert "of 6 rollouts; runner.budget_dollars=5 ends it before" in capsys.readouterr().err


def test_a_budget_that_nothing_counts_against_is_refused(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(server, tmp_path, BUDGET, "models.frontier.prices={}") == (2, 0)
    assert "runner.budget_dollars is set, but no model has prices" in capsys.readouterr().err


@pytest.mark.slow
def test_variants_are_weighed(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two variants in turn, of which one costs ten times as much."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    server.will_answer(*[reply(), reply(usage=usage)] * 6, reply())
    variants = "collect.variants=[baseline, debug_tools_only]"
    assert collect(server, tmp_path, variants, "runner.estimate_after=4") == (0, 12)
    told = [each for each in capsys.readouterr().err.splitlines() if "whole run" in each]
    assert [line.split()[4] for line in told] == ["$66.00", "$66.00"]
    assert "by the first 4 of 12" in told[0]
    assert "by the first 8 of 12" in told[1]
