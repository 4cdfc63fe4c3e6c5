"""Java programs with several threads: no thread's arrival at a breakpoint is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, State, StopReason
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

THREADS = 6
ROUNDS = 4
ALL = THREADS * ROUNDS
NAME = "Thread.currentThread().getName()"
CROWD = f"""
    import java.util.*;
    import java.util.concurrent.*;

    public class Program {{
        static final Set<Integer> seen = ConcurrentHashMap.newKeySet();

        static int square(int number) {{
            int square = number * number;
            seen.add(square); // @seen
            return square; // @behind
        }}

        static void work(CyclicBarrier barrier, int first) {{
            for (int round = 0; round < {ROUNDS}; round++) {{
                try {{
                    barrier.await();
                }} catch (InterruptedException | BrokenBarrierException error) {{
                    throw new IllegalStateException(error);
                }}
                int found = square(first + round); // @call
            }}
        }}

        public static void main(String[] args) throws Exception {{
            CyclicBarrier barrier = new CyclicBarrier({THREADS});
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < {THREADS}; number++) {{
                int first = 10 * number;
                threads.add(new Thread(() -> work(barrier, first), "worker-" + number));
            }}
            for (Thread thread : threads) {{
                thread.start();
            }}
            for (Thread thread : threads) {{
                thread.join();
            }}
            System.out.println(seen.size()); // @end
        }}
    }}
"""


@pytest.fixture(scope="module")
def crowd() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"Program.java": CROWD})
        yield bench


def hit_of(event: DebugEvent) -> tuple[int, str] | None:
    """The number of a stop's hit and the thread it says; None for a stop of another kind."""
    if not event.hit:
        return None
    name = next(value.text for value in event.values if value.name == NAME)
    assert name == f'"{event.thread}"'
    assert event.function == "Program.square"
    return event.hit[0].hits, name


@pytest.mark.parametrize(
    "actions",
    [
        [Action.CONTINUE],
        [Action.STEP_OUT],
        [Action.STEP_OVER],
        [Action.STEP_OVER, Action.STEP_INTO, Action.STEP_OUT, Action.CONTINUE],
    ],
)
def test_each_arrival_is_a_hit_with_its_own_number(crowd: JavaBench, actions: list[Action]) -> None:
    event = crowd.start(crowd.at("seen", watch=(NAME, "seen.size()")))
    hits = []
    turn = 0
    while event.state is State.RUNTIME:
        hits.append(hit_of(event))
        assert crowd.text_of("seen.contains(-1)") == "false"
        event = crowd.debugger.control(actions[turn % len(actions)])
        turn += 1
    assert (event.stop_reason, event.output) == (StopReason.EXITED, f"{ALL}\n")
    told = [hit for hit in hits if hit is not None]
    assert [number for number, _ in told] == list(range(1, ALL + 1))
    threads = [name for _, name in told]
    assert {name: threads.count(name) for name in threads} == {
        f'"worker-{number}"': ROUNDS for number in range(THREADS)
    }


def test_collections_one_after_the_other_miss_no_arrival(crowd: JavaBench) -> None:
    crowd.start()
    place = crowd.at("seen", watch=(NAME, "number"))
    found = []
    while True:
        event = crowd.debugger.collect(place, 5)
        found += [hit.values[1].text for hit in event.collected]
        if event.state is State.DONE:
            break
    expected = [10 * number + turn for number in range(THREADS) for turn in range(ROUNDS)]
    assert sorted(map(int, found)) == expected


def test_a_breakpoint_set_anew_at_its_place_misses_no_arrival(crowd: JavaBench) -> None:
    event = crowd.start(crowd.at("seen", watch=(NAME,)))
    numbers = []
    while event.state is State.RUNTIME:
        numbers.append(int(crowd.text_of("number")))
        crowd.debugger.remove_breakpoint(event.hit[0].number)
        crowd.debugger.set_breakpoint(crowd.at("seen", watch=(NAME,)))
        event = crowd.debugger.control(Action.CONTINUE)
    assert len(set(numbers)) == len(numbers) == ALL


def test_a_condition_that_runs_code_misses_no_arrival(crowd: JavaBench) -> None:
    odd = "Integer.valueOf(number).hashCode() % 2 == 1"
    event = crowd.start(crowd.at("seen", condition=odd), crowd.at("end"))
    stops = 0
    while event.line != crowd.line("end"):
        stops += 1
        event = crowd.debugger.control(Action.CONTINUE)
    assert stops == ALL // 2
    listed = crowd.debugger.list_breakpoints()
    assert [point.hits for point in listed.breakpoints] == [ALL // 2, 1]


def test_code_that_runs_for_the_debugger_hits_nothing(crowd: JavaBench) -> None:
    event = crowd.start(crowd.at("end"), crowd.at("seen", condition="number > 1000"))
    assert event.line == crowd.line("end")
    assert crowd.text_of("square(2000) + square(3000)") == "13000000"
    assert crowd.text_of(
        "java.util.stream.IntStream.range(2000, 3000).map(n -> square(n)).max().getAsInt()"
    ) == str(2999 * 2999)
    listed = crowd.debugger.list_breakpoints()
    assert [point.hits for point in listed.breakpoints] == [1, 0]
    event = crowd.debugger.control(Action.CONTINUE)
    assert event.state is State.DONE


def test_exceptions_of_many_threads_at_once_are_all_hits(crowd: JavaBench) -> None:
    raising = CROWD.replace(
        "seen.add(square); // @seen",
        """try {
                throw new UnsupportedOperationException("number " + number);
            } catch (UnsupportedOperationException error) {
                seen.add(square);
            }""",
    )
    crowd.write({"Program.java": raising})
    point = BreakpointRequest(exception="UnsupportedOperationException", watch=(NAME,))
    event = crowd.start(point)
    numbers, messages = [], set()
    while event.state is State.RUNTIME_ERROR:
        assert event.exception is not None
        told = hit_of(event)
        if told is not None:
            numbers.append(told[0])
            messages.add(event.exception.message)
        action = Action.STEP_OUT if len(numbers) % 2 else Action.CONTINUE
        event = crowd.debugger.control(action)
        while event.state is State.RUNTIME:  # where a step ended
            event = crowd.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.EXITED
    assert (numbers, len(messages)) == (list(range(1, ALL + 1)), ALL)
