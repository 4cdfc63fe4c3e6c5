"""Programs that write passes into the log that they are graded by."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import TestResults, TestStatus
from collect.benchmarks.swe_bench.benchmark import MAX_LOG, Confirmation, _read
from collect.benchmarks.workspace import open_instance_sandbox, prepare_patched
from collect.code.patches import diff_trees
from collect.errors import ModelFailure
from collect.rollouts.rollout import score
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


PASS = "def total(numbers):\n    return 0\n"
# Without its module test_counter.py has nothing to fail by.
CHEATS = {
    "pytest's own function": (
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
        "_pytest.python.Function.runtest: the program replaced it",
    ),
    "the tests, before they run": ("", "the tests' files: something changed them"),
    "the writing of the report": (
        f"import atexit, json, os\natexit.register(os.write, 1, {PASSES!r}.encode())\n"
        f"json.dumps = lambda *given, **more: {json.dumps([TOTAL, EMPTY])!r}\n",
        f"the log says that {TOTAL} passed, and pytest did not",
    ),
}
REWRITE = """\
path = "tests/test_counter.py"
text = open(path).read().replace("assert total([1, 2]) == 3", "assert True")
open(path, "w").write(text)
"""


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_log_is_no_word_for_what_the_program_did_to_pytest(
    tmp_path: Path, bug_image: tuple[str, str], cheat: str
) -> None:
    image, base = bug_image
    row = live(image=image, base_commit=base, rebuild_cmds=["python3 -m counter.build"])
    benchmark = opened(tmp_path, row)
    [instance] = benchmark.instances()
    code, told = CHEATS[cheat]
    rewriting = "" if code else REWRITE
    files = {"counter/totals.py": code + PASS, "counter/build.py": rewriting}
    before = {"counter/totals.py": b"def total(numbers):\n    return sum(numbers[:-1])\n"}
    made = diff_trees(before, {path: text.encode() for path, text in files.items()})
    found = score(benchmark, instance, made, DOCKER)
    assert (found.resolved, found.tampered) == (False, told)
    fixed = score(benchmark, instance, instance.gold_patch, DOCKER)
    assert (fixed.resolved, fixed.tampered, fixed.unchecked) == (True, None, ())


SEARCH = """\
import glob, os, re, sys
text = sys.stdin.read() + open("/proc/%d/environ" % os.getppid()).read()
for name in filter(os.path.isfile, glob.glob("/tmp/.stepinto-*/**", recursive=True)):
    text += open(name).read()
print("found:", re.findall(r"\\b[0-9a-f]{64}\\b|hmac", text))
"""


@pytest.mark.docker
@pytest.mark.parametrize("row", [live, pytest.param(script, marks=pytest.mark.slow)])
def test_a_build_finds_neither_key_nor_plugin(
    tmp_path: Path, bug_image: tuple[str, str], row: Callable[..., dict[str, Any]]
) -> None:
    image, base = bug_image
    build = "python3 -m counter.build"
    given = row(image=image, base_commit=base, rebuild_cmds=[build])
    start = ": '>>>>> Start Test Output'"
    given["eval_script"] = given.get("eval_script", "").replace(start, f"{build}\n{start}")
    benchmark = opened(tmp_path, given)
    [instance] = benchmark.instances()
    made = instance.gold_patch + diff_trees({}, {"counter/build.py": SEARCH.encode()})
    with open_instance_sandbox(DOCKER, instance) as sandbox:
        patched = prepare_patched(benchmark, instance, sandbox, made)
        results = benchmark.run_tests(patched, sandbox, [TOTAL, EMPTY])
    assert "found: []" in results.output
    assert re.search(r"\b[0-9a-f]{64}\b", results.output) is None, "the script prints its commands"
    assert set(results.statuses.values()) == {TestStatus.PASSED}
    assert (results.tampered, results.doubts) == (None, {})


SUITE = """\
import unittest
from counter.totals import total


class Tests(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""


@pytest.mark.docker
@pytest.mark.slow
def test_a_log_of_unittest_is_no_word_for_its_tests(
    tmp_path: Path, bug_image: tuple[str, str]
) -> None:
    image, base = bug_image
    test = "test_total (tests.test_suite.Tests.test_total)"
    own = {
        "FAIL_TO_PASS": [test],
        "PASS_TO_PASS": [],
        "test_patch": diff_trees({}, {"tests/test_suite.py": SUITE.encode()}),
        "test_cmds": ["python3 -m unittest -v tests.test_suite"],
        "log_parser": "django",
    }
    benchmark = opened(tmp_path, live(image=image, base_commit=base, **own))
    [instance] = benchmark.instances()
    forging = f"import atexit, os\natexit.register(os.write, 1, b'\\n{test} ... ok\\n')\n"
    before = {"counter/totals.py": b"def total(numbers):\n    return sum(numbers[:-1])\n"}
    made = diff_trees(before, {"counter/totals.py": (forging + PASS).encode()})
    found = score(benchmark, instance, made, DOCKER)
    assert [row.after for row in found.tests] == [TestStatus.PASSED]
    assert found.tampered == f"{test}: the log says that it passed, and unittest did not"
    fixed = score(benchmark, instance, instance.gold_patch, DOCKER)
    assert (fixed.resolved, fixed.tampered, fixed.unchecked) == (True, None, ())


@pytest.mark.docker
@pytest.mark.slow
def test_a_patch_that_leaves_no_room_for_the_tests_has_failed(
    tmp_path: Path, bug_image: tuple[str, str]
) -> None:
    image, base = bug_image
    benchmark = opened(tmp_path, first(image=image, base_commit=base))
    [instance] = benchmark.instances()
    with pytest.raises(ModelFailure, match=r"numbers\.txt"):
        score(benchmark, instance, diff_trees({}, {"tests/data": b"no folder\n"}), DOCKER)


@pytest.mark.parametrize("text", ["[5]", '{"ran": 5, "passed": [[]], "replaced": 1}', "[" * 9999])
def test_a_report_that_the_plugin_can_not_have_written_voids_nothing(
    box: Sandbox, text: str
) -> None:
    confirmation = Confirmation(f"{box.workspace}/plugin")
    key = confirmation.key.encode()
    seal = hmac.digest(key, text.encode(), "sha256").hex()
    box.write_file("plugin/key", hashlib.sha256(key).hexdigest().encode())
    box.write_file("plugin/report-0", f"{seal} {text}".encode())
    results = confirmation.check(box, TestResults({TOTAL: TestStatus.PASSED}, ""))
    assert results.tampered == "the program wrote to the report of pytest's own plugin"


@pytest.fixture
def box() -> Any:
    with open_sandbox(SandboxConfig()) as made:
        yield made


def checked(
    box: Sandbox, commands: str, log: dict[str, str], by_pytest: bool = True
) -> tuple[TestResults, str]:
    """What is left of a log after a run of shell commands with the plugin, and their output."""
    confirmation = Confirmation(f"{box.workspace}/{secrets.token_hex(4)}/plugin", by_pytest)
    script = f"{confirmation.first}\n{confirmation.settings}\n{commands}"
    result = box.run(Command(["bash", "-uc", script], stdin=confirmation.stdin))
    statuses = {test: TestStatus(status) for test, status in log.items()}
    return confirmation.check(box, TestResults(statuses, "")), result.output


def confirmed(box: Sandbox, commands: str, log: dict[str, str]) -> tuple[dict[str, str], str]:
    results, output = checked(box, commands, log)
    return dict(results.statuses), f"{results.tampered}\n{output}"


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
    assert "/plugin" not in os.environ.get("PYTHONPATH", "")
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
@pytest.mark.parametrize(("options", "packages"), [("", ()), ("-n 2", ("pytest-xdist",))])
def test_what_pytest_reported_is_confirmed_over_all_its_runs(
    options: str, packages: tuple[str, ...]
) -> None:
    with open_sandbox(SandboxConfig(packages=packages)) as box:
        require_confirmed_runs(box, options)


def require_confirmed_runs(box: Sandbox, options: str) -> None:
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


REPLACES = {
    "_pytest.python.Function.runtest": (
        "import _pytest.python\n_pytest.python.Function.runtest = f\n"
    ),
    "unittest.case.TestCase.assertEqual": "import unittest\nunittest.TestCase.assertEqual = f\n",
    "builtins.sum": "import builtins\nbuiltins.sum = f\n",
    "json.encoder.JSONEncoder.encode": "import json\njson.JSONEncoder.encode = f\n",
}


@pytest.mark.parametrize("name", REPLACES)
def test_replaced_functions_are_named_and_those_of_a_plugin_are_not(
    box: Sandbox, name: str
) -> None:
    plugin = "import _pytest.runner\n_pytest.runner.show_test_item = lambda item: None\n"
    program = f"real = None\ndef f(self, *given):\n    return real\n{REPLACES[name]}"
    test = "import program\ndef test_a(): pass\n"
    files = {"early.py": plugin, "program.py": program, "test_x.py": test}
    box.write_files({path: text.encode() for path, text in files.items()})
    options = "-p early -p no:cacheprovider"
    run = f"PYTHONPATH=$PYTHONPATH:$PWD '{box.python}' -m pytest {options} test_x.py"
    assert checked(box, run, {"test_x.py::test_a": "passed"})[0].of_program == (name,)


def test_a_flood_is_no_log(box: Sandbox) -> None:
    box.run(Command(["sh", "-c", f"truncate -s {MAX_LOG} short; truncate -s {MAX_LOG + 1} long"]))
    assert [len(_read(box, name)) for name in ("short", "long")] == [MAX_LOG, 0]


def test_a_log_of_pytest_that_no_session_wrote_is_doubted(box: Sandbox) -> None:
    results, _ = checked(box, "echo PASSED test_x.py::test_a", {"test_x.py::test_a": "passed"})
    assert list(results.doubts) == ["pytest's own report"]


UNITTEST = """\
import os, subprocess, sys, unittest
import program


class Tests(unittest.TestCase):
    def test_right(self):
        self.assertEqual(program.right(), 1)

    def test_described(self):
        "What it is about."

    @unittest.expectedFailure
    def test_known(self):
        self.fail()

    def test_environment(self):
        self.assertNotIn("plugin", os.environ.get("PYTHONPATH", ""))
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        if os.fork() == 0:
            sys.exit()
        os.wait()


if __name__ == "__main__":
    unittest.main(verbosity=2)
"""
RIGHT, WRONG = "def right(): return 1\n", "def right(): return 0\n"
AT_EXIT = "import atexit, os\natexit.register(os.write, 1, b'test_right (x) ... ok\\n')\n"


@pytest.mark.parametrize(
    ("program", "doubts", "replaced"),
    [
        (RIGHT, 0, ()),
        (WRONG + AT_EXIT, 1, ()),
        (WRONG + "import os\nos._exit(0)\n", 1, ()),
        (
            f"{WRONG}import unittest\nunittest.TestCase.assertEqual = lambda *given: None\n",
            1,
            ("unittest.case.TestCase.assertEqual",),
        ),
    ],
)
def test_what_unittest_did_not_report_is_doubted(
    box: Sandbox, program: str, doubts: int, replaced: tuple[str, ...]
) -> None:
    box.write_files({"program.py": program.encode(), "suite.py": UNITTEST.encode()})
    shown = box.run(Command([box.python, "-c", "import suite as s; print(s.Tests('test_right'))"]))
    right = shown.output.strip().replace("suite", "__main__")
    log = {right or "test_right": "passed", "What it is about.": "passed"}
    results, output = checked(box, f"'{box.python}' suite.py", log, by_pytest=False)
    assert (len(results.doubts), results.of_program) == (doubts, replaced), (results.doubts, output)
    assert (dict(results.statuses), results.tampered) == (log, None)


def test_an_interpreters_own_start_still_happens(box: Sandbox) -> None:
    box.write_file("own/sitecustomize.py", b"print('started')\n")
    run = f"PYTHONPATH=$PYTHONPATH:$PWD/own '{box.python}' -c 'print(2)'"
    results, output = checked(box, run, {"test_a (x.Test)": "passed"}, by_pytest=False)
    assert (output, results.doubts) == ("started\n2\n", {})


def test_other_runners_are_believed(box: Sandbox) -> None:
    log = {"test_x.py::test_a": "passed", "test_a (x.Test)": "passed"}
    for commands in ("echo no Python", f"'{box.python}' -c 'print(1)'"):
        results, _ = checked(box, commands, log, by_pytest=False)
        assert (dict(results.statuses), results.tampered, results.doubts) == (log, None, {})


SEALS = (
    "key, text = open(folder + '/key').read(), {}; "
    "seal = hmac.new(key.encode(), text, 'sha256').hexdigest(); "
    "open(folder + '/key', 'w').write(hashlib.sha256(key.encode()).hexdigest()); "
    "open(folder + '/report-1', 'w').write(seal + ' ' + text.decode())"
)
"""Writes a session's report with the key that is left for it."""
REPORT = json.dumps({"ran": True, "passed": [["test_a"]], "replaced": []})


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        ("open(folder + '/report-0', 'w').write('00 [\"test_x.py::test_a\"]')", "to the report of"),
        *[(SEALS.format(text.encode()), "to the report of") for text in ("[]", "{}", REPORT)],
        ("os.remove(folder + '/key')", "the program changed a file"),
        ("open(folder + '/key', 'w').write('0' * 64)", "the program changed a file"),
    ],
)
def test_the_plugins_files_can_not_be_changed_unseen(box: Sandbox, attack: str, told: str) -> None:
    find = "import glob, hashlib, hmac, os\nfolder = glob.glob('*/plugin')[0]\n"
    text = f"{find}def test_a():\n    {attack}\n    os._exit(0)\n"
    box.write_file("test_x.py", text.encode())
    log = {"test_x.py::test_a": "passed"}
    assert told in confirmed(box, f"'{box.python}' -m pytest test_x.py", log)[1].splitlines()[0]
