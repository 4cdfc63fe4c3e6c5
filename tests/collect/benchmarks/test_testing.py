from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from collect.benchmarks import pytest_report
from collect.benchmarks.base import TestStatus
from collect.benchmarks.local_repository.python_suites import PytestSuite
from collect.benchmarks.testing import run_pytest
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable

STATUSES = """\
import pytest
import unittest


@pytest.fixture
def broken():
    raise RuntimeError("setup")


@pytest.fixture
def breaks_later():
    yield
    raise RuntimeError("teardown")


def test_passes():
    pass


def test_fails():
    assert 1 == 2


def test_setup_fails(broken):
    pass


def test_teardown_fails(breaks_later):
    pass


@pytest.mark.skip(reason="no")
def test_skipped():
    pass


@pytest.mark.xfail
def test_expected_failure():
    assert False


@pytest.mark.parametrize("text", ["a b", "x::y", "[]"])
def test_parametrized(text):
    assert text != "x::y"


class TestGroup(unittest.TestCase):
    def test_method(self):
        pass


def test_not_asked_for():
    open("ran", "w").close()
"""


def write(sandbox: Sandbox, files: dict[str, str]) -> None:
    sandbox.write_files({path: text.encode() for path, text in files.items()})


def test_every_status(sandbox: Sandbox) -> None:
    write(sandbox, {"tests/test_all.py": STATUSES})
    expected = {
        "test_passes": TestStatus.PASSED,
        "test_fails": TestStatus.FAILED,
        "test_setup_fails": TestStatus.FAILED,
        "test_teardown_fails": TestStatus.FAILED,
        "test_skipped": TestStatus.SKIPPED,
        "test_expected_failure": TestStatus.PASSED,
        "test_parametrized[a b]": TestStatus.PASSED,
        "test_parametrized[x::y]": TestStatus.FAILED,
        "test_parametrized[[]]": TestStatus.PASSED,
        "TestGroup::test_method": TestStatus.PASSED,
        "test_unknown": TestStatus.MISSING,
    }
    wanted = {f"tests/test_all.py::{name}": status for name, status in expected.items()}
    wanted["tests/test_none.py::test_x"] = TestStatus.MISSING
    before = sandbox.read_tree()
    results = run_pytest(sandbox, list(wanted), timeout=60)
    assert results.statuses == wanted
    assert not results.timed_out
    assert sandbox.read_tree() == before


def test_a_file_that_does_not_import_leaves_the_others_alone(sandbox: Sandbox) -> None:
    write(
        sandbox,
        {
            "pytest.ini": "[pytest]\naddopts = -x\n",
            "test_a.py": "import nowhere_to_be_found\n\n\ndef test_x():\n    pass\n",
            "test_b.py": "def test_y():\n    assert False\n\n\ndef test_z():\n    pass\n",
        },
    )
    results = run_pytest(
        sandbox, ["test_a.py::test_x", "test_b.py::test_y", "test_b.py::test_z"], timeout=60
    )
    assert list(results.statuses.values()) == ["missing", "failed", "passed"]
    assert "nowhere_to_be_found" in results.output


def test_a_time_out_keeps_what_ended_before_it(sandbox: Sandbox) -> None:
    write(
        sandbox,
        {
            "test_a.py": "import time\n\n\ndef test_first():\n    pass\n\n\n"
            "def test_endless():\n    while True:\n        time.sleep(1)\n\n\n"
            "def test_last():\n    pass\n"
        },
    )
    tests = ["test_a.py::test_first", "test_a.py::test_endless", "test_a.py::test_last"]
    results = run_pytest(sandbox, tests, timeout=15)
    assert results.timed_out
    assert list(results.statuses.values()) == ["passed", "missing", "missing"]


def test_a_program_that_exits_or_prints_a_verdict_fakes_none(sandbox: Sandbox) -> None:
    fake = {"nodeid": "test_a.py::test_x", "when": "teardown", "outcome": "passed", "xfail": False}
    write(
        sandbox,
        {
            "test_a.py": "import os\n\n\ndef test_x():\n"
            f"    print({json.dumps(json.dumps(fake))}, '1 passed', flush=True)\n    os._exit(0)\n"
        },
    )
    results = run_pytest(sandbox, ["test_a.py::test_x"], timeout=60)
    assert results.statuses == {"test_a.py::test_x": TestStatus.MISSING}


def test_conftest_is_used(sandbox: Sandbox) -> None:
    write(
        sandbox,
        {
            "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef one():\n    return 1\n",
            "tests/test_a.py": "def test_x(one):\n    assert one == 1\n",
        },
    )
    results = run_pytest(sandbox, ["tests/test_a.py::test_x"], timeout=60)
    assert results.statuses == {"tests/test_a.py::test_x": TestStatus.PASSED}


def test_no_tests_run_nothing(sandbox: Sandbox) -> None:
    assert run_pytest(sandbox, [], timeout=60).statuses == {}


def python_without_pytest() -> str:
    candidates = [Path("/usr/bin/python3"), *Path.home().glob(".pyenv/versions/3.*/bin/python")]
    for python in filter(Path.exists, candidates):
        argv = [str(python), "-I", "-c", "import pytest"]
        if subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode:
            return str(python)
    pytest.skip("every Python of this machine has pytest")


def test_a_python_without_pytest_is_named() -> None:
    with open_sandbox(SandboxConfig(python=python_without_pytest())) as sandbox:
        write(sandbox, {"test_a.py": "def test_x():\n    pass\n"})
        with pytest.raises(SandboxUnavailable, match="has no pytest"):
            run_pytest(sandbox, ["test_a.py::test_x"], timeout=60)
        assert set(sandbox.read_tree()) == {"test_a.py"}


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_the_plugin_is_valid_on_other_pythons(version: str) -> None:
    pythons = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not pythons:
        pytest.skip(f"no CPython {version} under pyenv")
    source = Path(pytest_report.__file__)
    code = f"import ast; ast.parse(open({str(source)!r}).read())"
    subprocess.run([str(pythons[0]), "-c", code], check=True, timeout=60)


def test_the_plugin_imports_only_the_standard_library_and_pytest() -> None:
    lines = Path(pytest_report.__file__).read_text().splitlines()
    imported = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert imported - {"pytest", "__future__"} <= sys.stdlib_module_names


def test_no_module_of_the_workspace_stands_in_for_pytest(sandbox: Sandbox) -> None:
    write(
        sandbox,
        {
            "pytest.py": "import os\nos._exit(0)\n",
            "program.py": "VALUE = 1\n",
            "test_a.py": "from program import VALUE\n\n\ndef test_x():\n    assert VALUE == 1\n",
        },
    )
    results = run_pytest(sandbox, ["test_a.py::test_x"], timeout=60)
    assert results.statuses == {"test_a.py::test_x": TestStatus.PASSED}


def test_a_program_that_calls_xfail_or_skip_passes_nothing(sandbox: Sandbox) -> None:
    write(
        sandbox,
        {
            "program.py": "import pytest\n\n\ndef give_up(how):\n    getattr(pytest, how)('no')\n",
            "test_a.py": "import unittest\nfrom program import give_up\n\n\n"
            "def test_x():\n    give_up('xfail')\n\n\ndef test_y():\n    give_up('skip')\n\n\n"
            "class TestGroup(unittest.TestCase):\n    @unittest.expectedFailure\n"
            "    def test_expected(self):\n        self.fail()\n",
        },
    )
    tests = ["test_a.py::test_x", "test_a.py::test_y", "test_a.py::TestGroup::test_expected"]
    results = run_pytest(sandbox, tests, timeout=60)
    assert list(results.statuses.values()) == ["skipped", "skipped", "passed"]


@pytest.mark.parametrize(
    "damage", ["shutil.rmtree(folder)", "open(folder + '/report.jsonl', 'a').write('x\\n[]\\n')"]
)
def test_a_damaged_report_is_no_crash(sandbox: Sandbox, damage: str) -> None:
    write(
        sandbox,
        {
            "test_a.py": "import glob\nimport shutil\n\n\ndef test_x():\n"
            f"    [folder] = glob.glob('.stepinto-*')\n    {damage}\n    assert False\n"
        },
    )
    results = run_pytest(sandbox, ["test_a.py::test_x"], timeout=60)
    assert results.statuses["test_a.py::test_x"] is not TestStatus.PASSED


def test_files_that_cannot_be_imported_are_told_however_long_the_output_is() -> None:
    broken = {f"test_{number:02}.py": "import not_to_be_had\n" for number in range(20)}
    with open_sandbox(SandboxConfig(output_limit=2_000)) as sandbox:
        write(sandbox, {**broken, "test_fine.py": "def test_x():\n    pass\n"})
        run = PytestSuite((".",), (".",)).run_all(sandbox, timeout=120)
    assert "bytes cut" in run.output
    assert sorted(run.unloaded) == sorted(broken)
    assert run.statuses == {"test_fine.py::test_x": TestStatus.PASSED}
