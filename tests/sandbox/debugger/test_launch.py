"""What can be launched, and how a launch that fails says why."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import Command, Sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugLimits,
    ErrorKind,
    Launch,
    State,
    StopReason,
)
from sandbox.debugger.channel import Channel
from sandbox.debugger.python_session import PythonLauncher
from sandbox.debugger.rendering import render
from sandbox.debugger.session import Debugger
from sandbox.environment import WORKSPACE
from tests.interpreters import find_interpreter
from tests.sandbox.debugger.conftest import Workbench

TEST = """
    import pytest
    from shop.cart import Cart

    @pytest.fixture
    def cart():
        made = Cart()
        made.add(5)
        return made

    def test_total(cart):
        '''A docstring.'''
        total = cart.total()  # @entry
        print("out")
        assert total == 6, "wrong"  # @fails

    @pytest.mark.parametrize("price", [1, 2])
    def test_price(price, cart):
        assert price == 2  # @price

    class TestMore:
        def test_method(self, cart, mocker=None):
            assert cart.items  # @method

        @pytest.mark.skip(reason="not now")
        def test_skipped(self):
            pass
"""
CART = """
    class Cart:
        def __init__(self):
            self.items = []
        def add(self, price):
            self.items.append(price)
        def total(self):
            return sum(self.items)  # @total
"""


def shop(bench: Workbench) -> Workbench:
    """A package, and a pytest suite for it; skips where pytest is missing."""
    if not bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {bench.interpreter.version}")
    bench.write({"shop/__init__.py": "", "shop/cart.py": CART, "tests/test_cart.py": TEST})
    return bench


@pytest.fixture
def one(open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench on the interpreter that runs the tests."""
    interpreter = find_interpreter("3.11")
    if interpreter is None:
        pytest.skip("CPython 3.11 is not on this machine")
    return open_bench(interpreter)


def failure(bench: Workbench, test: str, kind: ErrorKind = ErrorKind.LAUNCH_FAILED) -> str:
    """Why a launch fails."""
    event = bench.debugger.start(Launch(test))
    assert event.error_kind is kind, event.error
    assert event.state is State.START
    return event.error or ""


def missing(bench: Workbench, test: str) -> str:
    """How a test that does not exist is answered."""
    return failure(bench, test, ErrorKind.NO_SUCH_TEST)


def test_a_pytest_test_from_entry_to_post_mortem(bench: Workbench) -> None:
    shop(bench)
    event = bench.start(
        BreakpointRequest(function="Cart.total"),
        test="tests/test_cart.py::test_total",
        stop_at_entry=True,
    )
    entry = bench.line("entry", "tests/test_cart.py")
    assert event.stop_reason is StopReason.ENTRY
    assert (event.file, event.line, event.function) == ("tests/test_cart.py", entry, "test_total")
    assert (event.depth, event.output) == (1, "")
    assert [(point.file, point.line) for point in event.breakpoints] == [
        ("shop/cart.py", bench.line("total", "shop/cart.py"))
    ]
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.file, event.function, event.depth) == ("shop/cart.py", "Cart.total", 2)
    frames = bench.debugger.stack().frames
    assert [frame.source for frame in frames] == [
        "return sum(self.items)  # @total",
        "total = cart.total()  # @entry",
    ]
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    assert event.output == "out\n"
    assert event.exception is not None
    assert event.exception.type == "AssertionError"
    assert "wrong" in event.exception.message
    assert bench.text_of("total") == "5"


def test_a_step_past_the_end_of_a_test_runs_to_its_end(bench: Workbench) -> None:
    shop(bench)
    bench.start(test="tests/test_cart.py::TestMore::test_method")
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    assert "tests/test_cart.py::TestMore::test_method passed in this run" in event.notes


def test_a_parametrised_test(one: Workbench) -> None:
    shop(one)
    event = one.start(test="tests/test_cart.py::test_price[2]")
    assert event.function == "test_price"
    assert one.text_of("price") == "2"


@pytest.mark.parametrize(
    "test",
    [
        "python -m pytest -q tests/test_cart.py::test_total",
        "test_total",
        "tests.test_cart.test_total",
        pytest.param("pytest tests/test_cart.py -k test_total", marks=pytest.mark.slow),
        pytest.param("tests/test_cart.py", marks=pytest.mark.slow),
    ],
)
def test_other_ways_to_name_a_pytest_test(one: Workbench, test: str) -> None:
    assert shop(one).start(test=test).function == "test_total"


def test_options_of_the_project_do_not_get_in_the_way(one: Workbench) -> None:
    shop(one)
    config = b"[pytest]\naddopts = -q --tb=short --ff\npython_files = test_*.py\n"
    one.sandbox.write_file("pytest.ini", config)
    assert one.start(test="tests/test_cart.py::test_total").stop_reason is StopReason.ENTRY


def test_a_skipped_test_says_so(one: Workbench) -> None:
    event = shop(one).start(test="tests/test_cart.py::TestMore::test_skipped")
    assert event.state is State.DONE
    assert any("skipped" in note for note in event.notes)


def test_tests_that_a_function_makes_are_offered_by_no_name(one: Workbench) -> None:
    text = "def make():\n    class TestCart:\n        def test_total(self): pass\n"
    text += "    return TestCart\n"
    one.write({"test_made.py": text + "TestMade = make()\ndef test_totals(): pass\n"})
    event = one.debugger.start(Launch("test_made.py::make::TestCart::test_total"))
    assert event.error_kind is ErrorKind.NO_SUCH_TEST
    assert (event.error or "").endswith("; nearest: test_made.py::test_totals")


def test_unknown_tests_are_answered_with_the_nearest(one: Workbench) -> None:
    shop(one)
    message = missing(one, "tests/test_cart.py::test_totl")
    assert "tests/test_cart.py::test_total" in message
    assert "tests/test_cart.py" in missing(one, "tests/test_carts.py::test_total")
    assert "::test_total" in missing(one, "test_totals")
    assert "names no test" in missing(one, "")
    assert "there is no module nowhere" in missing(one, "python -m nowhere")


def test_doctests_are_tests_of_nearest_names(some_bench: Workbench) -> None:
    shop(some_bench)
    some_bench.write({"shop/numbers.py": DOCTESTS})
    message = missing(some_bench, "shop/numbers.py::halve")
    assert message.endswith("; nearest: shop/numbers.py::shop.numbers.half")
    message = missing(some_bench, "shop/numbers.py::inverse")
    assert message.endswith("; nearest: shop/numbers.py::shop.numbers.inverse")


def test_a_missing_file_is_answered_with_the_nearest(one: Workbench) -> None:
    one.write({"src/some/deep/folder/narrow.py": "x = 1\n", "program.py": "x = 1\n"})
    one.sandbox.run(Command(["sh", "-c", "mkdir /tmp/tries; echo 'x = 1' >/tmp/tries/repro.py"]))
    said = missing(one, "narow.py")
    assert said.startswith("there is no file narow.py; nearest: src/some/deep/folder/narrow.py")
    said = missing(one, "/tmp/tries/repo.py")
    assert said.startswith("there is no file /tmp/tries/repo.py; nearest: /tmp/tries/repro.py")


def test_a_command_without_a_path_runs_what_the_project_names(some_bench: Workbench) -> None:
    shop(some_bench).write({"test_other.py": "def test_other(): pass\n"})
    assert some_bench.start(test="pytest -k method").function == "TestMore.test_method"
    some_bench.write({"pytest.ini": "[pytest]\ntestpaths = tests\n"})
    assert some_bench.start(test="uv run pytest").function == "test_total"
    event = some_bench.debugger.start(Launch("pytest -k 'other or another'"))
    assert event.error == "pytest's options leave out every test (-k 'other or another')"


@pytest.mark.parametrize("place", ["option", "variable", "conftest"])
def test_breakpoints_in_what_pytest_loads_first_are_hit(place: str, bench: Workbench) -> None:
    plugin = "NAME = 'shop'\ndef pytest_configure(config):\n    config.shop = NAME\n"
    files = {"test_it.py": "def test_it(request):\n    assert request.config.shop\n"}
    command = "pytest test_it.py"
    if place == "variable":
        command = f"PYTEST_PLUGINS=stock {command}"
    elif place == "option":
        files["pytest.ini"] = "[pytest]\naddopts = -p stock\n"
    file = "conftest.py" if place == "conftest" else "stock.py"
    bench.write({**files, file: plugin})
    points = tuple(BreakpointRequest(file, line) for line in (1, 3))
    first = bench.debugger.start(Launch(command, points, stop_at_entry=False))
    second = bench.debugger.control(Action.CONTINUE)
    assert [(stop.file, stop.line) for stop in (first, second)] == [(file, 1), (file, 3)]


def test_the_variables_of_a_command_reach_the_test(some_bench: Workbench) -> None:
    test = """
        import os
        import acme

        def test_it():
            assert acme.NAME == os.environ["ACME"]
    """
    shop(some_bench).write({"lib/acme.py": "NAME = 'a b'\n", "test_it.py": test})
    command = "PYTHONPATH=lib ACME='a b' pytest test_it.py::test_it"
    for event in (some_bench.start(test=command), some_bench.debugger.restart()):
        assert event.function == "test_it"
    assert some_bench.text_of("acme.NAME == os.environ['ACME']") == "True"
    some_bench.write({"run.py": "import os\nprint(os.environ['ACME'])\n"})
    event = some_bench.start(test="ACME=1 python run.py", stop_at_entry=False)
    assert event.output.strip() == "1"


def test_a_start_that_names_nothing_leaves_the_open_session(one: Workbench) -> None:
    one.script("x = 1  # @x\ny = 2\n", "x")
    for test in ("progam.py", "test_progam.py::test_x", "-m"):
        event = one.debugger.start(Launch(test))
        assert (event.error_kind, event.state) == (ErrorKind.NO_SUCH_TEST, State.RUNTIME), test
        assert event.notes == ("the session that was open goes on",)
    assert one.text_of("1 + 1") == "2"
    one.write({"broken.py": "def\n"})
    event = one.debugger.start(Launch("broken.py", (one.at_line(3),)))
    assert (event.error_kind, event.state) == (ErrorKind.LAUNCH_FAILED, State.START)
    assert event.notes == ("the session that was open has ended",)


def test_a_folder_with_a_space(one: Workbench) -> None:
    """The hint gives an id that a launch takes."""
    text = "import pytest\n@pytest.mark.parametrize('x', ['a b', 'é'])\ndef test_it(x): pass\n"
    one.write({"my tests/test_a.py": text})
    hint = missing(one, "my tests/test_a.py::test_at")
    assert "nearest: my tests/test_a.py::test_it" in hint
    for test in ("", "[a b]", "[\\xe9]"):
        event = one.start(test=f"my tests/test_a.py::test_it{test}")
        assert (event.file, event.line) == ("my tests/test_a.py", 3)


def test_a_runner_that_can_not_start_is_told(one: Workbench) -> None:
    shop(one)
    one.write({"conftest.py": "import nowhere_to_be_found\n"})
    event = one.debugger.start(Launch("tests/test_cart.py::test_total"))
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert "No module named 'nowhere_to_be_found'" in (event.error or "")
    assert event.output == ""


def test_a_broken_import_is_told(one: Workbench) -> None:
    shop(one)
    one.write({"shop/cart.py": "import nowhere_to_be_found\n"})
    message = failure(one, "tests/test_cart.py::test_total")
    assert "ModuleNotFoundError" in message
    assert "nowhere_to_be_found" in message
    one.write({"shop/cart.py": "def total(:\n"})
    message = failure(one, "tests/test_cart.py::test_total")
    cause, *frames = message.splitlines()
    assert cause.startswith("SyntaxError: ")
    assert frames == ["  at tests/test_cart.py:3: from shop.cart import Cart"]
    one.write({"tests/test_cart.py": "def test_total(:\n"})
    assert "SyntaxError" in failure(one, "tests/test_cart.py::test_total")


def test_a_broken_fixture_is_looked_at_post_mortem(one: Workbench) -> None:
    shop(one)
    one.write({"shop/cart.py": "class Cart:\n    def __init__(self):\n        {}['a']\n"})
    event = one.start(test="tests/test_cart.py::test_total")
    assert (event.state, event.function) == (State.POST_MORTEM, "Cart.__init__")


UNITTEST = """
    import unittest

    class CartTest(unittest.TestCase):
        def setUp(self):
            self.price = 1

        def test_price(self):
            price = self.price  # @entry
            self.assertEqual(price, 2)  # @fails

        def test_subtests(self):
            for n in range(3):
                with self.subTest(n=n):
                    self.assertLess(n, 2)
"""


@pytest.mark.parametrize(
    "test", ["test_cart.CartTest.test_price", "python -m unittest test_cart.py"]
)
def test_a_unittest(bench: Workbench, test: str) -> None:
    bench.write({"test_cart.py": UNITTEST})
    event = bench.start(test=test)
    assert event.stop_reason is StopReason.ENTRY
    assert event.function == "CartTest.test_price"
    assert event.line == bench.line("entry", "test_cart.py")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    assert event.line == bench.line("fails", "test_cart.py")
    assert bench.text_of("price") == "1"


@pytest.mark.slow
def test_a_unittest_under_pytest(one: Workbench) -> None:
    one.write({"test_cart.py": UNITTEST})
    event = one.start(test="test_cart.py::CartTest::test_price")
    assert event.line == one.line("entry", "test_cart.py")
    event = one.debugger.control(Action.CONTINUE)
    assert event.line == one.line("fails", "test_cart.py")


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "discover",
        "discover -s checks -p 'check_*.py' -t .",
        pytest.param("discover checks 'check_*.py' .", marks=pytest.mark.slow),
        pytest.param("-k test_price -v", marks=pytest.mark.slow),
        "checks.check_cart.CartTest.test_price",
    ],
)
def test_unittest_discovers_tests(some_bench: Workbench, arguments: str) -> None:
    discovered = "checks/check_cart.py" if "checks" in arguments else "test_cart.py"
    some_bench.write({"checks/__init__.py": "", discovered: UNITTEST})
    event = some_bench.start(test=f"python -m unittest {arguments}")
    assert event.stop_reason is StopReason.ENTRY
    place = (discovered, some_bench.line("entry", discovered))
    assert (event.file, event.line) == place
    event = some_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (
        State.POST_MORTEM,
        some_bench.line("fails", discovered),
    )
    assert [frame.function for frame in event.frames] == ["CartTest.test_price"]


def test_modules_that_discovery_can_not_import(some_bench: Workbench) -> None:
    some_bench.write({"test_cart.py": UNITTEST, "test_broken.py": "import nowhere\n"})
    event = some_bench.start(test="python -m unittest discover -k test_price")
    assert event.function == "CartTest.test_price"
    assert any("test_broken" in note and "nowhere" in note for note in event.notes)
    assert "no test" in missing(some_bench, "python -m unittest discover -p 'none*.py'")
    assert "unknown" in failure(some_bench, "python -m unittest discover -s unknown")
    some_bench.write({"test_cart.py": "import nowhere\n"})
    assert "nowhere" in failure(some_bench, "python -m unittest discover")


def test_unknown_unittests(one: Workbench) -> None:
    one.write({"test_cart.py": UNITTEST})
    assert "test_price" in missing(one, "test_cart.CartTest.test_prize")
    assert "nowhere" in missing(one, "nowhere.CartTest.test_price")
    for code, told in (
        ("import nowhere", "'nowhere'"),
        ("1 / 0", "ZeroDivisionError"),
        ("(", "Syntax"),
    ):
        one.write({"test_cart.py": code})
        assert told in failure(one, "test_cart.CartTest.test_price")


def test_a_script_with_arguments(bench: Workbench) -> None:
    bench.write(
        {
            "tools/run.py": """
        import sys, helper
        print(sys.argv, __name__, helper.VALUE)  # @print
        """,
            "tools/helper.py": "VALUE = 7",
        }
    )
    event = bench.start(test="python tools/run.py a 'b c'")
    assert event.file == "tools/run.py"
    event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "['tools/run.py', 'a', 'b c'] __main__ 7\n"


def test_a_script_below_tmp_imports_from_the_workspace(bench: Workbench) -> None:
    bench.write({"helper.py": "VALUE = 7", "program.py": ""})
    script = "mkdir -p /tmp/made; echo 'import helper, sys; print(helper.VALUE); 1 / 0' >$0"
    bench.sandbox.run(Command(["sh", "-c", script, "/tmp/made/repro.py"]))
    bench.start(test="/tmp/made/repro.py")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "7\n"
    assert event.exception is not None
    assert event.exception.type == "ZeroDivisionError"
    assert "an exception ended the run" in render(event)


def test_a_script_is_the_main_module(some_bench: Workbench) -> None:
    some_bench.script(
        """
        import sys
        main = sys.modules[__name__]
        same = main.__dict__ is globals()
        done = 1  # @here
        """,
        "here",
    )
    seen = some_bench.text_of("(__name__, __file__[-10:], same, type(__builtins__).__name__)")
    assert seen == "('__main__', 'program.py', True, 'module')"


def test_a_module(one: Workbench) -> None:
    one.write({"app/__init__.py": "", "app/__main__.py": "import sys\nprint(sys.argv[1:])\n"})
    event = one.start(test="python -m app x")
    assert (event.file, event.line) == ("app/__main__.py", 1)
    assert one.debugger.control(Action.CONTINUE).output == "['x']\n"


def test_a_script_that_does_not_compile(one: Workbench) -> None:
    one.write({"program.py": "def broken(:\n"})
    assert "SyntaxError" in failure(one, "program.py")
    assert "program.py" in missing(one, "progam.py")


MOCKED = """
    import pytest
    from unittest import mock

    def charge(gateway, amount):
        receipt = gateway.pay(amount)  # @pay
        if not receipt:
            raise RuntimeError("declined")  # @declined
        return receipt

    @pytest.fixture
    def gateway():
        with mock.patch.object(Gateway, "pay", return_value=None) as pay:
            yield Gateway()
            assert pay.called

    class Gateway:
        def pay(self, amount):
            return amount

    @pytest.mark.parametrize("amount", [1, pytest.param(2, id="two")])
    def test_charge(gateway, amount, capsys, monkeypatch):
        monkeypatch.setenv("AMOUNT", str(amount))
        assert charge(gateway, amount) == amount  # @test

    @pytest.fixture
    def leaky():
        yield 1
        raise OSError("teardown")  # @teardown

    def test_leaky(leaky):
        assert leaky == 1
"""


def test_post_mortem_of_pytest_with_fixtures_and_mocks(some_bench: Workbench) -> None:
    shop(some_bench)
    some_bench.write({"test_pay.py": MOCKED})
    event = some_bench.start(test="test_pay.py::test_charge[two]", stop_at_entry=False)
    assert (event.state, event.line) == (
        State.POST_MORTEM,
        some_bench.line("declined", "test_pay.py"),
    )
    assert [frame.function for frame in some_bench.debugger.stack().frames] == [
        "charge",
        "test_charge",
    ]
    assert some_bench.text_of("amount", 1) == "2"
    assert some_bench.text_of("gateway.pay.called") == "True"
    event = some_bench.start(test="test_pay.py::test_leaky", stop_at_entry=False)
    assert event.line == some_bench.line("teardown", "test_pay.py")
    assert event.exception is not None
    assert event.exception.message == "teardown"


FIXTURE = """
    import pytest

    @pytest.fixture
    def stock():
        return {"a": 1}  # @fixture

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_stock(stock, name):
        found = name in stock  # @entry
"""


def test_a_breakpoint_in_a_fixture_leaves_the_stop_at_the_test(some_bench: Workbench) -> None:
    bench, name = some_bench, "test_stock.py"
    bench.write({name: FIXTURE})
    for action in (Action.CONTINUE, Action.STEP_OUT, Action.STEP_OVER):
        event = bench.start(bench.at("fixture", name), test=name, stop_at_entry=True)
        assert event.line == bench.line("fixture", name)
        event = bench.debugger.control(action)
        assert (event.line, event.stop_reason) == (bench.line("entry", name), StopReason.ENTRY)
    assert bench.debugger.control(Action.CONTINUE).line == bench.line("fixture", name)
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE, "it stops at the first only"


SUBTESTS = """
    import unittest

    def half(n):
        return n // 2  # @half

    class HalfTest(unittest.TestCase):
        def test_halves(self):
            for n in range(4):
                with self.subTest(n=n):
                    self.assertEqual(half(n) * 2, n)  # @check
            done = True  # @done

        @unittest.expectedFailure
        def test_later(self):
            self.assertEqual(half(1), 1)
"""


def test_a_failing_subtest_does_not_end_its_test(some_bench: Workbench) -> None:
    """Before CPython 3.11 unittest tells of failed subtests only once their test has ended."""
    bench = some_bench
    bench.write({"test_half.py": SUBTESTS})
    for test in (
        "python -m unittest test_half.HalfTest.test_halves",
        "test_half.py::HalfTest::test_halves",
    ):
        if "::" in test and bench.interpreter.version == "3.8":
            continue  # its pytest knows no subtests: there a failing one does end the test
        event = bench.start(test=test, stop_at_entry=False)
        for n in ("1", "3"):
            assert (event.state, event.line) == (
                State.RUNTIME_ERROR,
                bench.line("check", "test_half.py"),
            )
            assert event.exception is not None
            assert event.exception.type == "AssertionError"
            note = next(each for each in event.notes if "not the whole test" in each)
            assert f"subtest (n={n}) and" in note
            late = "come to its end" in note
            assert late is (bench.interpreter.version == "3.8")
            assert bench.text_of("n") == ("3" if late else n)
            frames = bench.debugger.stack().frames
            assert [frame.function for frame in frames] == ["HalfTest.test_halves"]
            event = bench.debugger.control(Action.CONTINUE)
        assert event.stop_reason is StopReason.EXITED
        assert event.exit_code == 1


def test_breakpoints_and_steps_after_a_failed_subtest(one: Workbench) -> None:
    one.write({"test_half.py": SUBTESTS})
    half = one.at("half", "test_half.py", condition="n > 1")
    event = one.start(half, test="python -m unittest test_half.HalfTest.test_halves")
    assert event.stop_reason is StopReason.EXCEPTION
    assert one.text_of("n") == "1"
    event = one.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.BREAKPOINT
    assert one.text_of("n") == "2"
    assert one.debugger.control(Action.CONTINUE).line == one.line("half", "test_half.py")
    assert one.debugger.control(Action.CONTINUE).stop_reason is StopReason.EXCEPTION
    event = one.debugger.control(Action.STEP_OVER)
    assert (event.stop_reason, event.function) == (StopReason.STEP, "HalfTest.test_halves")
    assert event.line != one.line("check", "test_half.py")
    assert one.debugger.control(Action.STEP_OVER).line == one.line("done", "test_half.py")


def test_subtests_of_pytests_fixture(one: Workbench) -> None:
    test = """
        def test_halves(subtests):
            for n in range(4):
                with subtests.test("halving", n=n):
                    assert n // 2 * 2 == n
            assert n == 0, "at the end"
    """
    one.write({"test_half.py": test})
    event = one.start(test="test_half.py::test_halves", stop_at_entry=False)
    for n in ("1", "3"):
        assert event.state is State.RUNTIME_ERROR
        assert any(f"subtest [halving] (n={n}) and" in note for note in event.notes)
        event = one.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    assert event.exception is not None
    assert "at the end" in event.exception.message


EXPECTED = """
    import pytest

    def check(n):
        assert n == 1  # @check

    @pytest.mark.xfail(reason="not yet")
    def test_fails():
        check(2)

    @pytest.mark.xfail
    def test_passes():
        check(1)

    @pytest.mark.xfail(run=False)
    def test_not_run():
        check(1)

    @pytest.mark.xfail(strict=True)
    def test_strict():
        check(1)

    def test_gives_up():
        check(1)
        pytest.xfail("given up")
"""


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("test_fails", "failed as expected (xfail) (not yet)"),
        ("test_not_run", "was not run, as its xfail wants"),
        pytest.param(
            *("test_passes", "passed, though it was expected to fail (xfail)"),
            marks=pytest.mark.slow,
        ),
        pytest.param("test_strict", "failed: [XPASS(strict)]", marks=pytest.mark.slow),
        pytest.param(
            "test_gives_up", "failed as expected (xfail) (given up)", marks=pytest.mark.slow
        ),
    ],
)
def test_how_a_test_ends_that_is_expected_to_fail(
    some_bench: Workbench, test: str, said: str
) -> None:
    some_bench.write({"test_it.py": EXPECTED})
    event = some_bench.start(some_bench.at("check", "test_it.py"), test=f"test_it.py::{test}")
    if test != "test_not_run":
        assert event.stop_reason is StopReason.BREAKPOINT
        event = some_bench.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.EXITED
    assert any(f"test_it.py::{test} {said}" in note for note in event.notes), event.notes
    assert not any("skipped" in note for note in event.notes)


def test_an_expected_failure_of_unittest(one: Workbench) -> None:
    one.write({"test_half.py": SUBTESTS})
    event = one.start(
        one.at("half", "test_half.py"), test="python -m unittest test_half.HalfTest.test_later"
    )
    assert event.stop_reason is StopReason.BREAKPOINT
    event = one.debugger.control(Action.CONTINUE)
    assert any("as its expectedFailure expects" in note for note in event.notes)


DOCTESTS = """
    def half(n):
        '''
        >>> half(4)
        3
        '''
        return n // 2

    def inverse(n):
        '''
        >>> inverse(0)
        0
        '''
        return 1 // n  # @inverse
"""


@pytest.mark.slow
def test_post_mortem_of_doctests(some_bench: Workbench) -> None:
    shop(some_bench)
    some_bench.write({"numbers_.py": DOCTESTS, "pytest.ini": "[pytest]\naddopts=--doctest-modules"})
    event = some_bench.start(test="numbers_.py::numbers_.inverse", stop_at_entry=False)
    place = (event.state, event.function, event.line)
    assert place == (State.POST_MORTEM, "inverse", some_bench.line("inverse", "numbers_.py"))
    assert event.exception is not None
    assert event.exception.type == "ZeroDivisionError"
    assert some_bench.text_of("n") == "0"
    event = some_bench.start(test="numbers_.py::numbers_.half", stop_at_entry=False)
    assert event.state is State.POST_MORTEM
    said = "the doctest's 'half(4)\\n' at numbers_.py:4 gave '2\\n', where '3\\n' was expected"
    assert said in event.notes


def test_post_mortem_of_a_program_that_is_fed(some_bench: Workbench) -> None:
    program = """
        def solve(n):
            return 10 // n  # @solve

        for _ in range(int(input())):
            print(solve(int(input())))
        """
    event = some_bench.script(program, stdin="2\n5\n0\n", stop_at_entry=False)
    assert (event.state, event.line) == (State.POST_MORTEM, some_bench.line("solve"))
    assert event.output == "2\n"
    assert [frame.function for frame in some_bench.debugger.stack().frames] == ["solve", "<module>"]


def test_a_debugger_that_does_not_come_up_is_started_once_more(one: Workbench) -> None:
    class Late(PythonLauncher):
        tries = 0

        def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
            self.tries += 1
            return super().connect(
                sandbox, replace(limits, start_timeout=1e-6) if self.tries == 1 else limits
            )

    one.write({"program.py": "print(1)\n"})
    launcher = Late()
    session = Debugger(one.sandbox, launcher, DebugLimits())
    assert session.start(Launch("program.py")).stop_reason is StopReason.ENTRY
    assert launcher.tries == 2
    session.close()


@pytest.mark.slow
def test_frames_of_a_pytest_from_packages_are_hidden(
    open_bench: Callable[..., Workbench], tmp_path: Path
) -> None:
    """`packages` puts a plain folder on PYTHONPATH, which is no `site-packages`."""
    interpreter = find_interpreter("3.11")
    assert interpreter is not None
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging"):
        origin = importlib.import_module(name).__file__
        assert origin is not None
        shutil.copytree(Path(origin).parent, tmp_path / name)
    tmp_path.chmod(0o755)
    one = open_bench(
        interpreter, readable=(str(tmp_path),), environment={"PYTHONPATH": str(tmp_path)}
    )
    one.write(
        {"test_sum.py": "def double(n):\n    return n * 2\n\ndef test_it(): assert double(2)"}
    )
    event = one.start(BreakpointRequest(function="double"), test="test_sum.py::test_it")
    assert (event.function, event.depth) == ("double", 2)
    assert one.text_of("__import__('pytest').__file__") == f"'{tmp_path}/pytest/__init__.py'"
    assert [frame.function for frame in one.debugger.stack().frames] == ["double", "test_it"]
    event = one.debugger.control(Action.STEP_OUT)
    event = one.debugger.control(Action.STEP_OUT)
    assert event.stop_reason is StopReason.EXITED


def test_frames_of_a_runner_that_is_under_test_are_shown(
    open_bench: Callable[..., Workbench],
) -> None:
    interpreter = find_interpreter("3.11")
    assert interpreter is not None
    one = open_bench(interpreter, environment={"PYTHONPATH": f"{WORKSPACE}/src"})
    one.write({"src/hypothesis/core.py": "def given():\n    return 1\n"})
    one.script("import hypothesis.core\nhypothesis.core.given()")
    event = one.debugger.set_breakpoint(BreakpointRequest(function="given"))
    event = one.debugger.control(Action.CONTINUE)
    assert (event.file, event.depth) == ("src/hypothesis/core.py", 2)


def test_plugins_are_those_that_the_environment_chooses(
    open_bench: Callable[..., Workbench], tmp_path: Path
) -> None:
    """As a verdict's run loads them: none by itself, those of PYTEST_PLUGINS, and the ini file."""
    interpreter = find_interpreter("3.11")
    assert interpreter is not None
    plugin = "def pytest_configure(config): config.{name} = config.getini('addopts')\n"
    for name in ("chosen", "installed"):
        (tmp_path / f"{name}.py").write_text(plugin.format(name=name))
        facts = tmp_path / f"{name}-1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (facts / "entry_points.txt").write_text(f"[pytest11]\n{name} = {name}\n")
    tmp_path.chmod(0o755)
    chosen = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "chosen"}
    environment = {"PYTHONPATH": str(tmp_path)}
    for variables, loaded in ((chosen, "(True, False)"), ({}, "(True, True)")):
        one = open_bench(
            interpreter, readable=(str(tmp_path),), environment={**environment, **variables}
        )
        one.write({"pytest.ini": "[pytest]\naddopts = -q\n"})
        one.write({"test_it.py": "def test_it(pytestconfig):\n    assert pytestconfig  # @here\n"})
        event = one.start(one.at("here", "test_it.py"), test="test_it.py::test_it")
        assert event.stop_reason is StopReason.BREAKPOINT
        names = "(hasattr(pytestconfig, 'chosen'), hasattr(pytestconfig, 'installed'))"
        assert one.text_of(names) == loaded
        assert one.text_of("pytestconfig.getini('addopts')") == "['-q']"
