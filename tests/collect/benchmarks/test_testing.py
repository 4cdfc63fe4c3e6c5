from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import pytest

from collect.benchmarks import pytest_launch, pytest_report, pytest_run
from collect.benchmarks.base import Environment, Instance, TestStatus
from collect.benchmarks.local_repository import PytestSuite
from collect.benchmarks.pytest_run import PytestJob, run_job, run_pytest
from collect.benchmarks.workspace import open_instance_sandbox
from sandbox import CommandResult, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch, open_debugger
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


@pytest.mark.slow
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
    assert results.statuses == {"test_a.py::test_x": TestStatus.FAILED}


FORBIDDING = """\
import os
import pytest


def forbidden(*_, **__):
    raise RuntimeError("no blocking call in an event loop")


@pytest.fixture
def forbid(monkeypatch):
    for name in ("getcwd", "stat", "listdir"):
        monkeypatch.setattr(os, name, forbidden)
    for name in ("abspath", "realpath", "relpath"):
        monkeypatch.setattr(os.path, name, forbidden)
"""


FORBIDDEN = """\
import os


def test_x(forbid):
    open(__file__).close()


def test_y(tmp_path):
    os.chdir(tmp_path)
    assert 1 == 2
"""


def test_a_test_may_forbid_functions_and_change_its_folder(sandbox: Sandbox) -> None:
    write(sandbox, {"conftest.py": FORBIDDING, "test_a.py": FORBIDDEN})
    run = run_job(sandbox, PytestJob(["test_a.py"]), timeout=60)
    calls = {report["nodeid"]: report for report in run.reports if report["when"] == "call"}
    assert calls["test_a.py::test_x"]["outcome"] == "passed", run.output
    crash = calls["test_a.py::test_y"]["crash"]
    assert crash == {"path": "test_a.py", "line": 10, "message": "assert 1 == 2"}


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


IN_SANDBOX = (pytest_launch, pytest_report)


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_what_is_copied_is_valid_on_other_pythons(version: str) -> None:
    pythons = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not pythons:
        pytest.skip(f"no CPython {version} under pyenv")
    for module in IN_SANDBOX:
        code = f"import ast; ast.parse(open({str(module.__file__)!r}).read())"
        subprocess.run([str(pythons[0]), "-c", code], check=True, timeout=60)


def test_what_is_copied_imports_only_the_standard_library_and_pytest() -> None:
    for module in IN_SANDBOX:
        lines = map(str.split, Path(str(module.__file__)).read_text().splitlines())
        imported = {words[1] for words in lines if words[:1] in (["import"], ["from"])}
        allowed = {"pytest", "_pytest", "__future__"} | sys.stdlib_module_names
        assert {name.partition(".")[0] for name in imported} <= allowed


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


ENDS = """\
import os


def test_first():
    pass


def test_second():
    assert False


def test_third():
    {end}


def test_fourth():
    pass


def test_fifth():
    assert False
"""
STATUSES_OF_ENDS = {
    "test_a.py::test_first": TestStatus.PASSED,
    "test_a.py::test_second": TestStatus.FAILED,
    "test_a.py::test_third": TestStatus.FAILED,
    "test_a.py::test_fourth": TestStatus.PASSED,
    "test_a.py::test_fifth": TestStatus.FAILED,
}


@pytest.mark.parametrize(
    "end",
    [
        "os._exit(0)",
        pytest.param("os.abort()", marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), 9)", marks=pytest.mark.slow),
    ],
)
def test_a_test_that_ends_the_process_leaves_the_others_alone(sandbox: Sandbox, end: str) -> None:
    write(sandbox, {"test_a.py": ENDS.format(end=end)})
    results = run_pytest(sandbox, list(STATUSES_OF_ENDS), timeout=60)
    assert results.statuses == STATUSES_OF_ENDS
    told = "pytest's process ended during test_a.py::test_third, before pytest did"
    assert results.cut_short is not None
    assert results.cut_short.startswith(told)
    assert results.output.rstrip().endswith(results.cut_short)
    assert results.tampered is None

    suite = PytestSuite((".",), (".",)).run_all(sandbox, timeout=60)
    assert (suite.statuses, suite.cut_short) == (STATUSES_OF_ENDS, results.cut_short)
    assert "ended the process" in suite.reasons["test_a.py::test_third"].message


def test_a_module_that_ends_the_process_has_no_results(sandbox: Sandbox) -> None:
    ends = "import os\nos._exit(0)\n\n\ndef test_x():\n    pass\n"
    write(sandbox, {"test_a.py": ends, "test_b.py": "def test_y():\n    pass\n"})
    results = run_pytest(sandbox, ["test_a.py::test_x", "test_b.py::test_y"], timeout=60)
    assert list(results.statuses.values()) == [TestStatus.MISSING, TestStatus.PASSED]
    assert "before the first test" in str(results.cut_short)


@pytest.mark.slow
def test_the_time_out_holds_for_all_processes_together(sandbox: Sandbox) -> None:
    tests = "".join(f"def test_{n}():\n    time.sleep(3)\n    os._exit(0)\n\n\n" for n in range(6))
    write(sandbox, {"test_a.py": f"import os\nimport time\n\n\n{tests}"})
    results = run_pytest(sandbox, [f"test_a.py::test_{n}" for n in range(6)], timeout=8)
    assert results.timed_out
    assert results.seconds < 20
    assert results.statuses["test_a.py::test_5"] is TestStatus.MISSING


PLUGIN = """\
import pytest


def pytest_addoption(parser):
    parser.addoption("--pens", type=int, default=0)


@pytest.fixture
def pens(request):
    return request.config.getoption("pens")
"""
USES_PLUGIN = {
    "pytest.ini": "[pytest]\naddopts = --pens 3\n",
    "test_pens.py": "def test_pens(pens):\n    assert pens == 4\n",
}


def wheel_of_plugin(folder: Path) -> None:
    about = "pens_plugin-1.0.dist-info"
    files = {
        "pens_plugin.py": PLUGIN,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: pens-plugin\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[pytest11]\npens = pens_plugin\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(folder / "pens_plugin-1.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.mark.slow
def test_options_and_plugins_are_the_same_for_verdicts_and_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel_of_plugin(tmp_path)
    test = "test_pens.py::test_pens"
    bug = Instance(
        *("pens", "local", "python", "pens", "", (test,), (), ""),
        files={path: text.encode() for path, text in USES_PLUGIN.items()},
        environment=Environment(packages=("pens-plugin",)),
    )
    with open_instance_sandbox(SandboxConfig(), bug) as sandbox:
        sandbox.write_files(bug.files)
        results = run_pytest(sandbox, [test], timeout=60)
        with closing(open_debugger("python", sandbox, DebugLimits())) as debugger:
            event = debugger.start(Launch(test, (BreakpointRequest(file="test_pens.py", line=2),)))
            assert event.stops_program, event
            (pens,) = debugger.locals().values
    assert results.statuses == {test: TestStatus.FAILED}
    assert "assert 3 == 4" in results.output
    assert (pens.name, pens.text) == ("pens", "3")


@pytest.mark.parametrize(
    "line",
    [
        *("5", "{}", '{"when": []}', '{"when": "start"}', '{"when": "exit"}', "[" * 99999),
        '{"when": "call", "nodeid": [], "outcome": "passed", "xfail": false}',
    ],
)
def test_a_signed_line_that_pytest_can_not_have_told_is_a_foreign_one(line: str) -> None:
    seal = blake2b(b"0 " + line.encode(), key=b"key").hexdigest()
    result = CommandResult(0, "", False, False, 1.0)
    run = pytest_run._read_run(result, f"{seal} {line}\n".encode(), b"key", {})
    assert (run.changed, run.reports) == (True, [])
