"""What is seen of a server's tool calls before work starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from collect.errors import ConfigError
from collect.models.config import Retries, VllmConfig
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.models.serving.conftest import Scripted, ask


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def running(server: ChatServer, model: str | None = None, **settings: Any) -> VllmConfig:
    retries = Retries(max_retries=0)
    return VllmConfig(backend="vllm", base_url=server.url, model=model, retries=retries, **settings)


def call(name: str = "evaluate", arguments: str = '{"expression": "total"}') -> Answer:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": "1", "type": "function", "function": function}]
    return reply(None, tool_calls=calls, finish_reason="tool_calls")


def test_a_call_that_parses_says_nothing(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted.open(scripted.config())
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("writes", "told"),
    [
        ("The total is 3.", "answered without a call: 'The total is 3.'"),
        ('{"name": "evaluate"}', "text_calls: true reads calls in the text"),
    ],
)
def test_a_model_that_does_not_call_is_a_warning(
    scripted: Scripted, capsys: pytest.CaptureFixture[str], writes: str, told: str
) -> None:
    backend = scripted.open(scripted.config(SCRIPT_WRITES=writes))
    assert ask(backend).message.content == writes
    assert told in capsys.readouterr().err


def test_a_server_that_refuses_tools_is_an_error(scripted: Scripted) -> None:
    with pytest.raises(
        ConfigError, match=r"refuses them: .*requires a parser.*set server.tool_call_parser"
    ):
        scripted.open(scripted.config(SCRIPT_REFUSES_TOOLS=1))
    assert scripted.alive == []


def test_models_without_tools_are_not_asked_for_a_call(scripted: Scripted) -> None:
    backend = scripted.open(scripted.config(SCRIPT_REFUSES_TOOLS=1, tool_call_parser=None))
    assert ask(backend).message.content == "I am served"


def test_the_only_model_of_a_running_server_is_taken(
    server: ChatServer, scripted: Scripted
) -> None:
    server.models = ["qwen"]
    server.will_answer(call(), reply("Hello."))
    backend = scripted.open(running(server))
    assert ask(backend).message.content == "Hello."
    assert {request["model"] for request in server.requests} == {"qwen"}
    assert backend.server is None


@pytest.mark.parametrize(
    ("models", "model", "told"),
    [
        (["a", "b"], None, "set `model` to one of the server's; .* has: a, b"),
        (["a"], "c", "no model 'c' to be had; .* has: a"),
        (None, "c", "lists no models: HTTP 404"),
    ],
)
def test_a_running_server_without_the_model(
    server: ChatServer, scripted: Scripted, models: list[str] | None, model: str | None, told: str
) -> None:
    server.models = models
    with pytest.raises(ConfigError, match=told):
        scripted.open(running(server, model))


def test_a_server_that_does_not_run(scripted: Scripted) -> None:
    gone = VllmConfig(backend="vllm", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=r"127.0.0.1:9/v1 lists no models: .* runs and is reach"):
        scripted.open(gone)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((error(400, "no tools here"), reply()), "refuses them: .*start it with --enable-auto"),
        ((error(400, "nothing here"),), "a first request failed: .*nothing here"),
    ],
)
def test_a_running_server_that_refuses(
    server: ChatServer, scripted: Scripted, answers: tuple[Answer, ...], told: str
) -> None:
    server.models = ["qwen"]
    server.will_answer(*answers)
    with pytest.raises(ConfigError, match=told):
        scripted.open(running(server))


def test_calls_of_another_form_are_told(
    server: ChatServer, scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    server.models = ["qwen"]
    server.will_answer(
        call(arguments='{"expr": 1}'), call(name="eval"), reply("x", finish_reason="length")
    )
    for told in ("called 'evaluate' with", "called 'eval' with", "after 256 tokens"):
        scripted.open(running(server))
        assert told in capsys.readouterr().err
    asked = len(server.requests)
    scripted.open(running(server, check_tools=False))
    assert len(server.requests) == asked
