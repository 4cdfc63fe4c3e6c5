"""A user's repository, and clients of a server on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from collect.live.repository import LiveRepository
from collect.live.server import LiveServer
from collect.live.session import Subagent, Workplace
from configs.loading import load_config
from tests.collect.models.chat_server import Answer, ChatServer, reply

CART = """\
def total(prices, rate):
    result = 0
    for price in prices:
        result += price * rate
    return round(result)


def forever():
    while True:
        pass
"""
TESTS = """\
import pathlib

import pytest

from shop.cart import forever, total


def test_total():
    assert total([10, 20], 1.1) == 34


def test_spoils():
    pathlib.Path("shop/cart.py").write_text("spoilt = True")
    print('{"jsonrpc": "2.0", "id": 3, "result": {}}')
    assert total([], 1) == 1


def test_forever():
    forever()


def test_large():
    text = "x" * 1_500_000
    assert text == ""


@pytest.mark.parametrize("n", [1, 2])
def test_each(n):
    assert n == 1


@pytest.mark.parametrize("n", [1])
def test_once(n):
    assert n == 1
"""
TEST = "tests/test_cart.py::test_total"
SPOILS = "tests/test_cart.py::test_spoils"
FOREVER = "tests/test_cart.py::test_forever"
ANSWER = """\
<debug_answer>
**Question**: What is result?
**Answer**: 33.0
**Evidence**: result = 33.0 at shop/cart.py:5
**Location**: shop/cart.py:5
</debug_answer>"""
Call = Callable[..., Awaitable[str]]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in {"shop/cart.py": CART, "tests/test_cart.py": TESTS}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


def asked_of(server: ChatServer) -> list[str]:
    """The settings of a model that this server plays."""
    model: dict[str, Any] = {
        "backend": "openai",
        "model": "scripted",
        "base_url": server.url,
        "api_key_env": None,
    }
    model |= {"check_tools": False, "retries": {"max_retries": 0, "outage_wait": 0}}
    return [f"models.scripted={json.dumps(model)}"]


def calling(name: str, **arguments: Any) -> Answer:
    """A model's reply with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return reply(None, tool_calls=[{"id": "call_0", "type": "function", "function": function}])


def live(repo: Path, *settings: str, seconds: float = 600) -> LiveServer:
    """A server on the repository; its model is `scripted`, if the settings have one."""
    config = load_config(None, settings)
    subagent = Subagent(config, "scripted") if "scripted" in config.models else None
    repository = LiveRepository(repo, config.collect.benchmark, config.sandbox)
    return LiveServer(Workplace(repository, config, subagent, seconds))


async def said(client: Client, name: str, **arguments: Any) -> str:
    """The text of a call's answer, with ERROR before it if it is one."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    return f"ERROR {content.text}" if result.is_error else content.text


def with_client(server: LiveServer, work: Callable[[Client], Awaitable[None]]) -> None:
    """Let a client of the server work, in this process."""

    async def both() -> None:
        try:
            async with Client(server.mcp(), mode="legacy") as client:
                await work(client)
        finally:
            await server.close()

    asyncio.run(both())
