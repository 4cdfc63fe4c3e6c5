"""Processes that the program starts: they are not debugged, and the answers say so."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, DebugEvent, State, StopReason
from tests.sandbox.debugger.conftest import Workbench
from tests.sandbox.debugger.java_bench import JavaBench

WAYS = {
    "fork": "pid = os.fork()\nif not pid:\n    work(2)\n    os._exit(0)\nos.waitpid(pid, 0)",
    "fork, not waited for": "if not os.fork():\n    work(2)\n    time.sleep(9)\n    os._exit(0)",
    "pool": "with mp.get_context('fork').Pool(2) as pool:\n    pool.map(work, [1, 2, 3])",
    "spawn": "p = mp.get_context('spawn').Process(target=work, args=(1,))\np.start()\np.join()",
    "subprocess": "subprocess.run([sys.executable, __file__, 'child'], check=True)",
    "system": "os.system(f'{sys.executable} {__file__} child')",
}
PROGRAM = """\
import multiprocessing as mp, os, subprocess, sys, time
def work(n):
    return n * 2  # @work
def start():
{way}
if __name__ == "__main__":
    if sys.argv[1:]:
        work(0)
        sys.exit()
    start()
    done = 1  # @done
"""


def says_so(event: DebugEvent) -> bool:
    return any("child processes, which are not debugged" in note for note in event.notes)


QUICK = ("fork", "pool", "subprocess")


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=[] if way in QUICK else [pytest.mark.slow]) for way in WAYS],
)
def test_a_breakpoint_that_is_only_reached_in_a_child(some_bench: Workbench, way: str) -> None:
    bench = some_bench
    body = "\n".join(f"    {line}" for line in WAYS[way].split("\n"))
    event = bench.script(PROGRAM.format(way=body), "work", "done")
    assert event.line == bench.line("done")
    event = bench.debugger.list_breakpoints()
    assert [point.hits for point in event.breakpoints] == [0, 1]
    assert says_so(event)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.EXITED
    assert says_so(event)
    assert says_so(bench.debugger.list_breakpoints())
    # The next run is not said to have had any.
    bench.script("x = 1  # @here\ny = 2  # @never\n", "here", "never")
    assert not says_so(bench.debugger.list_breakpoints())


def test_a_failing_test_with_a_child(some_bench: Workbench) -> None:
    test = """
        import os, subprocess, sys, unittest
        def work():
            return 2  # @work
        class T(unittest.TestCase):
            def test_it(self):
                if {child}:
                    subprocess.run([sys.executable, "-c", "import test_a; test_a.work()"])
                self.assertEqual(1, 2)
    """
    for child in (True, False):
        some_bench.write({"test_a.py": test.format(child=child)})
        event = some_bench.start(some_bench.at("work", "test_a.py"), test="test_a.T.test_it")
        assert event.state is State.POST_MORTEM
        assert says_so(event) is child


def test_a_program_that_ends_at_once_after_its_child(some_bench: Workbench) -> None:
    text = "import os\nif not os.fork():\n    os._exit(0)\nos.wait()\nos._exit(3)\n"
    event = some_bench.script(text, stop_at_entry=False)
    assert (event.exit_code, says_so(event)) == (3, True)


def test_plain_programs_and_tests_have_no_children(some_bench: Workbench) -> None:
    assert not says_so(some_bench.script("print(1)", stop_at_entry=False))
    some_bench.write({"test_a.py": "def test_it(tmp_path): pass\n"})
    event = some_bench.start(test="test_a.py::test_it", stop_at_entry=False)
    assert event.stop_reason is StopReason.EXITED
    assert not says_so(event)


@pytest.mark.parametrize("waits", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_java_program_that_starts_a_process(java_bench: JavaBench, waits: bool) -> None:
    java_bench.main(
        f"""
        Process other = new ProcessBuilder("sleep", "{0 if waits else 30}").start();
        if ({str(waits).lower()}) {{
            other.waitFor();
        }}
        if (args.length > 0) {{
            System.out.println(); // @never
        }}
        System.out.println(); // @done
        """,
        "never",
        "done",
    )
    assert says_so(java_bench.debugger.list_breakpoints())
    assert says_so(java_bench.debugger.control(Action.CONTINUE))


@pytest.mark.slow
def test_a_plain_java_program(java_bench: JavaBench) -> None:
    event = java_bench.main("System.out.println();", stop_at_entry=False)
    assert event.stop_reason is StopReason.EXITED
    assert not says_so(event)
    event = java_bench.main('new ProcessBuilder("true").start().waitFor();', stop_at_entry=False)
    assert says_so(event)
