"""The request that the debuggee has not answered yet: its deadlines and diagnosis."""

from __future__ import annotations

import os
import signal
import time
from typing import Dict, Optional

from .diagnosis import LOOK, Diagnosis, Task, diagnose, look, unanswered
from .processes import process_state
from .wire import INTERRUPT, RESEND, RUN_ACTIONS, TICK, Json


class Pending:
    """One unanswered request: when to interrupt, and when to kill."""

    def __init__(self, message: Json, child: int) -> None:
        self.id = message["id"]
        self.token: str = message["token"]
        self.runs = message["action"] in RUN_ACTIONS
        self.counts = message["action"] == "list_breakpoints"
        """Whether the answer shows the breakpoints' hit counts."""
        self.child = child
        now = time.monotonic()
        self.deadline: float = now + message["timeout"]
        self.grace: float = message["grace"]
        self.next_signal = self.deadline if self.runs else min(self.deadline, now + TICK)
        self.first: Dict[int, Task] = {}
        self.first_at = 0.0
        self.diagnosis: Optional[Diagnosis] = None
        self.reached = False
        """Whether an interrupt has reached the program's Python code."""

    def wake_at(self) -> float:
        """The time of the next action, on the monotonic clock."""
        looked = self.deadline - LOOK if not self.first_at else self.next_signal
        return float(min(self.next_signal, looked, self.deadline + self.grace))

    def interrupt_now(self) -> None:
        """Interrupt before the deadline, as the host asks."""
        self.deadline = self.next_signal = min(self.deadline, time.monotonic() + LOOK)

    def paused(self) -> None:
        """From here on the debugger runs, and the program's code only for it."""
        self.next_signal = min(self.next_signal, time.monotonic() + TICK)

    def overdue(self) -> bool:
        return time.monotonic() >= self.deadline + self.grace

    def keep_time(self) -> None:
        """Look at the program shortly before the deadline, and interrupt it from then on."""
        now = time.monotonic()
        if not self.first_at and now >= self.deadline - LOOK:
            self.first, self.first_at = look(self.child), now
        if now < self.next_signal:
            return
        if now >= self.deadline and self.diagnosis is None:
            if now < self.first_at + LOOK / 2:  # the first look came late on a busy machine
                self.next_signal = self.first_at + LOOK
                return
            self.diagnosis = diagnose(self.child, self.first, now - self.first_at)
        os.kill(self.child, INTERRUPT)
        if process_state(f"/proc/{self.child}") in "tT":  # a stopped program gets it on continuing
            os.kill(self.child, signal.SIGCONT)
        self.next_signal = now + (RESEND if now >= self.deadline else TICK)

    def last_diagnosis(self) -> Diagnosis:
        """The diagnosis of a program that is about to be killed."""
        found = self.diagnosis
        if found is None:
            before, began = look(self.child), time.monotonic()
            time.sleep(LOOK)
            found = diagnose(self.child, before, time.monotonic() - began)
        return unanswered(self.child, found, self.reached)
