from taskgrid import Clock, RetryPolicy, Scheduler, Task, load
from taskgrid.report import attempts, stuck, timeline


def job(name, needs=(), **options):
    return Task(name, lambda now: None, tuple(needs), **options)


def started(scheduler):
    return [name for _, name, _ in scheduler.log]


def down_until(moment):
    def run(now):
        if now < moment:
            raise ConnectionError("refused")

    return run


def test_runs_in_order_of_needs():
    scheduler = Scheduler([job("c", "b"), job("b", "a"), job("a")])
    scheduler.run()
    assert started(scheduler) == ["a", "b", "c"]


def test_urgent_tasks_first():
    scheduler = Scheduler([job("low"), job("high", priority=5), job("middle", priority=2)])
    scheduler.run()
    assert started(scheduler) == ["high", "middle", "low"]


def test_a_need_is_as_urgent_as_its_user():
    scheduler = Scheduler([job("a"), job("fetch"), job("alarm", ["fetch"], priority=9)])
    scheduler.run()
    assert started(scheduler) == ["fetch", "alarm", "a"]


def test_urgency_reaches_the_start_of_a_chain():
    chain = [job("fetch"), job("parse", ["fetch"]), job("verify", ["parse"])]
    others = [job("audit", priority=3), job("alarm", ["verify"], priority=9)]
    scheduler = Scheduler(others + chain)
    scheduler.run()
    assert started(scheduler) == ["fetch", "parse", "verify", "alarm", "audit"]


def test_cost_moves_the_clock():
    scheduler = Scheduler([job("a", cost=1500), job("b", ["a"])])
    scheduler.run()
    assert timeline(scheduler) == ["0.0s a: done", "1.5s b: done"]


def test_failure_skips_what_is_downstream():
    broken = Task("a", down_until(10**9))
    scheduler = Scheduler([broken, job("b", "a"), job("c", "b"), job("d")])
    assert scheduler.run() == {"a": "failed", "b": "skipped", "c": "skipped", "d": "done"}


def test_retries_until_the_service_is_back():
    policy = RetryPolicy(attempts=4, delay=100, factor=2)
    scheduler = Scheduler([Task("sync", down_until(600), retry=policy), job("mail", ["sync"])])
    assert scheduler.run() == {"sync": "done", "mail": "done"}
    assert timeline(scheduler)[-2:] == ["0.7s sync: done", "0.7s mail: done"]


def test_gives_up_after_the_last_attempt():
    policy = RetryPolicy(attempts=3, delay=100)
    scheduler = Scheduler([Task("sync", down_until(10**9), retry=policy)])
    assert scheduler.run() == {"sync": "failed"}
    assert attempts(scheduler) == {"sync": 3}


def test_other_tasks_run_during_a_pause():
    policy = RetryPolicy(attempts=2, delay=100)
    scheduler = Scheduler([Task("sync", down_until(50), retry=policy), job("write")])
    scheduler.run()
    assert started(scheduler) == ["sync", "write", "sync"]


def test_loaded_tasks_ride_out_an_outage():
    specs = {
        "sync": {"retry": {"attempts": 6, "delay": "10s", "longest": 120}},
        "mail": {"needs": ["sync"], "cost": "500ms"},
    }
    tasks = load(specs, {"sync": down_until(240_000), "mail": lambda now: None})
    scheduler = Scheduler(tasks)
    assert scheduler.run() == {"sync": "done", "mail": "done"}
    assert attempts(scheduler) == {"sync": 6, "mail": 1}


def test_loaded_tasks_with_defaults():
    tasks = load({"a": {}, "b": {"needs": ["a"]}}, {"a": print, "b": print})
    assert [task.needs for task in tasks] == [(), ("a",)]
    assert [task.cost for task in tasks] == [0, 0]


def test_held_task_does_not_start():
    scheduler = Scheduler([job("a"), job("b")])
    scheduler.hold("a")
    scheduler.run()
    assert started(scheduler) == ["b"]
    assert stuck(scheduler) == ["a"]


def test_released_task_starts_after_the_run():
    scheduler = Scheduler([job("a"), job("b")])
    scheduler.hold("a")
    scheduler.run()
    scheduler.release("a")
    assert scheduler.run() == {"a": "done", "b": "done"}


def test_release_before_the_run_goes_on():
    scheduler = Scheduler([job("a", priority=1), job("b"), job("c", "a")], Clock())
    scheduler.hold("a")
    scheduler.release("a")
    assert scheduler.run() == {"a": "done", "b": "done", "c": "done"}
    assert attempts(scheduler) == {"a": 1, "b": 1, "c": 1}


def test_hold_before_the_needs_are_done():
    scheduler = Scheduler([job("a"), job("b", "a"), job("c", "b")])
    scheduler.hold("b")
    scheduler.run()
    assert stuck(scheduler) == ["b", "c"]
    scheduler.release("b")
    scheduler.run()
    assert stuck(scheduler) == []
