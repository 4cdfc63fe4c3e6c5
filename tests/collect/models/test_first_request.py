"""What is asked of an endpoint before work starts: its key, its model's name, tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from collect.errors import FailureKind
from collect.models.budget import SPENT
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from configs.command_line.shared import STOPPED
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, error, reply

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "debug2fix.yaml"
REQUEST = 100 * 1.25e-6 + 20 * 10e-6
"""Dollars of one, with the tokens that the server reports."""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def collect(server: ChatServer, folder: Path, *overrides: str) -> tuple[int, list[Rollout]]:
    settings = [
        f"models.frontier.base_url={server.url}",
        "models.frontier.api_key_env=null",
        "models.frontier.retries={max_retries: 0}",
        "collect.benchmark.limit=1",
        "collect.variants=[baseline]",
        "agents.main_max_reminders=0",
        *overrides,
    ]
    status = main(["collect", str(CONFIG), f"runs_folder={folder}", "run=test", *settings])
    return status, list(RunStore(folder / "test").read_rollouts())


def call() -> Answer:
    function = {"name": "evaluate", "arguments": '{"expression": "total"}'}
    return reply(None, tool_calls=[{"id": "1", "type": "function", "function": function}])


def test_a_model_is_asked_two_turns_and_paid_for(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(call(), reply("It is 3."), reply())
    status, (row,) = collect(server, tmp_path)
    assert status == 0
    assert row.dollars == pytest.approx(REQUEST)
    assert float((tmp_path / "test" / SPENT).read_text()) == pytest.approx(3 * REQUEST)
    first, second, third = server.requests
    for asked in (first, second):
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["evaluate"]
    assert "temperature" not in first, "the config sets none, and some models take none"
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "tool"]
    assert "evaluate" not in str(third["tools"])
    assert "warning" not in capsys.readouterr().err
    collect(server, tmp_path)
    assert len(server.requests) == 3, "there is nothing left to do"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((error(401, "wrong key"),), "wrong key. What to do: check the key in the environment"),
        pytest.param(
            (error(404, "no such model"),),
            "no such model. What to do: check `model` and `base_url`",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (Answer(drop=True),),
            "check that the server runs and is reachable",
            marks=pytest.mark.slow,
        ),
        ((error(400, "no tools here"), reply()), "refuses them: .*set check_tools: false"),
    ],
    ids=["key", "model", "down", "tools"],
)
def test_a_server_that_refuses_ends_the_run_before_it_starts(
    server: ChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answers: tuple[Answer, ...],
    told: str,
) -> None:
    server.will_answer(*answers)
    status, rows = collect(server, tmp_path)
    assert (status, rows, len(server.requests)) == (2, [], 2)
    assert re.search(told, capsys.readouterr().err)


def test_a_server_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: ChatServer
) -> None:
    gone = "models.frontier.base_url=http://127.0.0.1:9/v1"
    assert collect(server, tmp_path, gone) == (2, [])
    assert "a first request failed: model gpt-5 at http://127.0.0.1:9" in capsys.readouterr().err


def test_a_model_that_does_not_call_is_a_warning(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(reply("The total is 3."))
    status, rows = collect(server, tmp_path)
    assert (status, len(rows)) == (0, 1)
    assert "asked to call a tool once, it answered without a call" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_whose_agents_act_in_their_text_is_asked_without_tools(
    server: ChatServer, tmp_path: Path
) -> None:
    settings = ["collect.variants=[simple_debugging]", "collect.benchmark.name=self_repair"]
    collect(server, tmp_path, *settings, "collect.benchmark.split=all")
    assert "tools" not in server.requests[0]
    assert "Which value does `total` have now?" in str(server.requests[0])


def test_with_a_spent_budget_nothing_is_asked(server: ChatServer, tmp_path: Path) -> None:
    dear = ("models.frontier.prices={input: 10000}", "runner.budget_dollars=1")
    for _ in range(2):
        status, rows = collect(server, tmp_path, *dear)
        assert status == STOPPED
        assert [row.failure_kind for row in rows] == [FailureKind.BUDGET]
    assert len(server.requests) == 1


def test_token_ids_and_log_probabilities_are_kept_on_request(
    server: ChatServer, tmp_path: Path
) -> None:
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    calls = [{"id": "1", "type": "function", "function": function}]
    turns = [([1, 2, 3], [4, 5], [-0.5, 0]), ([1, 2, 3, 4, 5, 6, 7], [8], [-1.25])]
    first, last = turns
    server.will_answer(reply(None, tool_calls=calls, tokens=first), reply(tokens=last))
    asked = ("models.frontier.logprobs=true", "models.frontier.check_tools=false")
    status, _ = collect(server, tmp_path, *asked)
    assert status == 0
    request = server.requests[0]
    assert (request["logprobs"], request["return_token_ids"]) == (True, True)
    (row,) = pq.read_table(tmp_path / "test" / "conversations").to_pylist()
    found, kept, seen = [], [], list[int]()
    for message in row["messages"]:
        if tokens := message["tokens"]:
            prompt = seen[: tokens["kept"]] + tokens["prompt_ids"]
            seen = prompt + tokens["token_ids"]
            found.append((prompt, tokens["token_ids"], tokens["logprobs"]))
            kept.append(tokens["kept"])
    assert (found, kept) == (turns, [0, 5])


@pytest.mark.parametrize(
    "tokens", [None, ([1], [4, 5], [-0.5]), ([1], [4], [float("nan")])], ids=str
)
def test_a_server_that_does_not_send_them_is_refused_before_the_run(
    server: ChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tokens: tuple[list[int], list[int], list[float]] | None,
) -> None:
    server.will_answer(reply(tokens=tokens))
    assert collect(server, tmp_path, "models.frontier.logprobs=true") == (2, [])
    assert "which `logprobs: true` asks for. What to do:" in capsys.readouterr().err
