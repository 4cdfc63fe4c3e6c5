"""Threads: a stop in any of them, all their stacks, and steps that the others don't disturb."""

from __future__ import annotations

from sandbox.debugger import Action, State, StopReason
from tests.sandbox.debugger.conftest import Workbench

CROWD = """
    import threading

    gate = threading.Condition()
    waiting = threading.Semaphore(0)
    release = threading.Event()

    def spin():
        while not release.is_set():
            pass

    def block():
        with gate:
            waiting.release()
            gate.wait()  # @block

    def work(n):
        for _ in ("blocked", "MainThread"):
            waiting.acquire()
        with gate:  # free once both wait
            pass
        square = n * n  # @work
        with gate:
            gate.notify_all()

    threads = [
        threading.Thread(target=spin, name="spinner"),
        threading.Thread(target=block, name="blocked"),
        threading.Thread(target=work, args=(3,), name="worker"),
    ]
    for thread in threads:
        thread.start()
    with gate:
        waiting.release()
        gate.wait()  # @main
    release.set()
"""


def test_all_threads_and_what_they_do(bench: Workbench) -> None:
    event = bench.script(CROWD, "work")
    assert event.thread == "worker"
    threads = bench.debugger.threads().threads
    assert threads[0].name == "worker"
    assert [thread.current for thread in threads] == [True, False, False, False]
    by_name = {thread.name: thread for thread in threads}
    assert {thread.name: thread.doing for thread in threads if thread.name != "spinner"} == {
        "worker": "stopped",
        "blocked": "waiting in Condition.wait",
        "MainThread": "waiting in Condition.wait",
    }
    # On a busy machine it may be caught before its loop, or without a turn on the processor.
    assert by_name["spinner"].doing.startswith(("running", "waiting in "))
    assert {name: thread.frames[0].line for name, thread in by_name.items()}["blocked"] == (
        bench.line("block")
    )
    assert by_name["MainThread"].frames[0].source == "gate.wait()  # @main"
    assert by_name["worker"].frames[0].source == "square = n * n  # @work"
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


MANY = """
    import threading

    go = threading.Barrier(5)
    SEEN = []

    def work(n):
        go.wait()
        for turn in range(3):
            total = n + turn  # @work
            total += 1
            SEEN.append(total)  # @seen

    threads = [threading.Thread(target=work, args=(n,), name=f"t{n}") for n in range(4)]
    for thread in threads:
        thread.start()
    go.wait()
    for thread in threads:
        thread.join()
    print(len(SEEN))  # @end
"""


def test_threads_at_one_breakpoint_are_served_one_after_the_other(bench: Workbench) -> None:
    event = bench.script(MANY, "work", "end")
    seen = []
    while event.line == bench.line("work"):
        assert event.stop_reason is StopReason.BREAKPOINT
        seen.append((event.thread, bench.text_of("n, turn")))
        event = bench.debugger.control(Action.CONTINUE)
    assert sorted(seen) == [(f"t{n}", f"({n}, {turn})") for n in range(4) for turn in range(3)]
    assert event.line == bench.line("end")
    points = bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in points] == [12, 1]
    assert bench.debugger.control(Action.CONTINUE).output == "12\n"


def test_each_thread_has_a_hit_of_its_own(bench: Workbench) -> None:
    event = bench.script(MANY, "work", "end")
    bench.debugger.set_breakpoint(bench.at("seen", condition="total > 0"))
    numbers: dict[int, list[int]] = {1: [], 3: []}
    while event.line != bench.line("end"):
        for point in event.hit:
            numbers[point.number].append(point.hits)
        known = {
            point.number: point.hits for point in bench.debugger.list_breakpoints().breakpoints
        }
        assert known == {1: len(numbers[1]), 2: 0, 3: len(numbers[3])}
        event = bench.debugger.control(Action.CONTINUE)
    assert numbers == {1: [*range(1, 13)], 3: [*range(1, 13)]}


def test_hits_in_threads_are_collected_by_number(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": MANY})
    bench.start()
    event = bench.debugger.collect(bench.at("work", watch=("n",)), 20)
    assert [hit.number for hit in event.collected] == [*range(1, 13)]
    assert sorted(hit.values[0].text for hit in event.collected) == sorted("0123" * 3)


def test_a_thread_that_waits_its_turn_forgets_a_removed_breakpoint(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(MANY, "work", "end")
    bench.debugger.remove_breakpoint(1)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.line == bench.line("end")


def test_a_temporary_breakpoint_stops_one_thread(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": MANY})
    event = bench.start(bench.at("work", temporary=True), bench.at("end"))
    assert event.line == bench.line("work")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.line == bench.line("end")


STEPPED = """
    import threading

    stop = threading.Event()

    def noise():
        n = 0
        while not stop.is_set():
            n = helper(n)

    def helper(n):
        return n + 1

    def quiet():
        a = helper(1)  # @first
        b = helper(a)
        c = helper(b)
        stop.set()
        return a, b, c

    noisy = [threading.Thread(target=noise, name=f"noise-{n}") for n in range(2)]
    for thread in noisy:
        thread.start()
    quiet()
    for thread in noisy:
        thread.join()
"""


def test_steps_in_one_thread_are_its_own(bench: Workbench) -> None:
    bench.script(STEPPED, "first")
    first = bench.line("first")
    seen = []
    for action in (Action.STEP_INTO, Action.STEP_OUT, Action.STEP_OVER, Action.STEP_INTO):
        event = bench.debugger.control(action)
        seen.append((event.thread, event.function, event.line))
    assert seen == [
        (None, "helper", first - 3),
        (None, "quiet", first),
        (None, "quiet", first + 1),
        (None, "helper", first - 3),
    ]
    assert bench.text_of("n") == "2"
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_no_frame_of_the_debugger_is_shown_under_pytest(some_bench: Workbench) -> None:
    some_bench.write({"test_one.py": "def test_one():\n    n = 1\n    assert n\n"})
    some_bench.start(test="test_one.py::test_one")
    (thread,) = some_bench.debugger.threads().threads
    assert [frame.function for frame in thread.frames] == ["test_one"]
