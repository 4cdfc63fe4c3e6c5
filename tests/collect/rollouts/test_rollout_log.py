"""What the log of a rollout says: of real sandboxes, debug sessions and an endpoint."""

from __future__ import annotations

import json
import os
import platform
import resource
import signal
import threading
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collect.console import RolloutLog
from collect.store.files import TextFile
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, error, frontier_at, reply

ROOT = Path(__file__).resolve().parents[3]
QUICKSTART = ROOT / "configs" / "quickstart.yaml"
ENDPOINT = ROOT / "configs" / "debug2fix.yaml"
Event = dict[str, Any]


def collect(folder: Path, config: Path, *overrides: str) -> int:
    one = ("run=test", "collect.benchmark.limit=1", "runner.concurrency=1")
    return main(["collect", str(config), f"runs_folder={folder}", *one, *overrides])


def asking(server: ChatServer, folder: Path, *overrides: str) -> int:
    settings = (
        *frontier_at(server),
        "models.frontier.retries={max_retries: 1, backoff_base: 0.01, outage_wait: 0}",
    )
    return collect(folder, ENDPOINT, *settings, *overrides)


def events(folder: Path) -> list[Event]:
    """Of the only rollout."""
    (path,) = (folder / "test" / "logs").iterdir()
    (row,) = RunStore(folder / "test").read_rollouts()
    assert path.name == f"{row.rollout_id}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def bash(script: str) -> Answer:
    call = {"name": "bash", "arguments": json.dumps({"command": script})}
    return reply("Geheim.", tool_calls=[{"id": "c", "function": call}])


@pytest.mark.slow
def test_the_oracle_s_rollout(tmp_path: Path) -> None:
    assert collect(tmp_path, QUICKSTART) == 0
    told = events(tmp_path)
    times = [datetime.fromisoformat(event["time"]) for event in told]
    assert times == sorted(times)
    assert {time.utcoffset() for time in times} == {timedelta(0)}
    begun, opened = told[:2]
    (row,) = RunStore(tmp_path / "test").read_rollouts()
    facts = ("begun", row.instance_id, row.variant, 0, platform.node(), os.getpid())
    named = ("event", "instance", "variant", "attempt", "host", "process")
    assert tuple(begun[name] for name in named) == facts
    assert (opened["event"], opened["backend"]) == ("sandbox_opened", "local")
    count = Counter(event["event"] for event in told)
    assert count["replied"] == row.main_steps + row.sub_steps
    assert count["debug_started"] == count["debug_ended"] == 1
    called = Counter(event["name"] for event in told if event["event"] == "tool_called")
    assert called == Counter(json.loads(row.actions))
    assert [event["event"] for event in told[-2:]] == ["scored", "ended"]
    assert told[-2]["resolved"] is told[-1]["resolved"] is True


def test_replies_retries_and_a_rollout_that_is_done_again(
    server: ChatServer, tmp_path: Path
) -> None:
    busy, down = error(429, "busy"), error(500, "down")
    server.will_answer(busy, bash("ls setup.cfg"), down, down, bash("ls no-such-file"), reply())
    assert asking(server, tmp_path) == 0
    told = events(tmp_path)
    assert [event["event"] for event in told] == [
        *("begun", "sandbox_opened", "retried", "replied", "tool_called", "retried"),
        *("failed", "ended", "begun", "sandbox_opened", "reply_kept", "replied", "tool_called"),
        *("replied", "tool_called", "replied", "scored", "ended"),
    ]
    retried, replied = told[2], told[3]
    assert "429" in retried["why"]
    assert 0 < retried["wait"] <= 0.01
    assert (replied["role"], replied["conversation"], replied["step"]) == ("main", 0, 0)
    assert (replied["prompt_tokens"], replied["completion_tokens"]) == (100, 20)
    assert replied["dollars"] == pytest.approx(100 * 1.25e-6 + 20 * 10e-6)
    assert replied["finish_reason"] == "stop"
    failed = told[6]
    assert (failed["kind"], failed["type"]) == ("infrastructure", "EndpointDown")
    assert "down" in failed["message"]
    assert "Geheim" not in str(told)
    assert "no-such-file" not in str(told)


@pytest.mark.slow
def test_invalid_and_refused_calls(server: ChatServer, tmp_path: Path) -> None:
    calls = [{"id": "c", "function": {"name": "x" * 500, "arguments": "{}"}}]
    edit = {"path": "setup.cfg", "old_string": "a", "new_string": "b"}
    early = [{"id": "d", "function": {"name": "edit_file", "arguments": json.dumps(edit)}}]
    server.will_answer(reply(tool_calls=calls), reply(tool_calls=early), reply())
    assert asking(server, tmp_path, "collect.variants=[debug2fix_tool_limit]") == 0
    called = [event for event in events(tmp_path) if event["event"] == "tool_called"]
    assert [(each["name"], each["outcome"]) for each in called] == [
        ("x" * 80, "invalid"),
        ("edit_file", "refused"),
    ]


def test_a_rollout_that_is_stopped_says_so(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply(hold=True))

    def interrupt() -> None:
        assert server.arrived.acquire(timeout=60)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt, daemon=True).start()
    asking(server, tmp_path)
    (path,) = (tmp_path / "test" / "logs").iterdir()
    told = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert told == ["begun", "sandbox_opened", "stopped"]


@pytest.mark.slow
def test_a_log_that_can_t_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "logs").write_text("not a folder")
    assert collect(tmp_path, QUICKSTART) == 0
    (row,) = RunStore(tmp_path / "test").read_rollouts()
    assert row.resolved


def test_no_half_line_stays_on_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.jsonl"
    TextFile(path).add('{"a": 1}\n')
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12, hard))
    try:
        with pytest.raises(OSError, match="No space left"):
            TextFile(path).add('{"a": 2}\n')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    TextFile(path).add('{"a": 3}\n')
    assert path.read_text() == '{"a": 1}\n{"a": 3}\n'


def test_an_event_is_written_at_once(tmp_path: Path) -> None:
    log = RolloutLog(TextFile(tmp_path / "a.jsonl"))
    log.note("replied", seconds=1 / 3, role=None)
    (line,) = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(line)["seconds"] == 0.333333
    RolloutLog(TextFile(tmp_path / "a.jsonl" / "no-folder")).note("replied")
