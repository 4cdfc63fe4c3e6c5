"""The thread that keeps sandboxes to their limits, where one can't be measured or killed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sandbox.errors import OutOfMemory
from sandbox.guard import ResourceGuard, ResourceUse


class Killed(threading.Event):
    """Notes that a sandbox was, after so many tries that fail."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures

    def __call__(self) -> None:
        if self.failures:
            self.failures -= 1
            raise PermissionError("not to be killed yet")
        self.set()


def watch_until(killed: Killed, watching: ResourceGuard, *sandboxes: ResourceUse) -> None:
    for sandbox in sandboxes:
        watching.watch(sandbox)
    assert killed.wait(30)
    for sandbox in sandboxes:
        watching.forget(sandbox)


def guard(left: Callable[[], int] = lambda: 0, longest: float = 0) -> ResourceGuard:
    return ResourceGuard("test-guard", left, 0.01, longest)


def too_much() -> int:
    return 2 * 1024 * 1024


def test_one_that_can_t_be_measured_leaves_the_others_limited() -> None:
    tries = []

    def broken() -> int:
        tries.append(1)
        raise RuntimeError("can't be measured")

    killed = Killed()
    bad = ResourceUse(OutOfMemory, 1, broken, Killed())
    good = ResourceUse(OutOfMemory, 1, lambda: too_much() if len(tries) > 1 else 0, killed)
    with pytest.warns(UserWarning, match="RuntimeError: can't be measured"):
        watch_until(killed, guard(), bad, good)
    with pytest.raises(OutOfMemory):
        good.require()


def test_one_that_can_t_be_killed_is_tried_again() -> None:
    """Also where nothing else asks for a measurement."""
    killed = Killed(failures=2)
    left = iter([1 << 40])
    watching = guard(lambda: next(left, 0), longest=float("inf"))
    with pytest.warns(UserWarning, match="not to be killed yet"):
        watch_until(killed, watching, ResourceUse(OutOfMemory, 1, too_much, killed))


def test_a_look_that_fails_is_done_again() -> None:
    killed = Killed()
    looks = []

    def left() -> int:
        looks.append(1)
        if len(looks) == 2:
            raise OSError("too many open files")
        return 0

    with pytest.warns(UserWarning, match="too many open files"):
        watch_until(killed, guard(left), ResourceUse(OutOfMemory, 1, too_much, killed))


def test_a_thread_that_does_not_start_is_started_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    watching, never, killed = guard(), Killed(), Killed()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            watching.watch(ResourceUse(OutOfMemory, 1, too_much, never))
    watch_until(killed, watching, ResourceUse(OutOfMemory, 1, too_much, killed))
    assert not never.is_set(), "it was never opened"
