"""What a pause reads of a program keeps none of its objects alive."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, BreakpointRequest, State
from tests.sandbox.debugger.conftest import Workbench

WEAK = """
    import weakref

    class Thing:
        def use(self):
            return 1  # @method

    def let_go():
        thing = Thing()
        ref = weakref.ref(thing)
        thing = None  # @let_go
        return ref() is None

    def on_one_line():
        thing = Thing()
        ref = weakref.ref(thing)
        thing.use()
        thing = None; gone = ref() is None
        return gone

    def in_a_loop():
        gone = []
        for _ in range(3):
            thing = Thing()
            ref = weakref.ref(thing)
            del thing  # @loop
            gone.append(ref() is None)
        return gone

    print(let_go(), on_one_line(), in_a_loop())
"""
KEPT = """
    def own():
        n = 1
        kept = locals()
        exec("added = 2")
        n = 2  # @own
        return kept["n"], locals()["added"], n

    print(own())
"""


def run_and_look(bench: Workbench) -> str:
    output, state = "", State.RUNTIME
    while state is State.RUNTIME:
        for frame in range(len(bench.debugger.stack().frames)):
            assert bench.debugger.locals(frame).error_kind is None
            assert bench.debugger.evaluate("[n for n in (1, 2)]", frame).error_kind is None
        event = bench.debugger.control(Action.CONTINUE)
        output, state = output + event.output, event.state
    return output


@pytest.mark.parametrize("marks", [("let_go", "loop"), ("let_go", "method", "loop")])
def test_objects_that_the_program_lets_go(bench: Workbench, marks: tuple[str, ...]) -> None:
    bench.script(WEAK, *marks)
    assert run_and_look(bench) == "True True [True, True, True]\n"


def test_they_go_without_a_look_too(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(WEAK, "let_go", "method", "loop")
    while event.state is State.RUNTIME:
        event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "True True [True, True, True]\n"


def test_what_the_program_has_of_locals_stays(some_bench: Workbench) -> None:
    """Whatever `locals` gives there, it is as in a run without a look."""
    bench = some_bench
    if bench.interpreter.version == "3.13":
        pytest.skip("exec adds no variables there")
    bench.script(KEPT, "own")
    assert run_and_look(bench).endswith(", 2, 2)\n")


CLOSED = """
    log = []

    def numbers():
        try:
            yield 1
        finally:
            log.append("closed")  # @closed

    class Held:
        def __del__(self):
            log.append("deleted")  # @deleted

    def use():
        g = numbers()
        first = next(g)
        del g  # @del
        log.append("after")  # @after
        unused = (n for n in "ab")
        del unused
        held = Held()
        held = None  # @none
        log.append("end")  # @end

    use()
    print(log)
"""


@pytest.mark.parametrize("step", [False, True])
def test_what_runs_as_an_object_goes_runs_at_its_line(bench: Workbench, step: bool) -> None:
    marks = ["closed", "deleted", "del", "after", "none", "end"]
    bench.write({"program.py": CLOSED})
    event = bench.start(*map(bench.at, marks), BreakpointRequest(exception="GeneratorExit"))
    seen = []
    while event.state in (State.RUNTIME, State.RUNTIME_ERROR):
        names = {bench.line(mark): mark for mark in marks}
        seen.append(names.get(event.line or 0, "raised" if event.exception else "other"))
        at_del = step and seen[-1] in ("del", "none")
        event = bench.debugger.control(Action.STEP_OVER if at_del else Action.CONTINUE)
    assert seen == ["del", "raised", "closed", "after", "none", "deleted", "end"]
    assert event.output == "['closed', 'after', 'deleted', 'end']\n"
    points = bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in points] == [1] * 7


def test_it_does_at_lines_without_a_stop_too(bench: Workbench) -> None:
    event = bench.script(CLOSED, "closed", "deleted", "after")
    seen = []
    while event.state is State.RUNTIME:
        seen.append((event.line, bench.text_of("log")))
        event = bench.debugger.control(Action.CONTINUE)
    assert seen == [
        (bench.line("closed"), "[]"),
        (bench.line("after"), "['closed']"),
        (bench.line("deleted"), "['closed', 'after']"),
    ]
