"""A project's own pytest options apply wherever its tests run, and what it lacks is no bug."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import Instance, TestStatus
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.local_repository import open_session
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.errors import ConfigError
from sandbox import Command, SandboxConfig
from sandbox.errors import DebuggerError
from tests.collect.synthesis.sample import write_project

OPTIONS = (
    "-n 4 --cov=shop --timeout=3 --strict-markers --ff --import-mode=importlib -p shop.plugin "
    "--pens=3 -m 'not slow' --doctest-modules tests"
)
SETTINGS = f"""\
[pytest]
addopts = {OPTIONS}
filterwarnings = error
timeout = 30
"""
PLUGIN = """\
import pytest

def pytest_addoption(parser):
    parser.addoption("--pens", type=int, default=0)

@pytest.fixture
def pens(request):
    return request.config.getoption("--pens")
"""
TESTS = '''\
import pytest

def test_pens(pens):
    assert pens == 3

def test_name():
    """
    >>> 1 + 1
    3
    """
    assert "." not in __name__.removeprefix("tests.")

@pytest.mark.timeout(3)
def test_marked():
    assert True

@pytest.mark.slow
def test_slow():
    assert False
'''
# `importlib` imports two modules of the same name.
FILES = {
    "pytest.ini": SETTINGS,
    "shop/__init__.py": "",
    "shop/plugin.py": PLUGIN,
    "tests/test_shop.py": TESTS,
    "tests/more/test_shop.py": "def test_more():\n    assert False\n",
}
DOCTEST = "tests/test_shop.py::test_shop.test_name"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def found(folder: Path, **keys: Any) -> Instance:
    benchmark = open_benchmark(BenchmarkConfig(name="local", path=str(folder), **keys))
    (bug,) = benchmark.instances()
    return bug


def test_they_apply_in_verdicts_debug_sessions_and_commands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_project(tmp_path / "shop", FILES)
    with caplog.at_level(logging.WARNING):
        bug = found(folder)
    assert "not used here, of the pytest options in pytest.ini: -n 4, --cov=shop" in caplog.text
    doctest = next(test for test in bug.fail_to_pass if test.endswith("test_name"))
    assert set(bug.fail_to_pass) == {"tests/more/test_shop.py::test_more", doctest}
    assert {test.rpartition("::")[2] for test in bug.pass_to_pass} == {
        "test_pens",
        "test_name",
        "test_marked",
    }
    benchmark = open_benchmark(BenchmarkConfig(name="local", path=str(folder)))
    with open_instance_sandbox(SandboxConfig(), bug) as sandbox:
        benchmark.prepare(bug, sandbox)
        tests = [*bug.fail_to_pass, *bug.pass_to_pass]
        statuses = benchmark.run_tests(bug, sandbox, tests).statuses
        assert {test for test in tests if statuses[test] is TestStatus.PASSED} == {
            *bug.pass_to_pass
        }
        shown = sandbox.run(Command([sandbox.python, "-m", "pytest", "-q", "tests"])).output
        assert "2 failed, 3 passed, 1 deselected" in shown, shown
    with open_session(folder, "tests/test_shop.py::test_pens") as debugger:
        assert debugger.evaluate("pens").values[0].text == "3"
    with (
        pytest.raises(DebuggerError, match="-m '' selects all markers"),
        open_session(folder, "tests/test_shop.py::test_slow"),
    ):
        pass


def test_a_monorepo_has_several_settings(tmp_path: Path) -> None:
    files = {
        "one/pytest.ini": "[pytest]\npython_files = check_*.py\naddopts = -n 3\n",
        "one/checks/test_none.py": "",
        "one/checks/check_one.py": "def test_one():\n    assert False\n",
        "two/pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--cov=two -k two"\n',
        "two/tests/test_two.py": "def test_two():\n    assert False\n",
    }
    folder = write_project(tmp_path / "mono", files)
    for test in ("one/checks/check_one.py::test_one", "two/tests/test_two.py::test_two"):
        with open_session(folder, test) as debugger:
            assert debugger.evaluate("1 + 1").values[0].text == "2"


def test_options_of_the_command_that_break_a_run_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_project(tmp_path / "shop", {"test_a.py": "def test_a():\n    assert False\n"})
    with caplog.at_level(logging.WARNING):
        bug = found(folder, test_command="python3 -u -m pytest -n 4 --cov shop -x test_a.py")
    assert bug.fail_to_pass == ("test_a.py::test_a",)
    assert "not used here: -n 4, --cov shop" in caplog.text


LACKING = """\
from importlib.metadata import version

import pytest

def test_version():
    assert version("no-such-package")

def test_fixture(faker):
    pass

def test_import():
    import no_such_module

def test_own_module():
    import shop.prices
"""


def test_what_lacks_something_is_no_bug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {"shop/__init__.py": "", "tests/test_shop.py": LACKING}
    folder = write_project(tmp_path / "shop", files)
    with caplog.at_level(logging.WARNING):
        bug = found(folder)
    assert bug.fail_to_pass == ("tests/test_shop.py::test_own_module",)
    assert "3 tests lack what they need here, such as tests/test_shop.py::test_v" in caplog.text
    assert "faker" not in bug.problem_statement

    (folder / "tests/test_shop.py").write_text("def test_fixture(faker): pass\n")
    with pytest.raises(ConfigError) as refusal:
        found(folder)
    told = str(refusal.value)
    assert "no bug is to be seen: 1 test lacks what it needs here, such as " in told
    assert "FixtureLookupError: fixture 'faker' not found; benchmark.more_packages" in told


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"conftest.py": "def pytest_sessionstart(session):\n    raise ValueError('no shop')\n"},
            "ValueError: no shop",
        ),
        ({"pytest.ini": "[pytest]\naddopts = --no-such\n"}, "unrecognized arguments: --no-such"),
        ({"conftest.py": "import nowhere\n"}, "No module named 'nowhere'"),
        ({"test_a.py": "import nowhere\n"}, "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_errors_of_pytest_are_told_in_a_few_lines(
    tmp_path: Path, files: dict[str, str], told: str
) -> None:
    folder = write_project(tmp_path / "shop", {"test_a.py": "def test_a(): pass\n", **files})
    with pytest.raises(ConfigError) as refusal:
        found(folder)
    _, says, causes = str(refusal.value).partition("pytest says:\n")
    assert says
    assert told in causes
    assert len(causes.splitlines()) <= 3
