"""A repository starts at the first try, with no setting: it looks as installed in place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from mcp.client import Client

from collect.benchmarks.workspace import write_folder
from collect.live.repository import LiveRepository
from configs.command_line.bench import describe
from configs.loading import load_config
from tests.collect.live.conftest import live, said, with_client
from tests.sandbox.languages.python.conftest import BUILD, backend

START = "debug_start_session"
PLUGIN = """
import pytest


@pytest.fixture
def pens():
    return 3
"""
TESTS = """
import importlib.metadata as m
import subprocess

import acme


def test_installed(pens):
    assert pens == 3
    assert m.version("acme") == "1.2.4.dev1"
    assert [point.load() for point in m.entry_points(group="acme.things")] == [acme.THING]
    assert subprocess.run(["acme-tool"], capture_output=True, text=True).stdout == "ran\\n"


def test_missing():
    import nowhere
"""
ENTRY_POINTS = """
[console_scripts]
acme-tool = acme:main
[acme.things]
thing = acme:THING
[pytest11]
acme = acme.fixtures
"""
FILES = {
    "src/acme/__init__.py": "THING = 5\n\n\ndef main():\n    print('ran')\n",
    "src/acme/fixtures.py": PLUGIN,
    "tests/test_acme.py": TESTS,
    "backend.py": backend(
        version="os.environ['SETUPTOOLS_SCM_PRETEND_VERSION']", entry_points=ENTRY_POINTS
    ),
    "pyproject.toml": BUILD
    + """
[project]
name = "acme"
dynamic = ["version"]
[dependency-groups]
dev = ["nowhere>=2"]
""",
}


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose version is its tag's, and whose tests need a package that is nowhere."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    folder = tmp_path / "acme"
    write_folder(folder, {path: text.encode() for path, text in FILES.items()})
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for tag in ("v1.2.3", ""):
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", "x", "--allow-empty"], check=True)
        if tag:
            subprocess.run([*git, "tag", tag], check=True)
    return folder


def test_a_project_looks_as_installed_in_place(acme: Path) -> None:
    async def work(client: Client) -> None:
        started = await said(client, START, test="tests/test_acme.py::test_installed")
        assert "Paused at tests/test_acme.py:9" in started
        reason = "No matching distribution found for nowhere>=2"
        assert "The tests' environment: nowhere is not installed: " in started
        assert reason in started
        ended = await said(client, "debug_control", action="continue")
        assert "passed in this run" in ended, ended
        missing = await said(client, START, test="tests/test_acme.py::test_missing")
        assert "The tests' environment" not in missing
        ended = await said(client, "debug_control", action="continue")
        assert "No module named 'nowhere'" in ended

    with_client(live(acme), work)


def test_a_users_plugins_add_to_those_of_the_project(acme: Path) -> None:
    (acme / "mine.py").write_text("import pytest\n\n\n@pytest.fixture\ndef mine():\n    pass\n")
    test = "def test_both(pens, mine):\n    assert pens == 3\n"
    (acme / "tests" / "test_both.py").write_text(test)

    async def work(client: Client) -> None:
        started = await said(client, START, test="tests/test_both.py::test_both")
        assert "Paused at tests/test_both.py:2" in started

    settings = 'collect.benchmark={name: local, variables: {PYTEST_PLUGINS: "mine"}}'
    with_client(live(acme, settings), work)


def test_a_plugin_that_the_projects_options_name_is_loaded_once(acme: Path) -> None:
    (acme / "pytest.ini").write_text("[pytest]\naddopts = -p acme\n")

    async def work(client: Client) -> None:
        started = await said(client, START, test="tests/test_acme.py::test_installed")
        assert "Paused at tests/test_acme.py:9" in started

    with_client(live(acme), work)


def test_what_is_missing_is_shown(acme: Path) -> None:
    config = load_config(None, [])
    repository = LiveRepository(acme, config.collect.benchmark, config.sandbox)
    shown = describe(repository.now(), gold=False)
    assert "Environment:\n    The tests run in CPython " in shown
    assert "\n    nowhere is not installed: " in shown
