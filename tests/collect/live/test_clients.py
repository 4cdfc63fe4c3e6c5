"""Clients in processes of their own, over stdio and HTTP, that come, go and are killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from collect.live.server import Gate
from collect.store.run_store import RunStore
from tests.collect.live.conftest import ANSWER, FOREVER, SPOILS, TEST, asked_of, live, said
from tests.collect.models.chat_server import ChatServer, reply

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [str(ROOT / "stepinto.py"), "mcp"]
START = "debug_start_session"
TOKEN = "s3cret"
CLIENT_INFO = {"name": "visitor", "version": "1"}
CLIENT = """\
import asyncio, sys
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    parameters = StdioServerParameters(command=sys.executable, args=sys.argv[1:])
    async with Client(stdio_client(parameters)) as client:
        await client.call_tool("debug_start_session", {"test": "tests/test_cart.py::test_forever"})
        print("started", flush=True)
        calls = [client.call_tool("debug_control", {"action": "continue"}) for _ in range(4)]
        await asyncio.gather(*calls)

asyncio.run(main())
"""


def children() -> dict[int, list[int]]:
    """Every process's children."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            found.setdefault(int(parent), []).append(int(entry.name))
    return found


def below(process: int) -> set[int]:
    """A process's descendants."""
    known, found = children(), set[int]()
    waiting = [process]
    while waiting:
        waiting += (more := known.get(waiting.pop(), []))
        found |= {*more}
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not become so"
        time.sleep(0.05)


def over_stdio(repo: Path, *settings: str) -> Client:
    arguments = [*COMMAND, *settings, "--repo", str(repo)]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments)))


@contextmanager
def http_server(repo: Path, *settings: str, **environment: str) -> Iterator[tuple[str, int]]:
    """The address of a server, and its process."""
    command = [sys.executable, *COMMAND, *settings, "--repo", str(repo), "--http", "127.0.0.1:0"]
    given = os.environ | environment
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=given) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "listening" in line)
            yield line.split()[-1], process.pid
        finally:
            process.terminate()
            process.wait(60)


def over_http(url: str) -> Client:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
    return Client(streamable_http_client(url, http_client=http))


@pytest.mark.slow
def test_a_programs_output_is_no_protocol(repo: Path) -> None:
    async def work() -> None:
        async with over_stdio(repo) as client:
            await said(client, START, test=SPOILS, breakpoints=["tests/test_cart.py:17"])
            ended = await said(client, "debug_control", action="continue")
            assert '{"jsonrpc": "2.0", "id": 3, "result": {}}' in ended
            assert next(each.name for each in (await client.list_tools()).tools) == START

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["client", "server"])
def test_a_kill_leaves_nothing_behind(repo: Path, killed: str) -> None:
    command = [sys.executable, "-c", CLIENT, *COMMAND, "--repo", str(repo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "started\n"
        (server,) = children()[client.pid]
        everything = {server, *below(server)}
        assert len(everything) > 2
        os.kill(client.pid if killed == "client" else server, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, everything)))
        client.kill()


@pytest.mark.slow
def test_clients_by_http_are_independent(repo: Path, server: ChatServer) -> None:
    server.will_answer(reply(hold=True), reply(ANSWER))
    question = {"question": "What is result?", "test": TEST}

    async def work(url: str, process: int) -> None:
        async with over_http(url) as first:
            await said(first, START, test=TEST, breakpoints=["shop/cart.py:5"])
            await said(first, "debug_control", action="continue")
            of_first = below(process)
            async with over_http(url) as second:
                none = await said(second, "debug_inspect", what="stack")
                assert "no session is open" in none
                calls = [
                    asyncio.create_task(said(second, "debug_subagent", **question))
                    for _ in range(40)
                ]
                await asyncio.to_thread(server.arrived.acquire)
                assert "result = 33.0" in await said(first, "debug_inspect", what="locals")
                assert ANSWER in await said(first, "debug_subagent", **question)
                for each in calls:
                    each.cancel()
                await said(second, START, test=FOREVER)
                assert below(process) > of_first
            wait_until(lambda: below(process) == of_first)
            assert "result = 33.0" in await said(first, "debug_inspect", what="locals")
        wait_until(lambda: not below(process))

    settings = [*asked_of(server), "--model", "scripted"]
    with http_server(repo, *settings, STEPINTO_MCP_TOKEN=TOKEN) as (url, process):
        asyncio.run(work(url, process))
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for headers, status in [
            ({}, 401),
            ({"Authorization": "Bearer other"}, 401),
            ({**bearer, "Host": "evil.example"}, 421),
            ({**bearer, "Origin": "http://evil.example"}, 403),
        ]:
            assert httpx2.post(url, headers=headers, json=body).status_code == status


@pytest.mark.slow
def test_a_client_by_http_that_is_killed_leaves_nothing_behind(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = re.sub(r"parameters = .*", "pass", CLIENT).replace(
        "stdio_client(parameters)", "sys.argv[1]"
    )
    with http_server(repo) as (url, process):
        command = [sys.executable, "-c", program, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "started\n"
            assert below(process)
            client.kill()
        wait_until(lambda: not below(process))


def test_a_client_that_has_gone_leaves_its_place_to_others(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collect.live.server.GONE_SECONDS", 0.05)
    served = live(repo)
    app = served.mcp().streamable_http_app(max_sessions=1)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT_INFO}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    accept = {"Accept": "application/json, text/event-stream"}

    async def work() -> None:
        gate = Gate(app, served, None)
        transport = httpx2.ASGITransport(gate)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http,
        ):

            async def status(**more: str) -> int:
                return (await http.post("/mcp", json=body, headers=accept | more)).status_code

            assert await status(**{"mcp-session-id": "made up"}) == 404
            assert not gate._present
            assert [await status(), await status()] == [200, 503]
            async with asyncio.timeout(60):
                while await status() != 200:
                    await asyncio.sleep(0.02)

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_http_server_stores_the_verdict(
    repo: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    async def work(url: str, process: int) -> None:
        with suppress(Exception):  # the server leaves before its client
            async with over_http(url) as client:
                await said(client, START, test=TEST)
                os.kill(process, sent)
                await asyncio.to_thread(wait_until, lambda: not alive(process))

    run = tmp_path / "live"
    with http_server(repo, "--record", str(run), "--test", TEST) as (url, process):
        asyncio.run(work(url, process))
    (rollout,) = RunStore(run).read_rollouts()
    assert [(each.before, each.after) for each in rollout.tests] == [("failed", "failed")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "192.0.2.1:8765"], "clients must have a token"),
        (["--http", "0.0.0.0:8765"], "the one address by which clients reach this machine"),
        (["--http", "8765"], "give HOST:PORT"),
        (["--model", "oracle"], "the model oracle (oracle) can't answer here"),
        (["--model", "small"], "there is no model 'small'"),
        (["--test", "t"], "give --record too"),
        (["--repo", "/nowhere"], "no such folder"),
    ],
)
def test_what_cannot_be_served_is_refused(
    repo: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    from stepinto import main

    assert main(["mcp", "--repo", str(repo), *arguments]) == 2
    assert told in capsys.readouterr().err
