"""The traps of a plain pdb terminal, and of its nearest peer's tool: one test each."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, BreakpointRequest, ErrorKind, State, StopReason
from tests.sandbox.debugger.conftest import Workbench

PRICES = """
    def total(prices, rate=2):
        '''Adds up.'''
        values = [price * rate for price in prices]
        c = sum(values)  # @sum
        return c

    def test_total():
        assert total([1, 2]) == 6
        assert total([3]) == 5  # @fails

    if __name__ == "__main__":
        print(total([1, 2]))  # @print
        print(total([3]))
"""


def with_pytest(bench: Workbench) -> Workbench:
    if not bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {bench.interpreter.version}")
    bench.write({"test_prices.py": PRICES})
    return bench


def paused(bench: Workbench) -> Workbench:
    bench.script(PRICES, "sum", stop_at_entry=False)
    return bench


def test_pytest_without_s_still_stops(bench: Workbench) -> None:
    """`python -m pdb -m pytest` without `-s` misses the breakpoint."""
    with_pytest(bench).sandbox.write_file("pytest.ini", b"[pytest]\naddopts = --capture=fd -q\n")
    event = bench.start(bench.at("sum", "test_prices.py"), test="test_prices.py::test_total")
    assert (event.stop_reason, event.line) == (
        StopReason.BREAKPOINT,
        bench.line("sum", "test_prices.py"),
    )


def test_options_of_pytest_are_understood(some_bench: Workbench) -> None:
    """Python 3.13.0 parses `-m pdb -m pytest -q ...` wrongly."""
    bench = some_bench
    test = "python -m pytest -q -x test_prices.py::test_total"
    assert with_pytest(bench).start(test=test).function == "test_total"


def test_the_end_of_a_program_is_its_end(some_bench: Workbench) -> None:
    """pdb restarts the script at its end, on a crash and on `sys.exit`."""
    bench = some_bench
    endings = {"": 0, "raise SystemExit(3)": 3, "import os; os._exit(4)": 4}
    for ending, code in endings.items():
        bench.script(f"print('once')\n{ending}\n", stop_at_entry=True)
        event = bench.debugger.control(Action.CONTINUE)
        assert (event.state, event.exit_code, event.output) == (State.DONE, code, "once\n")
        assert event.notes == ()


def test_leaving_a_test_reports_no_bdbquit(some_bench: Workbench) -> None:
    """`q` inside a test makes pytest report BdbQuit as its failure."""
    with_pytest(some_bench)
    event = some_bench.start(test="test_prices.py::test_total")
    some_bench.debugger.close()
    assert some_bench.debugger.state is State.START
    event = some_bench.start(test="test_prices.py::test_total")
    event = some_bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert event.exception.type == "AssertionError"


def test_names_like_pdb_commands_are_variables(bench: Workbench) -> None:
    """`c = 99` continues, and b, n, s, d, l, a, r, u, w clash."""
    paused(bench).debugger.run_code("c = 99\nn = b = s = d = l = a = r = u = w = c")
    assert bench.text_of("c, n, b, w") == "(99, 99, 99, 99)"
    assert bench.debugger.list_breakpoints().state is State.RUNTIME


def test_comprehensions_and_lambdas_see_locals(bench: Workbench) -> None:
    """Comprehensions over locals raise NameError in pdb on 3.11, lambdas still on 3.14."""
    paused(bench)
    assert bench.text_of("[price + rate for price in prices if price < len(values)]") == "[3]"
    assert bench.text_of("(lambda x: x + rate)(values[0])") == "4"
    code = "values = sorted((v * rate for v in values), key=lambda v: -v + rate)"
    assert bench.debugger.run_code(code).error_kind is None
    assert bench.text_of("values") == "[8, 4]"


def test_statements_on_several_lines(bench: Workbench) -> None:
    """IndentationError on 3.11; 3.13 switches to another prompt."""
    code = "for n in range(2):\n    if n:\n        values.append(\n            n\n        )\n"
    event = paused(bench).debugger.run_code(code)
    assert event.error_kind is None
    assert bench.text_of("values") == "[2, 4, 1]"


def test_statements_after_a_semicolon_are_run(some_bench: Workbench) -> None:
    """debug-gym cuts them."""
    bench = some_bench
    paused(bench).debugger.run_code("c = 1; values = [c]; text = 'a;b'")
    assert bench.text_of("c, values, text") == "(1, [1], 'a;b')"


def test_a_function_breakpoint_stops_in_its_body(bench: Workbench) -> None:
    """`b func` stops on the def line on 3.11, on the first line of the body from 3.13 on."""
    bench.write({"program.py": PRICES})
    event = bench.start(BreakpointRequest(function="total"))
    assert (event.function, event.line) == ("total", bench.line("sum") - 1)
    assert bench.text_of("prices") == "[1, 2]"


def test_threads_are_stopped(some_bench: Workbench) -> None:
    """pdb stops the main thread only."""
    bench = some_bench
    event = bench.script(
        """
        import threading
        def work():
            done = 1  # @work
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        """,
        "work",
    )
    assert (event.thread, event.line) == ("worker", bench.line("work"))


def test_subprocesses_neither_stop_nor_disturb(some_bench: Workbench) -> None:
    event = some_bench.script(
        """
        import os, subprocess, sys
        def work():
            return 1  # @work
        if os.fork() == 0:
            work()
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, "-c", "print('sub')"])
        done = 1  # @done
        """,
        "work",
        "done",
    )
    assert (event.line, event.output) == (some_bench.line("done"), "sub\n")


def test_a_program_reads_its_own_input(some_bench: Workbench) -> None:
    """It shares pdb's, and swallows its commands."""
    bench = some_bench
    program = "import sys\nn = int(input())\nlines = sys.stdin.read().split()\ndone = 1  # @here\n"
    bench.script(program, "here", stdin="2\nc\nq\n")
    assert bench.text_of("n, lines") == "(2, ['c', 'q'])"


def test_an_interrupt_comes_back_inside_pytest_again_and_again(some_bench: Workbench) -> None:
    """debug-gym's session dies of a `continue` that times out, with all breakpoints."""
    with_pytest(some_bench)
    spin = "def test_spin():\n    n, last = 0, False\n    while True:\n        n += 1\n"
    some_bench.write({"test_spin.py": spin})
    point = BreakpointRequest(file="test_spin.py", line=4, condition="last")
    some_bench.start(point, test="test_spin.py::test_spin", stop_at_entry=True)
    for _ in range(3):
        event = some_bench.debugger.control(Action.CONTINUE, timeout=0.3)
        assert (event.state, event.error_kind) == (State.RUNTIME, ErrorKind.TIMEOUT)
        assert event.function == "test_spin"
    kept = some_bench.debugger.list_breakpoints().breakpoints
    assert [(p.line, p.condition) for p in kept] == [(4, "last")]
    # Not `n`: up to 3.9 an interrupt can come between its sum and its store.
    some_bench.debugger.run_code("last = True")
    event = some_bench.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.BREAKPOINT


def test_conditions_are_kept_over_a_restart(bench: Workbench) -> None:
    """debug-gym loses them."""
    bench.write({"program.py": PRICES})
    bench.start(bench.at("sum", condition="len(values) == 1"))
    for _ in range(2):
        assert bench.text_of("values") == "[6]"
        event = bench.debugger.restart()
        assert [(p.condition, p.hits) for p in event.breakpoints] == [("len(values) == 1", 1)]


def test_one_answer_holds_place_source_and_output(some_bench: Workbench) -> None:
    """debug-gym needs three more round trips for each command."""
    paused(some_bench)
    event = some_bench.debugger.control(Action.CONTINUE)
    assert event.output == "6\n"
    assert (event.file, event.line) == ("program.py", some_bench.line("sum"))
    assert any(line.startswith("->") and "# @sum" in line for line in event.source)
    assert [point.hits for point in event.breakpoints] == [2]


def test_xdist_of_the_project_is_switched_off(some_bench: Workbench) -> None:
    """Its workers are other processes, where no breakpoint stops."""
    with_pytest(some_bench)
    some_bench.write(
        {
            "xdist/__init__.py": "",
            "xdist/plugin.py": """
                def pytest_addoption(parser):
                    parser.getgroup("xdist")._addoption("-n", dest="numprocesses")

                def pytest_runtestloop(session):
                    assert session.config.getoption("numprocesses") == "0"
                """,
            "pytest.ini": "[pytest]\naddopts = -p xdist.plugin -n 4\n",
        }
    )
    event = some_bench.start(test="test_prices.py::test_total")
    assert (event.stop_reason, event.function) == (StopReason.ENTRY, "test_total")


def test_a_continue_that_times_out_keeps_state_and_breakpoints(bench: Workbench) -> None:
    """debug-gym's pdb tool kills the session, with all program state and the breakpoints."""
    bench.script(
        """
        kept = [1, 2]
        done = False
        while not done:
            pass
        print("after")  # @after
        """
    )
    point = bench.debugger.set_breakpoint(bench.at("after", condition="kept"))
    for _ in range(2):
        event = bench.debugger.control(Action.CONTINUE, 0.3)
        assert (event.state, event.error_kind) == (State.RUNTIME, ErrorKind.TIMEOUT)
    assert bench.text_of("kept") == "[1, 2]"
    assert bench.debugger.list_breakpoints().breakpoints == point.breakpoints
    bench.debugger.run_code("done = True")
    assert bench.debugger.control(Action.CONTINUE).line == bench.line("after")


def test_prompts_in_output_source_and_values_stay(some_bench: Workbench) -> None:
    """debug-gym strips `(Pdb)` from all output; in pdb a `__repr__` of it looks like a prompt."""
    event = some_bench.script(
        """
        class Prompt:
            def __repr__(self):
                return "(Pdb) "
        prompt = Prompt()
        print("(Pdb) printed")
        x = "(Pdb) source"  # @here
        """,
        "here",
    )
    assert event.output == "(Pdb) printed\n"
    assert any('"(Pdb) source"' in line for line in event.source)
    assert some_bench.text_of("prompt") == "(Pdb) "
    assert some_bench.text_of("[prompt, '(Pdb) ']") == "[(Pdb) , '(Pdb) ']"


def test_values_and_output_are_capped(bench: Workbench) -> None:
    """A list of 200,000 items is 1.5 MB in pdb; debug-gym gave 812,929 characters for a value."""
    event = bench.script(
        """
        class Long:
            def __repr__(self):
                return "line\\n" * 100_000
        numbers, long = list(range(200_000)), Long()
        print(numbers)
        x = 1  # @here
        """,
        "here",
    )
    assert (event.output_truncated, len(event.output) < 4_200) == (True, True)
    values = {value.name: value for value in bench.debugger.locals().values}
    assert values["numbers"].text.endswith(", ... 199,900 more items")
    assert values["long"].text.endswith("\n... 99,960 more lines")
    assert all(value.truncated and len(value.text) < 700 for value in (*values.values(),)[1:3])


def test_colours_and_line_editing_do_not_get_in(some_bench: Workbench) -> None:
    """pdb needs TERM=dumb, NO_COLOR and no echo for clean output; here there is no terminal."""
    event = some_bench.script(
        """
        import sys
        print(sys.stdin.isatty(), sys.stdout.isatty(), "\\x1b[1mbold")
        x = 1  # @here
        """,
        "here",
    )
    assert event.output == "False False \\x1b[1mbold\n"
