"""The progress display, as lines and as the live view."""

from __future__ import annotations

import errno
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from collect.errors import FailureKind
from collect.quantities import counted, dollars, duration, tokens
from collect.rollouts import progress as progress_module
from collect.rollouts.progress import Progress, ProgressBar
from tests.records import make_failed_rollout, make_rollout


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain_console() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=40)


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_one_line_a_finished_rollout() -> None:
    console, clock = plain_console(), Clock()
    with Progress(7, 2, console=console, clock=clock) as progress:
        rollouts = [make_rollout(f"ledger-{n}", resolved=n != 1) for n in range(2)]
        failed = make_failed_rollout(FailureKind.INFRASTRUCTURE, "ledger-2", dollars=0.0)
        for rollout in [*rollouts, failed]:
            progress.started(rollout.rollout_id)
        for rollout in [*rollouts, failed]:
            clock.now += 60
            progress.finished(rollout)
    assert lines(console) == [
        "3/7 resolved 1 (100%) running 2 tokens 14.9k $0.0400 left 4m"
        " | ledger-0 debug2fix: resolved",
        "4/7 resolved 1 (50%) running 1 tokens 29.8k $0.0800 left 3m"
        " | ledger-1 debug2fix: not resolved",
        "5/7 resolved 1 (50%) failed infrastructure 1 running 0 tokens 44.7k $0.0800 left 2m"
        " | ledger-2 debug2fix: failed (infrastructure, SandboxDead)",
        "ledger-2: SandboxDead: the sandbox was killed: out of memory",
        "5/7 resolved 1 (50%) failed infrastructure 1 tokens 44.7k $0.0800 in 3m",
    ]


def test_how_the_infrastructure_fails_is_told_at_the_first_of_a_kind() -> None:
    console = plain_console()
    dead = make_failed_rollout()
    trace = 'Traceback (most recent call last):\n  File "x"\nKeyError: 3\n'
    defect = make_failed_rollout(failure_type="KeyError", failure_message=trace)
    with Progress(5, console=console, clock=Clock()) as progress:
        for rollout in (make_failed_rollout(FailureKind.MODEL), dead, defect, dead, defect):
            progress.finished(rollout)
    told = [line for line in lines(console) if "resolved" not in line]
    assert told == [
        "ledger-cache-1: SandboxDead: the sandbox was killed: out of memory",
        "ledger-cache-1: KeyError: 3",
    ]


def test_a_model_failure_counts_as_not_resolved() -> None:
    console = plain_console()
    with Progress(2, console=console, clock=Clock()) as progress:
        progress.finished(make_rollout("ledger-1"))
        progress.finished(make_failed_rollout(FailureKind.MODEL, "ledger-2"))
    assert lines(console)[-1].startswith("2/2 resolved 1 (50%) failed model 1 ")


def test_tampered_verdicts_are_told() -> None:
    with Progress(2, console=plain_console(), clock=Clock()) as progress:
        progress.finished(make_rollout(resolved=False, tampered="a test that must fail passes"))
    assert progress.numbers().startswith("1/2 resolved 0 (0%) tampered 1 running 0 ")


def test_a_stopped_rollout_runs_no_more_and_is_not_done() -> None:
    console = plain_console()
    with Progress(2, console=console, clock=Clock()) as progress:
        progress.started("a")
        progress.started("b")
        progress.stopped("a")
        progress.finished(make_rollout("ledger-1", rollout_id="b"))
    assert lines(console)[0].startswith("1/2 resolved 1 (100%) running 0 ")


def test_the_summary_is_printed_when_the_run_fails() -> None:
    console = plain_console()
    progress = Progress(2, console=console, clock=Clock())
    with pytest.raises(KeyboardInterrupt), progress:
        raise KeyboardInterrupt
    assert lines(console) == ["0/2 resolved 0 tokens 0 $0.00 in 0s"]


def log_lines(path: Path, *events: dict[str, object]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in events)


def test_a_running_rollout_says_its_step_and_what_it_waits_for(tmp_path: Path) -> None:
    console, clock, path = plain_console(), Clock(), tmp_path / "a.jsonl"
    used = {"prompt_tokens": 900, "completion_tokens": 100, "dollars": 0.25, "max_steps": 8}
    log_lines(path, {"event": "replied", "role": "main", "step": 6, "call": None, **used})
    with Progress(2, console=console, clock=clock) as progress:
        progress.started("a", "cart-1 debug2fix big → small", path)

        def told(*events: dict[str, object]) -> str:
            log_lines(path, *events)
            clock.now += 1
            ((label, _),) = progress.running()
            return label.removeprefix("cart-1 debug2fix big → small: ")

        assert told({"event": "begun"}) == "waits for sandbox", "the earlier start's line is none"
        assert told({"event": "sandbox_opened"}) == "waits for model"
        replied = {"event": "replied", "role": "main", "step": 2, "call": "bash", **used}
        assert told(replied) == "main step 3 of 8, waits for sandbox"
        assert "tokens 1.0k $0.2500" in progress.numbers()
        asked = told(replied | {"step": 3, "call": "debug_subagent"})
        assert asked == "main step 4 of 8, waits for model"
        sub = replied | {"role": "debug_subagent", "step": 0, "call": "debug_control"}
        assert told(sub) == "debug_subagent step 1 of 8, waits for debugger"
        stopped = told({"event": "tool_called", "name": "debug_control", "stopped_at": "cart.py:4"})
        assert stopped == "debug_subagent step 1 of 8, waits for model, stopped at cart.py:4"
        ended = told({"event": "debug_ended"}, replied | {"step": 4, "call": None})
        assert ended == "main step 5 of 8, waits for tests"
        progress.tell_running()
        assert not lines(console), "a second ago"
        clock.now += 60
        progress.tell_running()
        row = make_rollout("cart-1", rollout_id="a")
        progress.finished(row)
        used_by_row = f"tokens {tokens(row.tokens)} "
    silent, finished, _ = lines(console)
    assert silent.endswith("debug2fix big → small: main step 5 of 8, waits for tests, 1m")
    assert used_by_row in finished, "and not what its log said too"
    assert finished.endswith("| cart-1 debug2fix big → small: resolved")


class GoneTerminal(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "the terminal is gone")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_is_gone_ends_no_rollout(terminal: bool) -> None:
    console = Console(file=GoneTerminal(), force_terminal=terminal)
    progress = Progress(2, console=console)
    progress.finished(make_rollout())
    progress.tell("an estimate")
    progress.__exit__(None, None, None)
    assert progress.done == 1


def test_the_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "LISTED", 2)
    console = Console(record=True, file=io.StringIO(), force_terminal=True, width=100)
    clock = Clock()
    with Progress(12, 2, console=console, clock=clock) as progress:
        for name in ("oldest", "older", "newest [b]"):
            progress.started(name, f"rollout {name}")
            clock.now += 5
        progress.finished(make_rollout(rollout_id="older"))
        progress.started("last")
        clock.now += 50
        console.print(progress.render())
    text = console.export_text()
    assert "3/12 resolved 1 (100%) running 3 tokens 14.9k $0.0400 left 10m" in text
    assert "elapsed 1m" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("  ")]
    assert ["rollout", "oldest", "1m"] in rows
    assert ["rollout", "newest", "[b]", "55s"] in rows
    assert ["and", "1", "more"] in rows
    assert text.splitlines()[-1].startswith("3/12 resolved 1 (100%) tokens")


def test_many_threads_at_once() -> None:
    console = plain_console()
    with Progress(200, console=console) as progress, ThreadPoolExecutor(8) as pool:

        def one(number: int) -> None:
            rollout = make_rollout(f"ledger-{number}")
            progress.started(rollout.rollout_id)
            progress.finished(rollout)

        list(pool.map(one, range(200)))
    assert [line.split("/")[0] for line in lines(console)[:-1]] == [str(n + 1) for n in range(200)]
    assert lines(console)[-1].startswith("200/200 resolved 200 (100%)")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (59.4, "59s"),
        (59.6, "1m"),
        (3570, "1h00m"),
        (7500, "2h05m"),
        (190_000, "2d04h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999.4, "999"),
        (999.5, "1.0k"),
        (15_240, "15.2k"),
        (99_950, "100k"),
        (347_400, "347k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (1_549_999, "1.55M"),
        (23_456_789, "23.46M"),
    ],
)
def test_tokens(count: float, text: str) -> None:
    assert tokens(count) == text


def test_dollars() -> None:
    assert [dollars(x) for x in (0, 0.0004, 0.25, 1, 12.345)] == [
        *("$0.00", "$0.0004", "$0.2500", "$1.00", "$12.35"),
    ]


def test_plurals() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,200 rows",
    ]


def test_a_bar_is_drawn_now_and_then_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "EVERY", 0.01)
    console, clock = Console(file=io.StringIO(), force_terminal=False, width=80), Clock()
    with ProgressBar("questions", 40, 10, console=console, clock=clock) as bar:
        for _ in range(3):
            clock.now += 25
            bar.advance()
        while not any("13/40" in line for line in lines(console)):
            time.sleep(0.01)
        clock.now += 27 * 25
        for _ in range(27):
            bar.advance()
    told = lines(console)
    assert {line.split()[0] for line in told} == {"questions"}
    assert any(line.endswith("32% 0:11:15 13/40 0:01:15") for line in told)
    assert told[-1].endswith("100% 0:00:00 40/40 0:12:30")


def test_a_bar_of_parts_is_hidden_until_their_number_is_known() -> None:
    console, clock = Console(file=io.StringIO(), force_terminal=False, width=80), Clock()
    with ProgressBar("steps", None, console=console, clock=clock):
        pass
    assert "steps" not in "".join(lines(console))
    with ProgressBar("steps", None, console=console, clock=clock) as bar:
        for done in (4, 4.25, 4.5):
            bar.reach(done, 8)
            clock.now += 60
    assert lines(console)[-1].endswith("56% 0:14:00 4/8 0:03:00")


def test_a_bar_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    with ProgressBar("questions", 2, console=console) as bar:
        bar.advance()
        bar.advance()
    assert "100%" in "".join(lines(console))
