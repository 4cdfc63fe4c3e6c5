"""What clients do becomes rollouts that the other stages read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client import Client

from collect.benchmarks.local import LocalBenchmark
from collect.errors import ConfigError
from collect.live.server import LiveServer
from collect.store.records import Role
from collect.store.run_store import RunStore
from configs.command_line.live import _recording, opened
from eval.report.facts import ShownRollout
from stepinto import main, read_arguments
from tests.collect.live.conftest import (
    ANSWER,
    CART,
    TEST,
    asked_of,
    calling,
    said,
    with_client,
)
from tests.collect.live.test_clients import COMMAND, wait_until
from tests.collect.models.chat_server import ChatServer, reply

ROOT = Path(__file__).resolve().parents[3]
CLIENT_INFO = {"name": "killer", "version": "1"}


def recorded(repo: Path, run: Path, *arguments: str) -> LiveServer:
    """A server that records, as the command makes it."""
    options = read_arguments(["mcp", *arguments, "--repo", str(repo), "--record", str(run)])
    config, place = opened(options)
    return LiveServer(place, _recording(options, config, place))


def ended(server: LiveServer) -> None:
    assert server.recording is not None
    server.recording.store.close()


def test_a_session_is_a_rollout_with_its_conversations(
    repo: Path, tmp_path: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(calling("debug_inspect", what="locals"), reply(ANSWER))
    run = tmp_path / "runs" / "live"

    async def work(client: Client) -> None:
        given = {"question": "What is result?", "test": TEST, "path": "shop/cart.py", "lines": [5]}
        assert await said(client, "debug_subagent", **given) == ANSWER
        (repo / "shop/cart.py").write_text(CART.replace("round(result)", "round(result) + 1"))

    live = recorded(repo, run, *asked_of(server), "--model", "scripted", "--test", TEST)
    with_client(live, work)
    ended(live)
    store = RunStore(run)
    (rollout,) = store.read_rollouts()
    assert (rollout.main_model, rollout.sub_model) == ("mcp", "scripted")
    assert (rollout.resolved, rollout.sub_calls, rollout.debug_stops) == (True, 1, 0)
    assert [(each.name, each.before, each.after) for each in rollout.tests] == [
        (TEST, "failed", "passed")
    ]
    assert "+    return round(result) + 1" in rollout.patch
    asking, answering = sorted(store.read_conversations(), key=lambda each: each.index)
    assert (asking.role, answering.role) == (Role.MAIN, Role.DEBUG_SUBAGENT)
    (call,) = asking.calls.values()
    assert json.loads(call.arguments)["lines"] == [5]
    assert answering.parent_call_id == call.id
    assert answering.answer is not None
    assert answering.answer.answer == "33.0"

    assert main(["replay", str(run)]) == 0
    assert "verified" in capsys.readouterr().out
    assert main(["view", str(run)]) == 0
    assert (run / "report" / "index.html").is_file()
    assert main(["format", str(run)]) == 0
    assert "1" in capsys.readouterr().out

    with pytest.raises(ConfigError, match="another config"):
        recorded(repo, run)
    ended(recorded(repo, run, *asked_of(server), "--model", "scripted"))


def test_calls_of_the_debug_tools_are_a_conversation(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "live"
    (repo / "pytest.ini").write_text("[pytest]\naddopts = --pdb\n")

    async def work(client: Client) -> None:
        places = ["shop/cart.py:5"]
        started = await said(client, "debug_start_session", test=TEST, breakpoints=places)
        assert "Not used here, of the" in started
        await said(client, "debug_control", action="continue")

    live = recorded(repo, run)
    with_client(live, work)
    command = [sys.executable, str(ROOT / "stepinto.py"), "mcp", "--repo", str(repo)]
    other = subprocess.run(
        [*command, "--record", str(run)], check=False, capture_output=True, text=True, timeout=120
    )
    assert (other.returncode, "another process is writing" in other.stderr) == (2, True)
    ended(live)
    store = RunStore(run)
    (rollout,) = store.read_rollouts()
    (calls,) = store.read_conversations()
    assert (rollout.resolved, rollout.tests) == (False, ())
    assert ShownRollout("collect", rollout).outcome == "not judged"
    assert [each.name for each in calls.calls.values()] == ["debug_start_session", "debug_control"]
    assert [row.event.action for row in calls.events] == ["start", "continue"]
    # What the server tells of the environment is not the debugger's.
    assert "Not used here" not in "".join(row.message.content for row in calls.messages)
    assert main(["replay", str(run)]) == 0
    assert "different" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_killed_by_its_client_still_finds_the_verdict(repo: Path, tmp_path: Path) -> None:
    run = tmp_path / "live"
    command = [sys.executable, *COMMAND, "--repo", str(repo), "--record", str(run), "--test", TEST]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    start = {"name": "debug_start_session", "arguments": {"test": TEST}}
    sent: list[dict[str, object]] = [
        {"id": 0, "method": "initialize", "params": hello | {"clientInfo": CLIENT_INFO}},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": start},
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        for each in sent:
            it.stdin.write(json.dumps({"jsonrpc": "2.0", **each}) + "\n")
            it.stdin.flush()
        assert any("Paused at" in line for line in it.stdout)
        (repo / "shop/cart.py").write_text(CART.replace("round(result)", "round(result) + 1"))
        it.kill()
    wait_until(lambda: [each.resolved for each in RunStore(run).read_rollouts()] == [True], 120)


def test_a_recording_inside_the_repository_is_no_part_of_it(repo: Path) -> None:
    run = repo / "runs" / "live"

    async def work(client: Client) -> None:
        await said(client, "debug_start_session", test=TEST)

    files = []
    for _ in range(2):
        live = recorded(repo, run)
        files.append(sorted(live.place.repository.files()))
        with_client(live, work)
        assert live.place.repository.changed_since(live.place.repository.now().files) == []
        ended(live)
    assert files == [["shop/cart.py", "tests/test_cart.py"]] * 2
    assert [each.patch for each in RunStore(run).read_rollouts()] == ["", ""]
    (tree,) = (run / "repositories").iterdir()
    assert not (tree / "runs").exists()


CASES = """\
import pytest

from shop.cart import total


@pytest.mark.parametrize("n", [1, 2])
def test_each(n):
    assert total([n], 2) == 4


def test_other():
    assert total([], 1) == 0
"""


@pytest.mark.parametrize("test", ["tests/test_cart.py::test_each", "pytest tests -k each -x"])
def test_a_verdict_is_about_each_case_of_a_test(repo: Path, tmp_path: Path, test: str) -> None:
    (repo / "tests/test_cart.py").write_text(CASES)

    async def work(client: Client) -> None:
        await said(client, "debug_start_session", test="tests/test_cart.py::test_each[1]")
        (repo / "shop/cart.py").write_text(CART.replace("round(result)", "4 if prices else 0"))

    live = recorded(repo, tmp_path / "live", "--test", test)
    with_client(live, work)
    ended(live)
    (rollout,) = RunStore(tmp_path / "live").read_rollouts()
    assert rollout.resolved
    assert [(each.name, each.before, each.after) for each in rollout.tests] == [
        ("tests/test_cart.py::test_each[1]", "failed", "passed"),
        ("tests/test_cart.py::test_each[2]", "passed", "passed"),
    ]
    (bug,) = LocalBenchmark(tmp_path / "live").instances()
    assert bug.fail_to_pass == tuple(each.name for each in rollout.tests)


def test_a_test_that_its_file_lacks_decides_nothing(repo: Path, tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        told = await said(client, "debug_start_session", test=TEST)
        assert "there is no test `tests/test_cart.py::test_refund`: tests/test_cart.py has" in told

    live = recorded(repo, tmp_path / "live", "--test", "tests/test_cart.py::test_refund")
    with_client(live, work)
    ended(live)
    assert list(RunStore(tmp_path / "live").read_rollouts()) == []


def test_a_recording_goes_on_after_a_kill_while_it_is_written(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "live"
    live = recorded(repo, run)
    assert live.recording is not None
    live.place.repository.now()
    write = Path.write_bytes

    def dying(path: Path, data: bytes) -> int:
        if path.name == "test_cart.py":
            os.kill(os.getpid(), signal.SIGKILL)
        return write(path, data)

    if (child := os.fork()) == 0:
        monkeypatch.setattr(Path, "write_bytes", dying)
        repository = live.place.repository
        live.recording.keep("client", TEST, repository, repository.now())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    # Two sessions that end before their first call does: they have no rollouts.
    for number in range(2):
        assert live.recording is not None
        repository = live.place.repository
        bug, given = live.recording.keep("client", TEST, repository, repository.now())
        assert (given, sorted(bug.files)) == (number, ["shop/cart.py", "tests/test_cart.py"])
        ended(live)
        live = recorded(repo, run)
    ended(live)
    assert len(LocalBenchmark(run).instances()) == 2


def test_what_a_client_did_by_itself_is_taken_by_its_role(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"

    async def work(client: Client) -> None:
        await said(client, "debug_start_session", test=TEST, breakpoints=["shop/cart.py:5"])
        await said(client, "debug_control", action="continue")
        await said(client, "debug_inspect", what="locals")
        (repo / "shop/cart.py").write_text(CART.replace("round(result)", "round(result) + 1"))

    live = recorded(repo, run, "--test", TEST)
    with_client(live, work)
    ended(live)
    assert main(["format", str(run)]) == 2
    assert "of the roles main: to keep these, set format.roles=[main]" in capsys.readouterr().err
    main(["format", str(run), "format.roles=[main]"])
    assert "'role' dropped" not in capsys.readouterr().err


def test_other_folders_are_not_recorded_into(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="there is something else"):
        recorded(repo, tmp_path / "notes")


@pytest.mark.parametrize(
    ("test", "told"),
    [
        (f"{TEST}_", "--test: there is no test"),
        ("python -m unittest tests.test_cart", "is not run by pytest, and pytest decides"),
    ],
)
def test_a_test_that_can_not_decide_is_refused_at_the_start(
    repo: Path, tmp_path: Path, test: str, told: str
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, *COMMAND, "--repo", str(repo), "--record", str(run)]
    ended = subprocess.run(
        [*command, "--test", test], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert told in ended.stderr
    assert not run.exists()
