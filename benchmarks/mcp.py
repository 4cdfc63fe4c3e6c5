"""Our debug tools over MCP beside a peer's, on the same tests, in one run.

    npm install @debugmcp/mcp-debugger && pip install debugpy     # Node.js 22
    python -m benchmarks.mcp --peer "npx mcp-debugger"

Both servers debug with the Python that runs this, are used as their documentation says, and take
turns, each warmed up by a launch. What a server can't do is told in its own words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PROTOCOL_LINE = r'Content-Length: 40\r\n\r\n{"jsonrpc": "2.0", "id": 3, "result": {}}'
TESTS = f"""\
import os
def total(prices, rate):
    result = 0
    for price in prices:
        result += price * rate
    return round(result)
def test_total():
    assert total(list(range(1000)), 2) == 1
def test_forever():
    count = 1
    while True:
        count += 1
def test_large():
    text = "x" * 1_500_000
    assert text == ""
def test_prints():
    os.write(1, b'{PROTOCOL_LINE}\\n')
    print('{PROTOCOL_LINE}', flush=True)
    assert not total
"""
FILE = "test_shop.py"
STOPS = {"test_total": 5, "test_forever": 10, "test_large": 15, "test_prints": 19}
"""By test, the line to stop at."""
LIMIT, ALONE = 180.0, 5.0
"""Seconds for one call, and until what a killed client has left is counted."""
MARK = "STEPINTO_BENCHMARK"
"""The variable by which a server's processes are known, besides their parents."""
CALLS: Mapping[str, Sequence[tuple[str, dict[str, str]]]] = {
    "locals": [("debug_inspect", {"what": "locals"}), ("get_local_variables", {})],
    "evaluate": [("debug_inspect", {"what": "evaluate"}), ("evaluate_expression", {})],
    "step": [("debug_control", {"action": "step_over"}), ("step_over", {})],
    "close": [("debug_control", {"action": "terminate"}), ("close_debug_session", {})],
}
"""Our tool with its arguments, and the peer's."""


class Failed(Exception):
    """A server did not do what it was asked; the message is its own."""


class Tools:
    """Our debug tools, with a session on one test at a time."""

    name, serve, column = "stepinto", ["mcp", "--repo", "{}"], 0
    running: asyncio.Task[str]

    def __init__(self, client: Client, project: Path) -> None:
        self.client, self.project = client, project

    async def do(self, what: str, **arguments: str) -> str:
        tool, fixed = CALLS[what][self.column]
        return await self.call(tool, **fixed, **arguments)

    async def evaluate(self, expression: str) -> str:
        return await self.do("evaluate", expression=expression)

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of an answer. Raises Failed, TimeoutError."""
        async with asyncio.timeout(LIMIT):
            result = await self.client.call_tool(tool, arguments)
        text = "".join(each.text for each in result.content if each.type == "text")
        if result.is_error or '"success":false' in text:
            raise Failed(f"{tool}: {text}")
        return text

    async def launch(self, test: str) -> str:
        """Start a session, and run to the test's line."""
        named = {"test": f"{FILE}::{test}", "breakpoints": [f"{FILE}:{STOPS[test]}"]}
        return await self.call("debug_start_session", **named, stop_at_test=False)

    output = launch
    """What a test prints until its line."""

    async def run_on(self) -> None:
        """Continue, without waiting for a stop."""
        self.running = asyncio.create_task(self.call("debug_control", action="continue"))

    async def interrupt(self) -> str:
        """Interrupt what runs, and give the locals where it is."""
        self.running.cancel()
        return await self.do("locals")


class PeerTools(Tools):
    """Those of @debugmcp/mcp-debugger, which debugs with debugpy."""

    name, serve, column = "mcp-debugger", ["stdio"], 1
    session: Mapping[str, str] = {}

    async def call(self, tool: str, **arguments: Any) -> str:
        """The answer once the program has paused; a peer can answer earlier."""
        answer = await super().call(tool, **self.session, **arguments)
        until = time.monotonic() + LIMIT
        while '"state":"running"' in answer and time.monotonic() < until:
            with suppress(Failed):
                answer = await super().call("get_stack_trace", **self.session)
        return answer

    async def launch(self, test: str) -> str:
        python = {"language": "python", "executablePath": sys.executable}
        created = json.loads(await super().call("create_debug_session", **python))
        self.session = {"sessionId": created["sessionId"]}
        file = str(self.project / FILE)
        await self.call("set_breakpoint", file=file, line=STOPS[test])
        script = str(Path(pytest.__file__).with_name("__main__.py"))  # as `python -m pytest` does
        named = {"scriptPath": script, "args": ["-q", "-s", f"{FILE}::{test}"]}
        where = {"cwd": str(self.project)}
        return await self.call("start_debugging", **named, adapterLaunchConfig=where)

    async def output(self, test: str) -> str:
        await self.launch(test)
        return await self.call("get_output")

    async def run_on(self) -> None:
        await self.call("continue_execution")

    async def interrupt(self) -> str:
        await self.call("pause_execution")
        return await self.do("locals")


Results = defaultdict[str, list[float]]
"""What was measured of one server, by row."""


async def timed(results: Results, row: str, work: Awaitable[str], expected: str) -> None:
    """Note the milliseconds of an answer. Raises Failed if it doesn't hold what is expected."""
    began = time.perf_counter()
    text = await work
    results[row].append((time.perf_counter() - began) * 1000)
    if expected not in text:
        raise Failed(f"{row}: {text}")


async def actions(tools: Tools, results: Results) -> None:
    await timed(results, "launch to a breakpoint in a test, ms", tools.launch("test_total"), "")
    for price in range(20):
        await timed(results, "locals, ms", tools.do("locals"), "prices")
        await timed(results, "evaluation, ms", tools.evaluate("price + 4000"), str(price + 4000))
        for _ in range(2):
            await timed(results, "step, ms", tools.do("step"), FILE)


async def endless(tools: Tools, results: Results) -> None:
    await tools.launch("test_forever")
    await tools.run_on()
    await asyncio.sleep(1)
    await timed(results, "endless `continue`: interrupt to locals, ms", tools.interrupt(), "count")
    await tools.evaluate("count")


async def large(tools: Tools, results: Results) -> None:
    await tools.launch("test_large")
    results["locals with a value of 1.5 MB, bytes"].append(len(await tools.do("locals")))
    results["this value evaluated, bytes"].append(len(await tools.evaluate("text")))


async def prints(tools: Tools, results: Results) -> None:
    row = "launch of a test that prints protocol lines, to its output, ms"
    await timed(results, row, tools.output("test_prints"), "Content-Length: 40")
    await tools.evaluate("total")


@asynccontextmanager
async def serving(kind: type[Tools], command: Sequence[str], project: Path) -> AsyncIterator[Tools]:
    # Our sandbox sets it too: the plugins of this Python are none of the project's.
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", MARK: str(project)}
    arguments = [*command[1:], *(word.format(project) for word in kind.serve)]
    server = StdioServerParameters(command=command[0], args=arguments, env=env)
    with open(os.devnull, "w") as log:
        async with Client(stdio_client(server, errlog=log), mode="legacy") as client:
            yield kind(client, project)


def hold(kind: type[Tools], command: Sequence[str], project: Path, started: Event) -> None:
    """Be a client whose program runs on, until killed."""

    async def work() -> None:
        async with serving(kind, command, project) as tools:
            await tools.launch("test_forever")
            await tools.run_on()
            await asyncio.sleep(1)
            started.set()
            await asyncio.sleep(LIMIT)

    asyncio.run(work())


def left_of_killed(kind: type[Tools], command: Sequence[str], project: Path) -> float:
    """How many processes are left of a killed client's server; ends them."""
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    client = context.Process(target=hold, args=(kind, command, project, started))
    client.start()
    has_started = started.wait(LIMIT)
    own = set(psutil.Process(client.pid).children(recursive=True))
    every = psutil.process_iter(["environ"])
    own |= {each for each in every if (each.info["environ"] or {}).get(MARK) == str(project)}
    client.kill()
    _, left = psutil.wait_procs(own, timeout=ALONE)
    for each in left:
        each.kill()
    return len(left) if has_started else math.nan


async def measure(kind: type[Tools], command: Sequence[str], project: Path) -> Results:
    """What one round measures of a server; tells what fails."""
    results, began = Results(list), time.perf_counter()
    async with serving(kind, command, project) as tools:
        results["start of the server, ms"].append((time.perf_counter() - began) * 1000)
        await tools.launch("test_total")  # to warm up
        await tools.do("close")
        for scenario in (actions, endless, large, prints):
            try:
                await scenario(tools, results)
                await tools.do("close")
            except (Failed, TimeoutError) as failed:
                print(f"{kind.name}, {scenario.__name__}: {failed!r}"[:500])
    left = left_of_killed(kind, command, project)
    results[f"client killed: processes left after {ALONE:g} s"].append(left)
    return results


def table(found: Mapping[str, Results]) -> Table:
    """Medians, with the least and the most, in Markdown; the ratio is the last to the first."""
    shown = Table("", *found, "ratio", box=MARKDOWN)
    for row in dict.fromkeys(row for results in found.values() for row in results):
        values = [results[row] or [math.nan] for results in found.values()]
        cells = [f"{median(each):,.0f} ({min(each):,.0f} to {max(each):,.0f})" for each in values]
        ratio = median(values[-1]) / (median(values[0]) or math.nan)
        shown.add_row(row, *cells, "" if math.isnan(ratio) else f"{ratio:.1f}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp", description=__doc__)
    parser.add_argument("--peer", metavar="COMMAND", help="how the peer is started")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder).resolve()
        (project / FILE).write_text(TESTS)
        servers: dict[type[Tools], list[str]] = {Tools: [sys.executable, str(ROOT / "stepinto.py")]}
        if options.peer:
            servers[PeerTools] = shlex.split(options.peer)
        found: dict[str, Results] = defaultdict(lambda: Results(list))
        for turn in range(options.rounds):
            for kind, command in servers.items():
                print(f"round {turn + 1}: {kind.name}", file=sys.stderr)
                told = subprocess.check_output([*command, "--version"], text=True).split()[-1]
                for row, values in asyncio.run(measure(kind, command, project)).items():
                    found[f"{kind.name} {told}"][row] += values
    print(f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}\n")
    Console(width=200).print(table(found))


if __name__ == "__main__":
    main()
