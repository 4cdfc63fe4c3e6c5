import pytest

from taskgrid import Clock, RetryPolicy, Task
from taskgrid.graph import CycleError, Graph
from taskgrid.ready import ReadyQueue
from taskgrid.spec import milliseconds, retry_policy


def tasks(**needs):
    return [Task(name, lambda now: None, tuple(above)) for name, above in needs.items()]


def test_clock_runs_timers_in_order():
    clock, seen = Clock(), []
    clock.call_later(20, lambda: seen.append(("b", clock.now)))
    clock.call_later(10, lambda: seen.append(("a", clock.now)))
    clock.advance(30)
    assert seen == [("a", 10), ("b", 20)]
    assert clock.now == 30


def test_clock_keeps_later_timers():
    clock, seen = Clock(), []
    clock.call_later(50, lambda: seen.append(clock.now))
    clock.advance(49)
    assert seen == []
    assert clock.next_timer()
    assert not clock.next_timer()
    assert seen == [50]


def test_order_respects_needs():
    graph = Graph(tasks(ship=("build", "test"), test=("build",), build=()))
    assert graph.order() == ["build", "test", "ship"]


def test_cycle():
    with pytest.raises(CycleError, match="'a', 'b'"):
        Graph(tasks(a=("b",), b=("a",), c=())).order()


def test_unknown_need():
    with pytest.raises(KeyError, match="nothing"):
        Graph(tasks(a=("nothing",)))


def test_downstream():
    graph = Graph(tasks(a=(), b=("a",), c=("b",), d=()))
    assert graph.downstream("a") == {"b", "c"}


def test_queue_is_first_in_first_out_at_one_urgency():
    queue = ReadyQueue()
    for name in "abc":
        queue.push(name, 1)
    queue.remove("b")
    assert len(queue) == 2
    assert [queue.pop(), queue.pop(), queue.pop()] == ["a", "c", None]


def test_pause_grows_up_to_the_longest():
    policy = RetryPolicy(attempts=5, delay=100, factor=3, longest=500)
    assert [policy.pause(failures) for failures in (1, 2, 3)] == [100, 300, 500]


@pytest.mark.parametrize(
    ("text", "expected"), [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("0s", 0)]
)
def test_milliseconds(text, expected):
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["soon", "12", "5s3", "1d"])
def test_not_a_length_of_time(text):
    with pytest.raises(ValueError, match="not a length"):
        milliseconds(text)


def test_retry_policy_defaults():
    assert retry_policy({}) == RetryPolicy()
