"""The process that owns the pseudo-terminal: it relays, keeps the time and reports the end."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Callable, Dict, List, Optional

from .output import OutputRing
from .processes import (
    adopt_orphans,
    dumped_frames,
    kill_descendants,
    process_state,
    signal_name,
)
from .wire import DUMP, INTERRUPT, RUN_ACTIONS, TICK, Json, LineReader, encode, write_all


class Pending:
    """The request that the debuggee has not answered yet."""

    def __init__(self, message: Json) -> None:
        self.id = message["id"]
        self.runs = message["action"] in RUN_ACTIONS
        self.deadline = time.monotonic() + message["timeout"]
        self.grace = message["grace"]
        self.next_signal = self.deadline
        if not self.runs:
            self.next_signal = min(self.deadline, time.monotonic() + TICK)

    def wake_at(self) -> float:
        return float(min(self.next_signal, self.deadline + self.grace))


class Supervisor:
    """Relays between the host and the debuggee, keeps the time, reports the end."""

    def __init__(self, child: int, requests: int, answers: int, output: int, dump: int) -> None:
        self.child = child
        self.requests = requests
        self.host = LineReader(0)
        self.answers = LineReader(answers)
        self.output = output
        self.dump = dump
        self.nonce = b""
        self.ring = OutputRing(4000)
        self.pending: Optional[Pending] = None
        self.status: Optional[int] = None
        self.killed: Optional[Json] = None
        self.cut_off = False
        """Whether the program closed the link, or replaced itself by another."""
        self.notes: List[str] = []
        self.wakeup, wakeup_write = os.pipe()
        for fd in (self.wakeup, wakeup_write, output, dump):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, lambda *_: self._end())
        signal.signal(signal.SIGTERM, lambda *_: self._end())

    def run(self) -> None:
        adopt_orphans()
        poller = select.poll()
        handlers: Dict[int, Callable[[], bool]] = {
            0: self._on_host,
            self.answers.fd: self._on_answer,
            self.output: self._on_output,
            self.wakeup: self._on_wakeup,
        }
        for fd in handlers:
            poller.register(fd, select.POLLIN)
        while True:
            for fd, _ in poller.poll(self._poll_ms()):
                if not handlers[fd]():
                    poller.unregister(fd)
            self._keep_time()

    def _poll_ms(self) -> Optional[float]:
        if self.pending is None or self.killed is not None:
            return None
        return max(self.pending.wake_at() - time.monotonic(), 0) * 1000 + 1

    def _on_host(self) -> bool:
        try:
            lines = self.host.feed()
        except EOFError:
            self._end()
            return False
        for line in lines:
            message = json.loads(line)
            if not self.nonce:
                self.nonce = message["nonce"].encode("ascii")
                self.ring = OutputRing(message["output_chars"])
                self._send({"id": message["id"], "version": sys.version.split()[0]})
            elif message["action"] == "interrupt":
                self._interrupt_now()
            else:
                self._forward(message, line)
        return True

    def _forward(self, message: Json, line: bytes) -> None:
        self.pending = Pending(message)
        if self.status is not None:
            self._report_end()
            return
        try:
            write_all(self.requests, line + b"\n")
        except OSError:
            self.pending.deadline = min(self.pending.deadline, time.monotonic() + 1)

    def _interrupt_now(self) -> None:
        if self.pending is not None:
            self.pending.deadline = self.pending.next_signal = time.monotonic()

    def _on_answer(self) -> bool:
        try:
            lines = self.answers.feed()
        except EOFError:
            self.cut_off = True
            return False
        for line in lines:
            self._relay(line)
        return True

    def _relay(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # written by the program into a descriptor that is not its own
        if "id" not in message:
            self.notes += message.get("notes", [])
        if self.pending is None or message.get("id") != self.pending.id:
            return
        self.pending = None
        self._send(message)

    def _send(self, message: Json) -> None:
        self._on_output()
        text, cut = self.ring.take()
        if text:
            message["output"] = text
        if cut:
            message["output_truncated"] = True
        if self.notes:
            message["notes"] = [*message.get("notes", []), *self.notes]
            self.notes = []
        write_all(1, self.nonce + b" " + encode(message))

    def _on_output(self) -> bool:
        # Bounded, so that a program that floods its output can't keep the host waiting.
        for _ in range(64):
            try:
                data = os.read(self.output, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.ring.add(data)
        return True

    def _on_wakeup(self) -> bool:
        os.read(self.wakeup, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.child:
                self.status = status
        if self.status is not None and self.pending is not None:
            self._on_answers_left()
            if self.pending is not None:
                self._report_end()
        return True

    def _on_answers_left(self) -> None:
        """What the debuggee answered just before its end."""
        while select.select([self.answers.fd], [], [], 0)[0] and self._on_answer():
            continue

    def _keep_time(self) -> None:
        pending = self.pending
        if pending is None or self.status is not None or self.killed is not None:
            return
        now = time.monotonic()
        if now >= pending.deadline + pending.grace:
            self._kill_unresponsive()
        elif now >= pending.next_signal and self.cut_off:
            self.killed = {"cut_off": True}
            os.kill(self.child, signal.SIGKILL)
        elif now >= pending.next_signal:
            os.kill(self.child, INTERRUPT)
            pending.next_signal = now + TICK

    def _kill_unresponsive(self) -> None:
        """The interrupt went unanswered: note where the program is, from C, and end it."""
        state = process_state(self.child)
        os.kill(self.child, DUMP)
        text = self._dumped(0.3)
        self.killed = {"where": dumped_frames(text), "process_state": state}
        os.kill(self.child, signal.SIGKILL)

    def _dumped(self, timeout: float) -> str:
        """What `faulthandler` wrote: on request, or when the interpreter crashed."""
        if not select.select([self.dump], [], [], timeout)[0]:
            return ""
        time.sleep(0.02)  # it writes line by line
        return os.read(self.dump, 65536).decode("utf-8", "replace")

    def _report_end(self) -> None:
        assert self.status is not None
        assert self.pending is not None
        message: Json = {"id": self.pending.id, "state": "done"}
        self.pending = None
        if self.killed is not None:
            message["stop"] = {"reason": "killed", **next(iter(self.killed.get("where", [])), {})}
            message["killed"] = self.killed
        elif os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            where = dumped_frames(self._dumped(0.0))
            place: Json = where[0] if where else {}
            message["stop"] = {"reason": "exited", "exit_code": 128 + number, **place}
            message["signal"] = signal_name(number)
        else:
            message["stop"] = {"reason": "exited", "exit_code": os.WEXITSTATUS(self.status)}
        self._send(message)

    def _end(self) -> None:
        kill_descendants()
        os._exit(0)
