"""The process that owns the pseudo-terminal: it relays messages, keeps the deadlines and reports
the end."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
from typing import Callable, Dict, List, Optional

from .diagnosis import EXITED
from .ending import ended, killed
from .output import OutputRing
from .pending import Pending
from .processes import (
    adopt_orphans,
    descendants,
    kill_descendants,
    memory_kills,
    waited_for_children,
)
from .wire import DUMP, Json, LineReader, encode, write_all

CUT_OFF = (
    "had cut the debugger off (it closed all descriptors, or replaced itself by another program)"
)


class Supervisor:
    """Relays between the host and the debuggee, keeps deadlines, reports the end."""

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
        """The answer to send once the killed program has ended."""
        self.memory_kills = memory_kills()
        self.others = False
        """Whether the program is known to have started processes."""
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
        # Keeps the program from opening the terminal by its name.
        fcntl.ioctl(0, termios.TIOCEXCL)
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
                self._forward(message)
        return True

    def _forward(self, message: Json) -> None:
        message["token"] = os.urandom(8).hex()
        self.pending = Pending(message, self.child)
        if self.status is not None:
            self._report_end()
            return
        try:
            write_all(self.requests, b"\n" + encode(message))
        except OSError:
            self.pending.interrupt_now()

    def _interrupt_now(self) -> None:
        if self.pending is not None:
            self.pending.interrupt_now()

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
        """Relay the debuggee's answers. A token tells them from what the program wrote into the
        debugger's descriptor."""
        pending = self.pending
        try:
            message = json.loads(line)
            token = message.pop("token")
        except (ValueError, TypeError, AttributeError, KeyError):
            return
        if pending is None or token != pending.token:
            return
        if "id" not in message:
            pending.reached |= bool(message.get("reached"))
            if "paused" in message:
                pending.paused()
            self.notes += message.get("notes", [])
            return
        self.pending = None
        self._diagnose(message, pending)
        if pending.counts or message.get("state") == "post_mortem":
            message["child_processes"] = self._has_started_others()
        self._send(message)

    def _diagnose(self, message: Json, pending: Pending) -> None:
        """Add why the program had to be interrupted."""
        threads = message.pop("native_threads", {})
        stopped = message.get("stop", {}).get("reason") == "interrupted"
        late = message.get("error", {}).get("kind") == "timeout"
        if (stopped or late) and pending.diagnosis is not None:
            reason, text, thread = pending.diagnosis
            where = threads.get(str(thread))
            message["kill_reason"] = reason
            message["diagnosis"] = f"{text} (thread {where})" if where else text

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

    def _has_started_others(self) -> bool:
        if not self.others and self.status is None:
            self.others = waited_for_children(self.child)
        self.others = self.others or any(p != self.child for p in descendants(os.getpid()))
        return self.others

    def _on_output(self) -> bool:
        # Bounded, so that a flood of output can't keep the host waiting.
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
                reaped = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if reaped is None:
                break
            # Whether the program waited for children can only be read before it is reaped itself.
            self.others |= reaped.si_pid != self.child or waited_for_children(self.child)
            _, status = os.waitpid(reaped.si_pid, 0)
            if reaped.si_pid == self.child:
                self.status = status
        if self.status is not None and self.pending is not None:
            self._on_answers_left()
            if self.pending is not None:
                self._report_end()
        return True

    def _on_answers_left(self) -> None:
        """Relay what the debuggee answered just before its end."""
        while select.select([self.answers.fd], [], [], 0)[0] and self._on_answer():
            continue

    def _keep_time(self) -> None:
        pending = self.pending
        if pending is None or self.status is not None or self.killed is not None:
            return
        if pending.overdue():
            self._kill_unresponsive(pending)
        elif self.cut_off:
            # Only after half of the grace, since the program may be about to end.
            if time.monotonic() >= pending.deadline + pending.grace / 2:
                self.killed = killed(EXITED, CUT_OFF, "")
                os.kill(self.child, signal.SIGKILL)
        else:
            pending.keep_time()

    def _kill_unresponsive(self, pending: Pending) -> None:
        """The interrupt went unanswered: record the program's stack, from C, and kill it."""
        found = pending.last_diagnosis()
        os.kill(self.child, DUMP)
        self.killed = killed(found.reason, found.text, self._dumped(1.0))
        os.kill(self.child, signal.SIGKILL)

    def _dumped(self, timeout: float) -> str:
        """The output of `faulthandler`, on request or after a crash."""
        if not select.select([self.dump], [], [], timeout)[0]:
            return ""
        time.sleep(0.02)  # faulthandler writes line by line
        return os.read(self.dump, 65536).decode("utf-8", "replace")

    def _report_end(self) -> None:
        assert self.status is not None
        assert self.pending is not None
        pending, self.pending = self.pending, None
        message = self.killed
        if message is None:
            message = ended(self.status, pending.runs, self._dumped(0.0), self.memory_kills)
        others = self._has_started_others()
        self._send({"id": pending.id, "state": "done", "child_processes": others, **message})

    def _end(self) -> None:
        kill_descendants()
        os._exit(0)
