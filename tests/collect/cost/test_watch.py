"""What a run is estimated to cost, and who is asked above a limit: against a real endpoint."""

from __future__ import annotations

import sys
from pathlib import Path

import pexpect
import pytest

from collect.rollouts.cost import ACCEPTED
from collect.store.run_store import RunStore
from configs.command_line.shared import STOPPED
from stepinto import main
from tests.collect.models.chat_server import ChatServer, collect_from, error, reply

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "debug2fix.yaml"
EACH = "models.frontier.prices={input: 10000}"
"""A dollar a rollout, of 100 prompt tokens."""
LIMIT = "runner.ask_above_dollars=4"


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


def test_the_whole_run_is_estimated(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(server, tmp_path) == (0, 6)
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "whole run" in each]
    assert line.startswith(
        "the whole run: about $6.00 ($6.00 to $6.00 at 95% confidence) and 720 tokens, "
    )
    assert line.endswith("left at the present rate; by the first 3 of 6 rollouts")


def test_a_budget_that_will_not_do_is_told(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collect(server, tmp_path, "runner.budget_dollars=5")
    assert "of 6 rollouts; runner.budget_dollars=5 ends it before" in capsys.readouterr().err


def test_without_a_terminal_a_run_above_its_limit_stops(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(server, tmp_path, LIMIT) == (STOPPED, 3)
    assert (
        "about $6.00 for the whole run is above runner.ask_above_dollars=4: set a higher one to "
        "go on, or give --yes"
    ) in capsys.readouterr().err
    assert collect(server, tmp_path, LIMIT) == (STOPPED, 3)
    assert len(server.requests) == 3, "a second start asks before it spends"
    assert collect(server, tmp_path, "runner.ask_above_dollars=7") == (0, 6)


def test_no_rollout_is_begun_beyond_what_the_estimate_is_made_from(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(server, tmp_path, LIMIT, "runner.concurrency=6") == (STOPPED, 3)
    assert len(server.requests) == 3
    assert "by the first 3 of 6 rollouts" in capsys.readouterr().err
    assert collect(server, tmp_path, "runner.ask_above_dollars=7", "runner.concurrency=6") == (0, 6)


def test_what_fails_is_made_up_for_in_the_estimate(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(error(500, "down"), reply())
    settings = (LIMIT, "runner.concurrency=6", "runner.again=0")
    assert collect(server, tmp_path, *settings) == (STOPPED, 4)
    few = ("runner.estimate_after=6", "runner.ask_above_dollars=7")
    server.will_answer(error(500, "down"), reply())
    assert collect(server, tmp_path / "few", *few, "runner.concurrency=6") == (0, 6)


def test_yes_goes_on_and_is_remembered_until_costs_have_grown_by_half(
    server: ChatServer, tmp_path: Path
) -> None:
    limit = "collect.benchmark.limit=9"
    assert collect(server, tmp_path, LIMIT, "runner.budget_dollars=5", "--yes") == (STOPPED, 6)
    assert len(server.requests) == 5, "the budget holds all the same"
    assert float((tmp_path / "test" / ACCEPTED).read_text()) == pytest.approx(6)
    assert "confirmed" not in (tmp_path / "test" / "config.yaml").read_text()
    assert collect(server, tmp_path, LIMIT) == (0, 6)
    assert collect(server, tmp_path, LIMIT, limit) == (0, 9)
    assert collect(server, tmp_path, LIMIT, "collect.benchmark.limit=10") == (STOPPED, 9)


@pytest.mark.parametrize(("answer", "status", "rows"), [("y", 0, 6), ("", STOPPED, 3)])
def test_at_a_terminal_it_is_asked(
    server: ChatServer, tmp_path: Path, answer: str, status: int, rows: int
) -> None:
    terminal = started(command(server, tmp_path, LIMIT))
    terminal.expect(r"the whole run: about \$6.00", timeout=60)
    terminal.expect(r"runner.ask_above_dollars=4; go on\? \[y/N\] ", timeout=10)
    assert len(server.requests) == 3, "the next is held back"
    terminal.sendline(answer)
    terminal.expect(pexpect.EOF, timeout=60)
    terminal.close()
    assert terminal.exitstatus == status
    assert len(list(RunStore(tmp_path / "test").read_rollouts())) == rows


def test_a_question_can_be_left_with_ctrl_c(server: ChatServer, tmp_path: Path) -> None:
    terminal = started(command(server, tmp_path, LIMIT))
    terminal.expect(r"go on\? \[y/N\] ", timeout=60)
    terminal.sendintr()
    terminal.expect("stopped before the end; the same command goes on", timeout=30)
    terminal.expect(pexpect.EOF, timeout=30)
    terminal.close()
    assert terminal.exitstatus == STOPPED


def started(arguments: list[str]) -> pexpect.spawn[str]:
    return pexpect.spawn(
        sys.executable, ["-m", "stepinto", *arguments], cwd=str(ROOT), encoding="utf-8"
    )


def test_a_limit_that_nothing_counts_against_is_refused(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(server, tmp_path, LIMIT, "models.frontier.prices={}") == (2, 0)
    assert "runner.ask_above_dollars is set, but no model has prices" in capsys.readouterr().err


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
