"""Commands as tests: run as Python itself runs them, and not passed by ending early."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from collect.benchmarks.base import TestResults
from collect.benchmarks.local_repository.benchmark import CommandSuite
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox

CHECK = "import sys\nfrom shop import total\n\nassert total([1, 2]) == 3\n"
BY_EXIT = "import sys\nfrom shop import total\n\ncode = total([1, 2]) != 3\nsys.exit(int(code))\n"
UNITTEST = """\
import unittest
import shop

class Totals(unittest.TestCase):
    def test_total(self):
        self.assertEqual(shop.total([1, 2]), 3)

if __name__ == "__main__":
    unittest.main()
"""
SHOP = "import sys, os\n\ndef total(numbers):\n    {}\n    return {}\n"
SUM, WRONG = "sum(numbers)", "0"
ATTACKS = {
    "exits": "raise SystemExit(0)",
    "exits by the standard library": "sys.exit()",
    "exits by a builtin": "exit(0)",
    "exits at once": "os._exit(0)",
    "exits by a signal": (
        "import signal; signal.signal(signal.SIGALRM, lambda *a: sys.exit(0)); "
        "signal.setitimer(signal.ITIMER_REAL, .01); import time; time.sleep(1)"
    ),
    "becomes another program": "os.execv('/bin/true', ['true'])",
    "replaces sys.exit and fails": "sys.exit = lambda *a: None; raise ValueError",
    "lies about paths": "os.path.realpath = lambda path: '/'; raise SystemExit(0)",
    "masks its exit": "import atexit; atexit.register(lambda: os._exit(0))",
}
TOLD = """\
import sys, json
main = sys.modules["__main__"]
names = ["__name__", "__file__", "__package__", "__doc__", "__builtins__", "__cached__"]
told = {name: repr(globals().get(name, "none")) for name in names}
told["spec"] = getattr(__spec__, "name", None)
told["loader"] = type(__loader__).__name__
told["main"] = sorted(vars(main)), vars(main) is globals()
told["argv"], told["path"], told["input"] = sys.argv, sys.path, sys.stdin.read()
print(json.dumps(told))
sys.exit("the end")
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig()) as opened:
        yield opened


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def either(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    config = SandboxConfig()
    if request.param == "docker":
        image = str(request.getfixturevalue("git_image"))
        config = SandboxConfig(backend="docker", image=image)
    with open_sandbox(config) as opened:
        yield opened


def run(sandbox: Sandbox, command: str, files: dict[str, str], *test_paths: str) -> TestResults:
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    suite = CommandSuite(command, test_paths)
    return suite.run(sandbox, [command], timeout=60)


def status(results: TestResults) -> str:
    (found,) = results.statuses.values()
    return found


@pytest.mark.parametrize("script", [CHECK, BY_EXIT, UNITTEST])
@pytest.mark.parametrize(("value", "expected"), [(SUM, "passed"), (WRONG, "failed")])
def test_a_script_is_judged(box: Sandbox, script: str, value: str, expected: str) -> None:
    files = {"check.py": script, "shop.py": SHOP.format("pass", value)}
    results = run(box, "python check.py", files)
    assert (status(results), results.tampered) == (expected, None)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_program_that_ends_early_does_not_pass(either: Sandbox, attack: str) -> None:
    for script in (CHECK, UNITTEST):
        files = {"check.py": script, "shop.py": SHOP.format(attack, WRONG)}
        assert status(run(either, "python check.py", files, "check.py")) == "failed"


def test_it_is_told_that_the_script_did_not_end(box: Sandbox) -> None:
    files = {"check.py": CHECK, "shop.py": SHOP.format("sys.exit()", WRONG)}
    assert (
        "shop.py ended the test command by SystemExit" in run(box, "python check.py", files).output
    )
    files["shop.py"] = SHOP.format("os._exit(0)", WRONG)
    assert "ended before its script did" in run(box, "python check.py", files).output


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        ("sys.exit = lambda *a: None", "the program replaced exit"),
        (
            "import unittest; unittest.TestResult.wasSuccessful = lambda self: True",
            "must fail did not",
        ),
        (
            "import glob; open(glob.glob('.stepinto-*/end')[0], 'w').write('0' * 32); os._exit(0)",
            "the program wrote to the file",
        ),
    ],
)
def test_tampering_is_told(either: Sandbox, attack: str, told: str) -> None:
    script = UNITTEST if "unittest" in attack else BY_EXIT
    files = {"check.py": script, "shop.py": SHOP.format(attack, WRONG)}
    assert told in str(run(either, "python check.py", files, "check.py").tampered)


FORGE = """
import os, sys
if not hasattr(sys, "tried"):
    sys.tried = True
    path, _, token = os.read(0, 1000).decode().strip().rpartition(" ")
    if token:
        open(path, "w").write(token + chr(10))
        os._exit(0)
"""


@pytest.mark.parametrize("folder", ["", "src/"])
@pytest.mark.parametrize("name", ["contextlib", "typing", "types", "importlib/__init__"])
def test_no_module_stands_in_for_the_launchers(box: Sandbox, folder: str, name: str) -> None:
    with open_sandbox(SandboxConfig(import_paths=("src",))) as opened:
        files = {"check.py": CHECK, "src/shop.py": SHOP.format("pass", WRONG)}
        results = run(opened, "python check.py", {**files, f"{folder}{name}.py": FORGE})
    assert status(results) == "failed"


REPLACED = {
    "one": "unittest.TestCase.assertEqual = lambda *arguments: None",
    "for some values": (
        "equal = unittest.TestCase.assertEqual; unittest.TestCase.assertEqual = "
        "lambda self, a, b: b == 3 or equal(self, a, b)"
    ),
    "by a mock": (
        "from unittest.mock import MagicMock; unittest.TestCase.assertEqual = MagicMock()"
    ),
    "its code": (
        "unittest.TestCase.assertEqual.__code__ = (lambda self, a, b, msg=None: None).__code__"
    ),
}


@pytest.mark.parametrize("attack", REPLACED.values(), ids=REPLACED)
def test_replaced_assertions_are_told(box: Sandbox, attack: str) -> None:
    shop = f"import unittest; {attack}\n{SHOP.format('pass', WRONG)}"
    results = run(box, "python check.py", {"check.py": UNITTEST, "shop.py": shop}, "check.py")
    assert results.tampered == "the program replaced TestCase.assertEqual"


def test_tests_may_change_unittest(box: Sandbox) -> None:
    patched = (
        "equal = unittest.TestCase.assertEqual\n"
        "unittest.TestCase.assertEqual = lambda *values: equal(*values)\n"
    )
    own = UNITTEST.replace("class", f"{patched}\nclass", 1)
    files = {"check.py": own, "shop.py": SHOP.format("pass", SUM)}
    assert run(box, "python check.py", files, "check.py").tampered is None


def test_the_token_can_not_be_read_again(either: Sandbox) -> None:
    search = (
        "import glob, re; globals().update(re=re); [print('read', len(open(p, 'rb', 0).read(50))) "
        "for p in glob.glob('/proc/[0-9]*/fd/0') if os.path.isfile(p)]; "
        "print('frames', [str(f) for f in vars_of(sys._getframe())])"
    )
    helper = """
def vars_of(frame):
    while frame is not None:
        values = map(str, frame.f_locals.values())
        yield from (value for value in values if re.search("[0-9a-f]{32}", value))
        frame = frame.f_back
"""
    files = {"check.py": CHECK, "shop.py": SHOP.format(search, SUM) + helper}
    results = run(either, "python check.py", files, "check.py")
    assert status(results) == "passed", results.output
    assert {line for line in results.output.splitlines() if line.startswith("read")} <= {"read 0"}
    assert "frames []" in results.output


def test_a_helper_of_the_tests_may_end_the_script(box: Sandbox) -> None:
    files = {
        "check.py": "import shop\nfrom tests.harness import end\n\nend(shop.total([1, 2]) == 3)\n",
        "tests/harness.py": "import sys\n\ndef end(fine):\n    sys.exit(0 if fine else 1)\n",
        "shop.py": SHOP.format("pass", SUM),
    }
    assert status(run(box, "python check.py", files, "tests", "check.py")) == "passed"
    assert status(run(box, "python check.py", files, "check.py")) == "failed"


@pytest.mark.parametrize(
    "command",
    [
        "python tools/told.py one 'two words'",
        "python -u -W ignore tools/told.py",
        "python -m tools.told one",
        "python -m tools one",
        "python -I tools/told.py",
    ],
)
def test_scripts_see_what_python_shows_them(box: Sandbox, command: str) -> None:
    files = {"tools/told.py": TOLD, "tools/__main__.py": TOLD, "tools/__init__.py": ""}
    box.write_files({path: text.encode() for path, text in files.items()})
    plain = box.run(Command([box.python, *shlex.split(command)[1:]]))
    assert '"argv"' in plain.output
    results = run(box, command, files)
    assert results.output == plain.output
    assert status(results) == "failed"


@pytest.mark.parametrize("broken", ["def f(:\n", "def f():\n    1 / 0\n\nf()\n"])
def test_errors_look_as_python_shows_them(box: Sandbox, broken: str) -> None:
    box.write_file("check.py", broken.encode())
    plain = box.run(Command([box.python, "check.py"]))
    assert run(box, "python check.py", {}).output == plain.output


def test_unittest_discovery_is_a_test(box: Sandbox) -> None:
    command = "python -m unittest discover -s checks -p 'check_*.py'"
    files = {"checks/check_shop.py": UNITTEST, "shop.py": SHOP.format("pass", SUM)}
    assert status(run(box, command, files)) == "passed"
    for attack in ("pass", "sys.exit(0)", "os._exit(0)"):
        files["shop.py"] = SHOP.format(attack, WRONG)
        assert status(run(box, command, files)) == "failed"
