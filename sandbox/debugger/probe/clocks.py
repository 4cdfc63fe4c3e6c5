"""The program's clocks, which stand still while it is paused and nothing is evaluated: its timer
for signals, and those of event loops and of Hypothesis. What waits in the kernel or in another
thread goes on."""

from __future__ import annotations

import signal
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Dict, Set, Tuple

from .own import monotonic, native

get_timer, set_timer = native.getitimer, native.setitimer
LOOPS = (
    ("asyncio.base_events", "BaseEventLoop", "time"),
    ("trio._core._run", "SystemClock", "current_time"),
)
"""Classes of event loops, with the method that reads their clock."""
READERS = (
    *("hypothesis.core", "hypothesis.stateful", "hypothesis.internal.conjecture.data"),
    "hypothesis.internal.conjecture.engine",
)
"""Modules that read `time.perf_counter` for a limit."""
SOON = 1e-6
"""Seconds to a timer's end that should have come: 0 would end the timer."""


class Clocks:
    """As a context: the program stands still."""

    def __init__(self) -> None:
        self.stood = 0.0
        """Seconds, without the current ones."""
        self.since: float | None = None
        self.shifted: Set[str] = set()
        self.timer: Tuple[float, float] = 0.0, 0.0

    def __enter__(self) -> None:
        self._shift_new()
        self.since = monotonic()
        self.timer = get_timer(signal.ITIMER_REAL)
        if self.timer[0]:
            set_timer(signal.ITIMER_REAL, 0.0)

    def __exit__(self, *_: object) -> None:
        left, interval = self.timer
        # Another thread may have set it meanwhile.
        if left and not get_timer(signal.ITIMER_REAL)[0]:
            set_timer(signal.ITIMER_REAL, max(left, SOON), interval)
        self.stood, self.since = self._seconds(), None

    def _seconds(self) -> float:
        since = self.since
        return self.stood + (monotonic() - since if since is not None else 0.0)

    def _shift_new(self) -> None:
        """Shift the clocks of modules that the program has loaded since the last pause."""
        for name, owner, method in LOOPS:
            kind = self._loaded(name).get(owner)
            if isinstance(kind, type) and method in vars(kind):
                setattr(kind, method, self._shifted(vars(kind)[method]))
        clock = self._shifted(time.perf_counter)
        for name in READERS:
            names = self._loaded(name)
            if names.get("time") is time:
                names["time"] = SimpleNamespace(**{**vars(time), "perf_counter": clock})
            if names.get("perf_counter") is time.perf_counter:
                names["perf_counter"] = clock

    def _loaded(self, name: str) -> Dict[str, Any]:
        """The names of a module that is loaded and not shifted yet."""
        module = sys.modules.get(name)
        if name in self.shifted or type(module) is not ModuleType:
            return {}
        self.shifted.add(name)
        return vars(module)

    def _shifted(self, clock: Callable[..., float]) -> Callable[..., float]:
        """A clock that stands still from now on while the program does."""
        earlier = self._seconds()
        return lambda *loop: clock(*loop) - (self._seconds() - earlier)


CLOCKS = Clocks()
"""The debuggee's."""
