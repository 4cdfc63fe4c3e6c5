"""Rollouts that are played by hand, through the command."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import stepinto
from collect.errors import ConfigError
from collect.models.manual import BadAnswer, ManualBackend, Request, open_requests, read_answer
from collect.rollouts.stage import run_collect
from collect.store.files import replacing
from collect.store.messages import Message
from collect.store.records import PLAYED_TEACHER, Role
from collect.store.run_store import RunStore
from configs.loading import load_config

ROOT = Path(__file__).resolve().parents[3]
LOOK, ASK, ANSWER, END = (
    'I look at the files first.\n>>> bash {"command": "ls"}\n',
    'What is raised?\n>>> debug_subagent {"question": "Which exception?", "test": "tests"}\n',
    "<debug_answer>\n**Question**: q\n**Answer**: not established\n**Evidence**: none\n"
    "**Location**: none\n</debug_answer>\n",
    "It can't be fixed.",
)

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {
            "type": "object",
            "properties": {"line": {"type": "integer"}},
            "required": ["line"],
            "additionalProperties": False,
        },
    },
}
REQUEST = Request("r-0-0", "m", "main", (Message("user", "Hello"),), (TOOL,), answer_only=False)


def test_an_answer_is_text_and_calls() -> None:
    message = read_answer('I look.\n>>> look {"line": 3}\n>>> look\n{\n  "line": 4}\n', REQUEST)
    assert message.content == "I look."
    assert [call.arguments for call in message.tool_calls] == ['{"line": 3}', '{\n  "line": 4}']
    assert read_answer("Done.\n", REQUEST) == Message("assistant", "Done.")
    [call] = read_answer('>>> look {"line": 3}\n.\n', REQUEST).tool_calls
    assert call.arguments == '{"line": 3}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (">>> jump {}", "there is no tool jump; the tools are: look"),
        (">>> look {", "not JSON"),
        (">>> look " + "[" * 100_000, "not JSON"),
        (">>> look", "'line' is a required property"),
        ('>>> look {"line": "a"}', "line: 'a' is not of type 'integer'"),
    ],
)
def test_what_can_not_be_sent_is_told_before(text: str, problem: str) -> None:
    with pytest.raises(BadAnswer, match=problem):
        read_answer(text, REQUEST)


def test_a_request_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    backend = ManualBackend("hand", tmp_path, threading.Event())
    with replacing(backend.folder / "r-0-0.json") as unfinished:
        unfinished.touch()
        assert open_requests(tmp_path) == []
        unfinished.write_text(json.dumps(asdict(REQUEST)))
    assert open_requests(tmp_path) == [REQUEST]
    backend.close()


def test_a_rollout_is_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = [
        f"runs_folder={tmp_path}",
        "run=hand",
        "models.hand={backend: manual}",
        "collect.main=hand",
        "collect.sub=hand",
        "agents.subagent_form=compact",
        "collect.variants=[debug2fix]",
        "collect.benchmark.limit=1",
    ]
    config = load_config(ROOT / "configs" / "quickstart.yaml", changes)
    run, answer = config.folder, tmp_path / "answer.txt"
    run.mkdir()

    def play(*options: str) -> str:
        status = stepinto.main(["play", str(run), "--wait", "60", *options])
        assert status == 0, capsys.readouterr().err
        return capsys.readouterr().out

    def send(text: str) -> str:
        answer.write_text(text, encoding="utf-8")
        return play("--answer", str(answer))

    with ThreadPoolExecutor() as pool:
        done = pool.submit(run_collect, config, config.collect, run)
        shown = play()
        assert "--- system\nYou are an expert software engineer" in shown
        assert "debug_subagent: Ask a debugging assistant" in shown
        assert "--- tool bash" in send(LOOK)
        assert stepinto.main(["play", str(run), "--answer", "/dev/null"]) == 2
        shown = send(ASK)
        assert "debug_subagent, played as hand" in shown
        assert "Question: Which exception?" in shown
        assert "--- tool debug_subagent\n<debug_answer>" in send(ANSWER)
        assert "the run is over" in send(END)
        done.result(timeout=120)
    store = RunStore(run)
    (rollout,) = store.read_rollouts()
    assert (rollout.teacher, rollout.resolved, rollout.dollars) == (PLAYED_TEACHER, False, 0)
    main, sub = sorted(store.read_conversations(), key=lambda each: each.index)
    assert (main.teacher, sub.teacher) == (PLAYED_TEACHER, PLAYED_TEACHER)
    assert sub.role is Role.DEBUG_SUBAGENT
    assert main.messages[2].message.content == "I look at the files first."
    assert main.messages[2].prompt_tokens == 0
    assert open_requests(run) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", "[" * 100_000, '{"role": 1}', "1" * 5_000]
)
def test_what_is_no_request_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manual" / "m" / "a-0-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"a-0-0.json is no request of a run"):
        open_requests(tmp_path)


@pytest.mark.parametrize("schema", [{"$ref": "SERVER"}, {"type": "no such"}, {"pattern": "("}])
def test_the_schemas_of_a_request_reach_no_server(schema: dict[str, str]) -> None:
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/schema"
        given = {name: value.replace("SERVER", address) for name, value in schema.items()}
        tool = {"function": {"name": "look", "parameters": {"properties": {"x": given}}}}
        request = Request("a-0-0", "m", "main", (), (tool,), answer_only=False)
        with pytest.raises(BadAnswer, match="the schema of look can't be used"):
            read_answer('>>> look {"x": "1"}', request)
        server.shutdown()
    assert asked == []
