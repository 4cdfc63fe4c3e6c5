"""Results that are waited for until the run is stopped."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from collect.errors import RolloutStopped
from collect.threads import call_unless_stopped, result_unless_stopped


class Late(Future[str]):
    """A future whose result comes when the wait for it has just timed out."""

    def done(self) -> bool:
        if not super().done():
            self.set_result("came")
        return super().done()


def test_a_result_that_comes_at_the_last_moment_counts() -> None:
    assert result_unless_stopped(Late(), threading.Event()) == "came"


def test_an_error_comes_as_it_is() -> None:
    future: Future[str] = Future()
    future.set_exception(TimeoutError("the server's"))
    with pytest.raises(TimeoutError, match="the server's"):
        result_unless_stopped(future, threading.Event())


def test_a_stop_is_heard_of_meanwhile() -> None:
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(RolloutStopped):
        result_unless_stopped(Future(), stop)


def test_a_call_is_waited_for_no_longer_than_it_may_take() -> None:
    ended = threading.Event()
    with pytest.raises(TimeoutError, match=r"no result within 0\.1 s"):
        call_unless_stopped(lambda: ended.wait(10), threading.Event(), 0.1)
    ended.set()
    assert call_unless_stopped(lambda: "came", threading.Event(), 10) == "came"
