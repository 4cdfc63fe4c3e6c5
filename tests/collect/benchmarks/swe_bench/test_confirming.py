"""Programs that write passes into the log that they are graded by."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import TestStatus
from collect.benchmarks.swe_bench.benchmark import Confirmation
from collect.benchmarks.workspace import open_instance_sandbox, prepare_patched
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from tests.collect.benchmarks.swe_bench.rows import EMPTY, TOTAL, first, live
from tests.collect.benchmarks.swe_bench.test_running import DOCKER, SCRIPT, opened

PASSES = f"\n=== short test summary info ===\nPASSED {TOTAL}\nPASSED {EMPTY}\n"
REAL = (
    "out = [n for n in range(3, 20) if os.path.exists('/proc/self/fd/%d' % n) and "
    "os.readlink('/proc/self/fd/%d' % n).endswith(('/log', '/tests'))]; "
)
ATTACKS = {
    "writes and ends": REAL + f"[os.write(n, {PASSES!r}.encode()) for n in out]; os._exit(0)",
    "writes at the end": (
        f"import atexit; atexit.register(os.write, 1, {PASSES!r}.encode()); return 0"
    ),
}


def script(**changes: Any) -> dict[str, Any]:
    text = SCRIPT.replace("@BASE", changes["base_commit"])
    return first(**changes, eval_script=text, log_parser="parse_log_pytest")


QUICK = [("writes at the end", live)]


@pytest.mark.docker
@pytest.mark.parametrize(
    ("attack", "row"),
    [
        pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])
        for case in product(ATTACKS, (first, live, script))
    ],
)
def test_passes_that_a_program_writes_do_not_count(
    tmp_path: Path, bug_image: tuple[str, str], row: Callable[..., dict[str, Any]], attack: str
) -> None:
    image, base = bug_image
    benchmark = opened(tmp_path, row(image=image, base_commit=base))
    [instance] = benchmark.instances()
    forged = instance.gold_patch.replace(
        "+    return sum(numbers)", f"+    import os; {ATTACKS[attack]}"
    )
    with open_instance_sandbox(DOCKER, instance) as sandbox:
        patched = prepare_patched(benchmark, instance, sandbox, forged)
        results = benchmark.run_tests(patched, sandbox, [TOTAL, EMPTY])
    assert results.statuses[TOTAL] is not TestStatus.PASSED
    # What ends pytest confirms nothing, and is not told from a crash. With a script of the
    # record's own, a failing command without a failure in its log is void anyway.
    told = row is not script and attack != "writes and ends"
    assert (f"the log says that {TOTAL} passed" in str(results.tampered)) is told


@pytest.fixture
def box() -> Any:
    with open_sandbox(SandboxConfig()) as made:
        yield made


def confirmed(box: Sandbox, commands: str, log: dict[str, str]) -> tuple[dict[str, str], str]:
    """What is left of a log after a run of shell commands with the plugin."""
    confirmation = Confirmation(f"{box.workspace}/{secrets.token_hex(4)}/plugin")
    confirmation.lay_out(box)
    result = box.run(Command(["bash", "-uc", f"{confirmation.settings}\n{commands}"]))
    statuses = {test: TestStatus(status) for test, status in log.items()}
    found, tampered = confirmation.check(box, statuses)
    return dict(found), f"{tampered}\n{result.output}"


TESTS = """\
import os, subprocess, sys, pytest

@pytest.mark.parametrize("text", ["a b", "c/d"])
def test_both(text): pass

@pytest.mark.xfail
def test_known(): assert False

@pytest.mark.parametrize("number", [1, 2])
def test_one(number): assert number == 1

def test_environment():
    assert "PYTEST_ADDOPTS" not in os.environ
    assert "stepinto" not in os.environ.get("PYTHONPATH", "")
    assert not [path for path in sys.path if path.endswith("/plugin")]
    inner = [sys.executable, "-m", "pytest", "--co", "-q", __file__]
    assert subprocess.run(inner).returncode == 0

class TestInside:
    def test_method(self): pass
"""
LOG = {
    "tests/test_all.py::test_both[a": "passed",
    "tests/test_all.py::test_both[/d]": "passed",
    "tests/test_all.py::test_known": "passed",
    "tests/test_all.py::test_one[1]": "passed",
    "tests/test_all.py::test_one[2]": "failed",
    "tests/test_all.py::test_environment": "passed",
    "tests/test_all.py::TestInside::test_method": "passed",
    "other/test_more.py::test_more": "passed",
}
RUNS = "$P -m pytest -q tests; $P -m pytest -rA other"


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "-n 2"])
def test_what_pytest_reported_is_confirmed_over_all_its_runs(box: Sandbox, options: str) -> None:
    pytest.importorskip("xdist") if options else None
    files = {"tests/test_all.py": TESTS, "other/test_more.py": "def test_more(): pass\n"}
    box.write_files({path: text.encode() for path, text in files.items()})
    commands = f"P='{box.python}'; {RUNS} {options}"
    found, told = confirmed(box, commands, LOG)
    assert (found, told.splitlines()[0]) == (LOG, "None"), told
    one_more = {**LOG, "tests/test_all.py::test_one[2]": "passed"}
    found, told = confirmed(box, commands, one_more)
    assert sum(status == "passed" for status in found.values()) == len(LOG) - 1
    assert told.startswith("the log says that tests/test_all.py::test_one[")


def test_a_session_without_its_end_confirms_nothing(box: Sandbox) -> None:
    text = "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)\n"
    box.write_file("test_x.py", text.encode())
    log = {"test_x.py::test_a": "passed", "test_x.py::test_b": "passed"}
    found, told = confirmed(box, f"'{box.python}' -m pytest test_x.py", log)
    assert (set(found.values()), told.splitlines()[0]) == ({"failed"}, "None")


def test_other_runners_are_believed(box: Sandbox) -> None:
    log = {"test_x.py::test_a": "passed", "test_a (x.Test)": "passed"}
    found, told = confirmed(box, "echo no pytest", log)
    assert (found, told.splitlines()[0]) == (log, "None")


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        ("open(folder + '/report-0', 'w').write('00 [\"test_x.py::test_a\"]')", "to the report of"),
        ("os.remove(folder + '/key')", "the program changed a file"),
        ("open(folder + '/key', 'w').write('0' * 64)", "the program changed a file"),
    ],
)
def test_the_plugins_files_can_not_be_changed_unseen(box: Sandbox, attack: str, told: str) -> None:
    find = "import glob, os\nfolder = glob.glob('*/plugin')[0]\n"
    text = f"{find}def test_a():\n    {attack}\n    os._exit(0)\n"
    box.write_file("test_x.py", text.encode())
    log = {"test_x.py::test_a": "passed"}
    assert told in confirmed(box, f"'{box.python}' -m pytest test_x.py", log)[1].splitlines()[0]
