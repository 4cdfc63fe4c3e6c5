"""What a client sets for its own next starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp.client import Client

from collect.agents.debug_tools import debug_tools
from collect.agents.prompts import wording
from collect.agents.tools import Toolbox
from collect.benchmarks.config import RepositoryConfig
from collect.live.session import LiveSession, Ongoing
from collect.store.messages import ToolCall
from collect.store.run_store import RunStore
from sandbox.debugger import open_debugger
from tests.collect.live.conftest import FOREVER, TEST, live, said, with_client
from tests.collect.live.test_recording import ended, recorded
from tests.sandbox.test_packages import PACKAGE, wheels, write_wheel

__all__ = ["wheels"]
START, SET = "debug_start_session", "debug_environment"
NEEDS_A_PACKAGE = f"import {PACKAGE}\n\ndef test_answer():\n    assert {PACKAGE}.ANSWER == 42\n"
NEEDS_MORE = """\
import os

def test_zone(request):
    zone, strict = os.environ.get("TZ"), request.config.option.strict_markers
    assert (zone, strict) == ("Asia/Tokyo", True)
"""


def evaluated(expression: str) -> dict[str, str]:
    return {"what": "evaluate", "expression": expression}


def answered(session: LiveSession, name: str, **arguments: object) -> str:
    """The text of a call's answer."""
    call = ToolCall("call_0", name, json.dumps(arguments))
    return session.call(call, Ongoing(lambda *_: None)).with_notes


def test_the_tools_of_training_stay_as_they_are(repo: Path) -> None:
    """But for a script below /tmp, which a client can't put into the sandbox."""
    session = LiveSession(live(repo).place)
    trained = debug_tools(open_debugger("python", None))  # type: ignore[arg-type]
    words = wording("python")
    known = json.dumps(Toolbox(trained, words).schemas())
    offered = json.dumps(session.schemas[:-1])
    assert offered == known.replace(words["test_id"], words["own_test_id"])
    assert "/tmp" in known
    assert "/tmp" not in offered
    assert session.schemas[-1]["function"]["name"] == SET


def test_packages_are_there_from_the_next_start_on(repo: Path, wheels: Path) -> None:
    (repo / "tests/test_answer.py").write_text(NEEDS_A_PACKAGE)
    server, test = live(repo), "tests/test_answer.py::test_answer"

    async def work(client: Client) -> None:
        lacking = await said(client, START, test=test)
        assert f"no module {PACKAGE}" in lacking
        assert SET in lacking
        told = await said(client, SET, packages=[PACKAGE])
        assert told == f"Set for your next starts: packages = ['{PACKAGE}']."
        await said(client, START, test=test)
        assert "42" in await said(client, "debug_inspect", **evaluated(f"{PACKAGE}.ANSWER"))
        assert "as it was started" in await said(client, SET)
        assert "42" in await said(client, "debug_inspect", **evaluated(f"{PACKAGE}.ANSWER"))
        assert f"no module {PACKAGE}" in await said(client, START, test=test)

    with_client(server, work)


def test_packages_come_besides_those_that_the_repository_declares(repo: Path, wheels: Path) -> None:
    write_wheel(wheels, "declared_one")
    (repo / "pyproject.toml").write_text(
        '[project]\nname = "shop"\nversion = "1"\ndependencies = ["declared_one"]\n'
    )
    both = f"import declared_one\n{NEEDS_A_PACKAGE}"
    (repo / "tests/test_answer.py").write_text(both)
    test = "tests/test_answer.py::test_answer"

    async def work(client: Client) -> None:
        assert f"no module {PACKAGE}" in await said(client, START, test=test)
        await said(client, SET, packages=[PACKAGE])
        assert "no module" not in await said(client, START, test=test)
        both_loaded = evaluated(f"declared_one.ANSWER == {PACKAGE}.ANSWER")
        assert "True" in await said(client, "debug_inspect", **both_loaded)

    with_client(live(repo), work)


def test_other_clients_are_not_affected(repo: Path) -> None:
    (repo / "tests/test_zone.py").write_text(NEEDS_MORE)
    place, test = live(repo).place, "tests/test_zone.py::test_zone"
    first, second = LiveSession(place), LiveSession(place)
    answered(first, SET, variables={"TZ": "Asia/Tokyo"}, pytest_options=["--strict-markers"])
    for session, told in ((first, "passed in this run"), (second, "assert (None, ")):
        answered(session, START, test=test)
        assert told in answered(session, "debug_control", action="continue")
        session.close()
        session.finish()


def test_the_servers_own_settings_stay_with_it(repo: Path) -> None:
    (repo / "tests/test_zone.py").write_text(NEEDS_MORE)
    own = '{PYTEST_ADDOPTS: "--strict-markers"}'
    server = live(repo, "collect.benchmark={name: local}", f"collect.benchmark.variables={own}")

    async def work(client: Client) -> None:
        await said(client, SET, variables={"TZ": "Asia/Tokyo"}, pytest_options=["-p", "no:logging"])
        await said(client, START, test="tests/test_zone.py::test_zone")
        assert "passed in this run" in await said(client, "debug_control", action="continue")

    with_client(server, work)


def test_one_call_has_the_clients_time_limit(repo: Path) -> None:
    async def work(client: Client) -> None:
        assert "seconds = 1.5" in await said(client, SET, seconds=1.5)
        await said(client, START, test=FOREVER)
        assert "interrupted" in await said(client, "debug_control", action="continue")

    # Without the client's limit the call would outlast the test's.
    with_client(live(repo, "agents.debugger.action_timeout=900"), work)


@pytest.mark.skipif(
    "python" not in RepositoryConfig.model_fields, reason="no setting names the interpreter"
)
def test_an_interpreter_is_one_of_the_machines(repo: Path) -> None:
    async def work(client: Client) -> None:
        assert "3.99" in await said(client, SET, python="3.99")

    with_client(live(repo), work)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"python": "/workspace/python"}, "does not match"),
        ({"python": "../3.11"}, "does not match"),
        ({"packages": ["../evil"]}, "is not the name of a package"),
        ({"packages": ["evil @ file:///evil"]}, "is not the name of a package"),
        ({"packages": ["--index-url=http://evil"]}, "is not the name of a package"),
        ({"variables": {"LD_PRELOAD": "evil.so"}}, "'LD_PRELOAD' can't be set"),
        ({"variables": {"JAVA_TOOL_OPTIONS": "-javaagent:evil.jar"}}, "can't be set"),
        ({"variables": {"PATH": "."}}, "'PATH' can't be set"),
        ({"variables": {"-S": "touch evil"}}, "'-S' can't be set"),
        ({"variables": {"A=B": "1"}}, "'A=B' can't be set"),
        ({"variables": {"PYTEST_ADDOPTS": "-x"}}, "give `pytest_options`"),
        ({"variables": {"A": "x" * 40_000}}, "more than 30000 characters"),
        ({"variables": {"A": "x\0y"}}, "a NUL character"),
        ({"pytest_options": ["x" * 40_000]}, "more than 30000 characters"),
        ({"pytest_options": ["-p", "x\0y"]}, "a NUL character"),
        ({"packages": ["a; os_name == '\n--index-url http://evil'"]}, "is not the name"),
        ({"seconds": 601}, "601"),
        ({"folder": "/evil"}, "was unexpected"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_could_leave_the_sandbox_is_refused(
    repo: Path, arguments: dict[str, object], told: str
) -> None:
    async def work(client: Client) -> None:
        refused = await said(client, SET, **arguments)
        assert refused.startswith("ERROR")
        assert told in refused

    with_client(live(repo), work)


def test_what_can_not_be_installed_changes_nothing(repo: Path, wheels: Path) -> None:
    (repo / "tests/test_answer.py").write_text(NEEDS_A_PACKAGE)
    test = "tests/test_answer.py::test_answer"

    async def work(client: Client) -> None:
        await said(client, SET, packages=[PACKAGE])
        refused = await said(client, SET, packages=["no-such-package"])
        assert refused.startswith("ERROR")
        assert "Nothing has changed" in refused
        assert "no module" not in await said(client, START, test=test)

    with_client(live(repo), work)


def test_a_record_has_debugging_alone(repo: Path, tmp_path: Path) -> None:
    server = recorded(repo, tmp_path / "run")

    async def work(client: Client) -> None:
        await said(client, SET, variables={"TZ": "Asia/Tokyo"})
        await said(client, START, test=TEST)

    with_client(server, work)
    ended(server)
    (conversation,) = RunStore(tmp_path / "run").read_conversations()
    assert SET not in repr(conversation)
    assert START in repr(conversation)


def test_tests_that_decide_a_record_have_the_servers_settings(repo: Path, tmp_path: Path) -> None:
    server = recorded(repo, tmp_path / "run", "--test", TEST)

    async def work(client: Client) -> None:
        refused = await said(client, SET, pytest_options=["--runxfail"])
        assert "are up to who runs this server" in refused
        assert "Set for" in await said(client, SET, packages=[])

    with_client(server, work)
    ended(server)
