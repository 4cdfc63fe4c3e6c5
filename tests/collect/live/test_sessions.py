"""What a client of the server can do, with the SDK's client in this process."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from collect.benchmarks.bundled import BUNDLED
from collect.errors import ConfigError
from collect.live.session import Subagent
from configs.loading import load_config
from sandbox.java.maven import build_maven
from sandbox.java.project import BuildJob, JavaProject, Module
from tests.collect.live.conftest import (
    ANSWER,
    CART,
    FOREVER,
    SPOILS,
    TEST,
    asked_of,
    calling,
    live,
    said,
    with_client,
)
from tests.collect.models.chat_server import ChatServer, reply

START = "debug_start_session"
QUESTION = {"question": "What is result?", "test": TEST}


def sandboxes() -> set[int]:
    """The processes of this process's sandboxes."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if entry.name.isdecimal() and int(words[1]) == os.getpid() and words[0] != "Z":
            found.add(int(entry.name))
    return found


def test_without_a_model_there_are_the_debug_tools_alone(repo: Path) -> None:
    async def work(client: Client) -> None:
        assert "No model is configured" in (client.instructions or "")
        tools: dict[str, Any] = {each.name: each for each in (await client.list_tools()).tools}
        debugging = [START, "debug_inspect", "debug_control", "debug_breakpoint"]
        assert [*tools] == [*debugging, "debug_environment"]
        assert "within 60 s" in tools[START].description
        assert "at most 30 s" in tools["debug_control"].description
        reading = [name for name, each in tools.items() if each.annotations.read_only_hint]
        assert reading == ["debug_inspect"]
        assert "no session is open" in await said(client, "debug_inspect", what="locals")
        assert "there is no tool debug_subagent" in await said(client, "debug_subagent", **QUESTION)

    with_client(live(repo), work)


def test_a_session_debugs_the_files_as_the_user_has_them(repo: Path) -> None:
    async def work(client: Client) -> None:
        paused = await said(client, START, test=SPOILS, breakpoints=["shop/cart.py:2"])
        assert "in test_spoils (entry)" in paused
        await said(client, "debug_control", action="continue")
        assert "total" in await said(client, "debug_inspect", what="stack")
        spoilt = {"what": "evaluate", "expression": "open('shop/cart.py').read()"}
        assert "spoilt" in await said(client, "debug_inspect", **spoilt)
        assert (repo / "shop/cart.py").read_text() == CART

        (repo / "shop/cart.py").write_text(CART.replace("round(result)", "int(result)"))
        changed = await said(client, "debug_inspect", what="stack")
        assert "shop/cart.py has changed since this session was started" in changed
        assert "has changed" not in await said(client, "debug_inspect", what="stack")
        await said(client, "debug_control", action="restart")
        fresh = await said(client, "debug_inspect", **spoilt)
        assert "int(result)" in fresh
        assert "spoilt" not in fresh
        stopped = await said(client, "debug_control", action="continue")
        assert "Paused at shop/cart.py:2" in stopped

    with_client(live(repo), work)


def test_a_start_ends_the_earlier_session_only_if_it_finds_its_test(repo: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, START, test=TEST, breakpoints=["shop/cart.py:5"])
        await said(client, "debug_control", action="continue")
        before = sandboxes()
        for test, told in {
            "tests/test_cart.py::test_totl": "the nearest are test_total",
            "tests/test_card.py::test_total": "tests/test_card.py is no file",
            "tests/test_cart.py::test_total[7]": "found no test",
        }.items():
            refused = await said(client, START, test=test)
            assert refused.startswith("ERROR")
            assert told in refused
            assert f"The session on `{TEST}` goes on" in refused
        assert sandboxes() == before
        assert "result = 33.0" in await said(client, "debug_inspect", what="locals")
        started = await said(client, START, test=SPOILS)
        assert f"The earlier debug session, on `{TEST}`, was ended." in started
        assert not sandboxes() & before
        assert "closed" in await said(client, "debug_control", action="terminate")
        assert not sandboxes()

    with_client(live(repo), work)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"test": TEST, "breakpoints": "a.py:3"}, "$.breakpoints: 'a.py:3' is not of type 'array'"),
        ({"test": 3}, "$.test: 3 is not of type 'string'"),
        ({"breakpoints": []}, "'test' is a required property"),
        ({"test": TEST, "brakepoints": []}, "'brakepoints' was unexpected"),
    ],
)
def test_wrong_arguments_are_told_in_the_words_of_json(
    repo: Path, arguments: dict[str, object], told: str
) -> None:
    async def work(client: Client) -> None:
        assert told in await said(client, START, **arguments)

    with_client(live(repo), work)


def test_what_never_ends_is_interrupted_and_what_is_large_is_cut(repo: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, START, test="tests/test_cart.py::test_large")
        await said(client, "debug_control", action="continue")
        seen = await said(client, "debug_inspect", what="evaluate", expression="text")
        assert "xxx" in seen
        assert len(seen) < 2_000
        await said(client, START, test=FOREVER)
        assert "interrupted" in await said(client, "debug_control", action="continue")
        assert "forever" in await said(client, "debug_inspect", what="stack")

    with_client(live(repo, "agents.debugger.action_timeout=0.5"), work)


def test_a_missing_module_names_the_setting(repo: Path) -> None:
    (repo / "tests/test_cart.py").write_text("import no_such_package\n\ndef test_total(): pass\n")

    async def work(client: Client) -> None:
        answer = await said(client, START, test=TEST)
        assert "no module no_such_package: `debug_environment` sets packages" in answer
        assert "can set collect.benchmark.more_packages" in answer

    with_client(live(repo), work)


def test_the_subagent_answers_and_tells_its_steps(repo: Path, server: ChatServer) -> None:
    server.will_answer(calling("debug_inspect", what="locals"), reply(ANSWER))
    steps: list[str] = []

    async def work(client: Client) -> None:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            steps.append(message or "")

        given = {**QUESTION, "path": "shop/cart.py", "lines": [5], "variables": ["result"]}
        result = await client.call_tool("debug_subagent", given, progress_callback=told)
        (content,) = result.content
        assert content.type == "text"
        assert content.text == ANSWER
        assert "give that too" in await said(client, "debug_subagent", **QUESTION, lines=[5])

    with_client(live(repo, *asked_of(server)), work)
    task = server.requests[0]["messages"][1]["content"]
    assert "result = 33.0" in task
    assert "prices = [10, 20]" in server.requests[1]["messages"][-1]["content"]
    assert steps == [
        f"step 0 of 25: starts `{TEST}` under the debugger",
        'step 1 of 25: debug_inspect {"what": "locals"}',
        "step 2 of 25: answers",
    ]
    assert not sandboxes()


def test_a_test_that_can_not_start_is_told_before_anybody_is_asked(
    repo: Path, server: ChatServer
) -> None:
    (repo / "tests/test_made.py").write_text("import acme\n\ndef test_it(): pass\n")

    async def work(client: Client) -> None:
        for test, told in {
            "tests/test_cart.py::test_each[7]": "found no test tests/test_cart.py::test_each[7]",
            "tests/test_cart.py::TestNone::test_wrong": "found no test",
            "tests/test_made.py::test_it": "The sandbox has no module acme",
        }.items():
            answer = await said(client, "debug_subagent", question="Why?", test=test)
            assert answer.startswith("ERROR Error: "), test
            assert told in answer

    with_client(live(repo, *asked_of(server)), work)
    assert server.requests == []


@pytest.mark.parametrize(
    ("place", "stop"),
    [("line 5 of shop/cart.py", "shop/cart.py:5 in"), ("shop/none.py:5", "tests/test_cart.py:")],
)
def test_the_session_starts_at_a_place_that_the_question_names(
    repo: Path, server: ChatServer, place: str, stop: str
) -> None:
    """If there is such a place."""
    server.will_answer(reply(ANSWER))

    async def work(client: Client) -> None:
        await said(client, "debug_subagent", question=f"What is result at {place}?", test=TEST)

    with_client(live(repo, *asked_of(server)), work)
    assert f"\nPaused at {stop}" in server.requests[0]["messages"][1]["content"]


def test_a_question_has_a_time_limit(repo: Path, server: ChatServer) -> None:
    server.will_answer(reply(hold=True))

    async def work(client: Client) -> None:
        told = await said(client, "debug_subagent", **QUESTION)
        assert told.startswith("ERROR")
        assert "did not answer within 2 s" in told

    with_client(live(repo, *asked_of(server), seconds=2), work)
    assert not sandboxes()


def test_a_cancelled_question_ends_and_the_debug_session_goes_on(
    repo: Path, server: ChatServer
) -> None:
    server.will_answer(reply(hold=True), reply(ANSWER))

    async def work(client: Client) -> None:
        await said(client, START, test=TEST, breakpoints=["shop/cart.py:5"])
        await said(client, "debug_control", action="continue")
        own = sandboxes()
        asking = asyncio.create_task(said(client, "debug_subagent", **QUESTION))
        await asyncio.to_thread(server.arrived.acquire)
        assert sandboxes() > own
        waiting = asyncio.create_task(said(client, "debug_inspect", what="locals"))
        asking.cancel()
        assert "result = 33.0" in await waiting
        assert sandboxes() == own
        assert ANSWER in await said(client, "debug_subagent", **QUESTION)

    with_client(live(repo, *asked_of(server)), work)


def test_tests_and_places_are_known_by_what_clients_call_them(repo: Path) -> None:
    async def work(client: Client) -> None:
        for name in ("test_totl", "tests.test_card.test_total", "pytest -k total x.py"):
            assert (await said(client, START, test=name)).startswith("ERROR"), name
        nowhere = await said(client, START, test="tests/test_cart.py:5")
        assert "line 5 of tests/test_cart.py is in no test" in nowhere
        assert "the nearest is tests/test_cart.py::test_total" in nowhere
        assert "the name is that of" not in await said(client, START, test="test_nothing")
        for name in (
            "test_total",
            "tests.test_cart.test_total",
            "pytest tests",
            f"pytest {TEST} -x -n 4",
            f"python -m pytest -q {repo}/{TEST}",
            "pytest tests/test_cart.py -k test_total",
            "pytest",
            "uv run pytest -k test_total",
            "tests",
            "PYTHONPATH=. pytest tests/test_cart.py",
            f"{repo}/tests/test_cart.py:9",
        ):
            assert "in test_total" in await said(client, START, test=name), name
        told = await said(client, START, test="pytest tests -x --lf -n 4 -k test_total")
        assert told.count("Not used here, of the command: --lf, -n 4.") == 1
        assert "Paused at" in await said(client, START, test=f"./{TEST}")
        assert f"earlier debug session, on `{TEST}`," in await said(
            client, START, test=f"{repo}/{TEST}"
        )
        cases = "to choose one: tests/test_cart.py::test_each[1], "
        for case in ("", "[3]"):
            assert cases in await said(client, START, test=f"tests/test_cart.py::test_each{case}")
        for name in ("test_total", "test_once"):
            assert "has 1 case" not in await said(client, START, test=f"tests/test_cart.py::{name}")
        place = f"{repo}/shop/cart.py:4"
        told = await said(client, "debug_breakpoint", action="set", location=place)
        assert "1: shop/cart.py:4" in told

    with_client(live(repo), work)


def test_a_client_names_tests_that_no_rule_would_find(tmp_path: Path) -> None:
    text = "import unittest\nclass CartTests(unittest.TestCase):\n    def check(self):\n"
    text += "        self.assertTrue(1)\n    test_total = check\n"
    doctest = 'def double(n):\n    """\n    >>> double(2)\n    4\n    """\n    return n * 2\n'
    (tmp_path / "cart_tests.py").write_text(text)
    (tmp_path / "shop.py").write_text(doctest)
    made = "import unittest\nclass TestMade(unittest.TestCase): pass\n"
    made += "setattr(TestMade, 'test_%s' % 1, lambda self: None)\n"
    (tmp_path / "test_made.py").write_text(made)

    async def work(client: Client) -> None:
        assert "CartTests.check" in await said(
            client, START, test="cart_tests.py::CartTests::test_total"
        )
        assert "shop.py:6 in double" in await said(client, START, test="shop.py::shop.double")
        place = {"breakpoints": [f"{tmp_path}/shop.py:6"], "stop_at_test": False}
        assert "shop.py:6" in await said(client, START, test="shop.py::shop.double", **place)
        for name in ("test_made.py::TestMade::test_1", "pytest ."):
            assert "Paused at test_made.py:3" in await said(client, START, test=name), name

    with_client(live(tmp_path), work)


def test_options_of_the_project_that_do_not_apply_are_told_once(repo: Path) -> None:
    (repo / "pytest.ini").write_text("[pytest]\naddopts = -n 4 --cov=shop -p no:doctest\n")
    note = "Not used here, of the pytest options in pytest.ini: -n 4, --cov=shop."

    async def work(client: Client) -> None:
        assert (await said(client, START, test=TEST)).count(note) == 1
        assert note not in await said(client, START, test=TEST)

    with_client(live(repo), work)


def test_the_options_are_those_of_the_folder_that_a_command_names(repo: Path) -> None:
    (repo / "tests/pytest.ini").write_text("[pytest]\naddopts = -n 4\n")
    note = "Not used here, of the pytest options in tests/pytest.ini: -n 4."

    async def work(client: Client) -> None:
        command = "pytest tests/test_cart.py -k test_total"
        started = await said(client, START, test=command)
        assert "in test_total (entry)" in started
        assert note in started

    with_client(live(repo), work)


def test_a_cancelled_run_is_interrupted_and_the_debug_session_goes_on(repo: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, START, test=FOREVER)
        running = asyncio.create_task(said(client, "debug_control", action="continue"))
        await asyncio.sleep(0.2)
        running.cancel()
        assert "in forever" in await said(client, "debug_inspect", what="stack")
        assert "Paused at" in await said(client, "debug_control", action="step_over")

    # Without the interrupt the next call would wait for longer than a test may take.
    with_client(live(repo, "agents.debugger.action_timeout=900"), work)


def test_a_client_has_few_calls_waiting(repo: Path, server: ChatServer) -> None:
    server.will_answer(reply(hold=True), reply(ANSWER))

    async def work(client: Client) -> None:
        calls = [asyncio.create_task(said(client, "debug_subagent", **QUESTION)) for _ in range(40)]
        await asyncio.to_thread(server.arrived.acquire)
        await asyncio.sleep(0.1)
        refused = [each.result() for each in calls if each.done()]
        assert len(refused) == 40 - 1 - 8
        assert all("calls wait for their turn" in each for each in refused)
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert await said(client, "debug_subagent", **QUESTION) == ANSWER

    with_client(live(repo, *asked_of(server)), work)
    assert len(server.requests) == 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")
@pytest.mark.usefixtures("offline_maven")
def test_java_is_debugged_too(tmp_path: Path) -> None:
    folder = tmp_path / "parcelroute"
    shutil.copytree(BUNDLED / "repositories" / "parcelroute", folder)
    planner = "src/main/java/org/parcelroute/dispatch/LoadPlanner.java"
    test = "org.parcelroute.dispatch.LoadPlannerTest#aFullVanIsFollowedByAnother"

    async def work(client: Client) -> None:
        assert "is no class of this repository" in await said(client, START, test="org.No#one")
        assert "there is no test aFullV in" in await said(client, START, test=test[:-21])
        paused = await said(client, START, test=test)
        assert "LoadPlannerTest.java" in paused
        name, _, method = test.partition("#")
        for words in (f"mvn -q test -Dtest={test}", f"{name}.{method}"):
            assert "LoadPlannerTest.java" in await said(client, START, test=words)
        (folder / planner).write_text("// new\n" + (folder / planner).read_text())
        changed = await said(client, "debug_inspect", what="stack")
        assert f"{planner} has changed since" in changed
        assert "LoadPlannerTest.java" in await said(client, "debug_control", action="restart")
        read = await said(client, "debug_inspect", what="locals")
        assert "has changed" not in read

    with_client(live(folder), work)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")
@pytest.mark.usefixtures("offline_maven")
def test_a_java_build_serves_later_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "parcelroute"
    shutil.copytree(BUNDLED / "repositories" / "parcelroute", folder)
    planner = folder / "src/main/java/org/parcelroute/dispatch/LoadPlanner.java"
    test = "org.parcelroute.dispatch.LoadPlannerTest#aFullVanIsFollowedByAnother"
    builds: list[str] = []

    def counting(job: BuildJob, module: Module) -> JavaProject:
        builds.append(module.folder)
        return build_maven(job, module)

    monkeypatch.setattr("sandbox.java.build.build_maven", counting)

    async def work(client: Client) -> None:
        for _ in range(3):
            assert "LoadPlannerTest.java" in await said(client, START, test=test)
        planner.write_text("// new\n" + planner.read_text())
        assert "LoadPlannerTest.java" in await said(client, START, test=test)

    with_client(live(folder), work)
    assert len(builds) == 2  # a session stays open until the next one has started


@pytest.mark.parametrize("backend", ["oracle", "manual", "replay"])
def test_models_that_know_or_repeat_bugs_are_refused(backend: str, tmp_path: Path) -> None:
    path = f", path: {tmp_path}" if backend == "replay" else ""
    config = load_config(None, [f"models.it={{backend: {backend}{path}}}"])
    with pytest.raises(ConfigError, match=f"the model it \\({backend}\\) can't answer here"):
        Subagent(config, "it")
