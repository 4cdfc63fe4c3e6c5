"""What is seen of a server's tool calls before work starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from collect.errors import ConfigError
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint import EndpointBackend
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.models.serving.conftest import Scripted, ask


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def ask_first(server: ChatServer, **settings: Any) -> None:
    """Check a server that runs already."""
    own: dict[str, Any] = {
        "base_url": server.url,
        "api_key_env": None,
        "retries": Retries(max_retries=0),
    }
    config = OpenAIConfig(backend="openai", model="qwen", **own, **settings)
    with closing(EndpointBackend("sub", config, Budget(None), threading.Event())) as endpoint:
        endpoint.ask_first(tools=True)


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


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((error(400, "no tools here"), reply()), "refuses them: .*with --enable-auto"),
        ((error(400, "nothing here"),), "a first request failed: .*nothing here"),
    ],
)
def test_a_running_server_that_refuses(
    server: ChatServer, answers: tuple[Answer, ...], told: str
) -> None:
    server.will_answer(*answers)
    with pytest.raises(ConfigError, match=told):
        ask_first(server)


def test_calls_of_another_form_are_told(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(
        call(arguments='{"expr": 1}'), call(name="eval"), reply("x", finish_reason="length")
    )
    for told in ("called 'evaluate' with", "called 'eval' with", "after 1024 tokens"):
        ask_first(server)
        assert told in capsys.readouterr().err
    asked = len(server.requests)
    ask_first(server, check_tools=False)
    assert len(server.requests) == asked
