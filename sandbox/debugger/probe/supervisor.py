"""The process that owns the pseudo-terminal: it relays messages and output,
diagnoses requests that are not answered in time, and reports the end."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
from contextlib import suppress
from typing import Callable, Tuple

from .diagnosis import (
    CRASHED,
    EXITED,
    INTERFERENCE,
    LOOK,
    OUT_OF_MEMORY,
    Diagnosis,
    Task,
    adopt_orphans,
    descendants,
    diagnose,
    dumped_frames,
    kill_descendants,
    look,
    memory_kills,
    process_state,
    signal_name,
    unanswered,
    waited_for_children,
)
from .interpreter import import_standard
from .own import DUMP, INTERRUPT
from .wire import (
    ANSWERS,
    CONTROL,
    REQUESTS,
    RESEND,
    RUN_ACTIONS,
    TICK,
    Json,
    LineReader,
    Seal,
    encode,
    write_all,
)

Pipes = Tuple[int, int, int, int]
"""The supervisor's ends: for requests, answers, output and dumps."""


def main(child: int, pipes: Pipes, told: Json) -> None:
    """Supervise the debuggee, which is `told` what it needs to know."""
    told["key"] = os.urandom(16).hex()
    # In 3.8 its first call starts a process, which would be reported as the program's: importing
    # pytest imports `uuid`, which calls it.
    old = sys.version_info < (3, 9)
    told["uname"] = list(import_standard("platform").uname()) if old else None
    supervisor = Supervisor(child, pipes, told["key"])
    with suppress(OSError):  # it has ended, which the answer to the launch will say
        write_all(supervisor.requests, encode(told))
    write_all(1, b"STEPINTO loaded\n")
    supervisor.run()


class Pending:
    """One unanswered request: when to interrupt, and when to kill."""

    def __init__(self, message: Json, child: int) -> None:
        self.id = message["id"]
        self.runs = message["action"] in RUN_ACTIONS
        self.launches = message["action"] == "launch"
        self.counts = message["action"] == "list_breakpoints"
        """Whether the answer shows the breakpoints' hit counts."""
        self.child = child
        now = time.monotonic()
        self.deadline: float = now + message["timeout"]
        self.grace: float = message["grace"]
        self.next_signal = self.deadline if self.runs else min(self.deadline, now + TICK)
        self.first: dict[int, Task] = {}
        self.first_at = 0.0
        self.diagnosis: Diagnosis | None = None
        self.reached = False
        """Whether an interrupt has reached the program's Python code."""

    def wake_at(self) -> float:
        """The time of the next action, on the monotonic clock."""
        looked = self.deadline - LOOK if not self.first_at else self.next_signal
        return float(min(self.next_signal, looked, self.deadline + self.grace))

    def interrupt(self) -> None:
        """Let its time be over now."""
        self.deadline = min(self.deadline, time.monotonic())
        self.next_signal = min(self.next_signal, self.deadline)

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


class OutputRing:
    """The head and the tail of the program's output since the last answer."""

    def __init__(self, limit: int) -> None:
        self.half = max(limit // 2, 1)
        self.data = b""
        self.cut = 0

    def add(self, data: bytes) -> None:
        self.data += data
        extra = len(self.data) - 2 * self.half
        if extra > 0:
            self.data = self.data[: self.half] + self.data[-self.half :]
            self.cut += extra

    def take(self) -> tuple[str, bool]:
        """Return the text, and whether its middle was cut; then start over.

        Escapes characters that could affect a terminal.
        """
        parts, cut = [self.data], self.cut
        if cut:
            note = f"\n... {cut} bytes cut ...\n".encode("ascii")
            parts = [self.data[: self.half], note, self.data[self.half :]]
        self.data, self.cut = b"", 0
        text = "".join(part.decode("utf-8", "replace") for part in parts)
        return text.replace("\r\n", "\n").translate(CONTROL), bool(cut)


MEMORY_ENDS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
OUT_OF_MEMORY_TEXTS = ("MemoryError", "Cannot allocate memory", "out of memory", "bad_alloc")


def ended(status: int, runs: bool, dump: str, kills_before: int | None) -> Json:
    """The answer if the program ended by itself; `status` is that of `os.waitpid`.

    An exit is a normal answer to an action that `runs` the program, and otherwise a loss.
    """
    if not os.WIFSIGNALED(status):
        answer: Json = {"stop": {"reason": "exited", "exit_code": os.WEXITSTATUS(status)}}
        if not runs:
            answer["kill_reason"] = EXITED
        return answer
    number = os.WTERMSIG(status)
    if number in (INTERRUPT, DUMP):  # the program was ending and had removed the handlers
        return {"stop": {"reason": "exited"}, "kill_reason": EXITED}
    frames = dumped_frames(dump)
    return {
        "stop": {"reason": "exited", "exit_code": 128 + number, **place(frames)},
        "signal": signal_name(number),
        "frames": frames,
        "kill_reason": crash_reason(number, dump, kills_before),
    }


def crash_reason(number: int, dump: str, kills_before: int | None) -> str:
    """Whether lack of memory explains a signal: the kernel counts the processes killed for that."""
    kills = memory_kills()
    if number == signal.SIGKILL and (kills is None or kills != kills_before):
        return OUT_OF_MEMORY
    if number in MEMORY_ENDS and any(text in dump for text in OUT_OF_MEMORY_TEXTS):
        return OUT_OF_MEMORY
    return CRASHED


def killed(reason: str, text: str, dump: str) -> Json:
    """The answer if the program had to be killed: why, and where it was."""
    frames = dumped_frames(dump)
    return {
        "stop": {"reason": "killed", **place(frames)},
        "diagnosis": text,
        "frames": frames,
        "kill_reason": reason,
    }


def place(frames: list[Json]) -> Json:
    """The position of the innermost frame, as the fields of a stop."""
    return {name: frames[0][name] for name in ("file", "line", "function")} if frames else {}


TEST_KINDS = ("name", "pytest", "unittest")
UNFINISHED = (
    "the test run did not come to its end: the program ended itself before, as os._exit() does"
)
CUT_OFF = (
    "had cut the debugger off (it closed all descriptors, or replaced itself by another program)"
)
FORGED = "the program answered in the debugger's place and was killed"


class Supervisor:
    """Relays between the host and the debuggee, keeps deadlines, reports the end."""

    def __init__(self, child: int, pipes: Pipes, key: str) -> None:
        self.child = child
        self.requests, answers, self.output, self.dump = pipes
        self.seal, self.from_debuggee = Seal(key, REQUESTS), Seal(key, ANSWERS)
        self.host = LineReader(0)
        self.answers = LineReader(answers)
        self.nonce = b""
        self.ring = OutputRing(4000)
        self.pending: Pending | None = None
        self.status: int | None = None
        self.killed: Json | None = None
        """The answer to send once the killed program has ended."""
        self.memory_kills = memory_kills()
        self.others = False
        """Whether the program is known to have started processes."""
        self.hidden = False
        """Whether another tracer has hidden breakpoints."""
        self.runs_tests = False
        self.over = False
        """Whether the program has come to its end, and did not end itself before."""
        self.cut_off = False
        """Whether the program closed the link, or replaced itself by another."""
        self.notes: list[str] = []
        self.breakpoints: list[Json] | None = None
        """Those that were set before the program ran; None if it never did."""
        self.wakeup, wakeup_write = os.pipe()
        for fd in (self.wakeup, wakeup_write, self.output, self.dump):
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
        handlers: dict[int, Callable[[], bool]] = {
            0: self._on_host,
            self.answers.fd: self._on_answer,
            self.output: self._on_output,
            self.wakeup: self._on_wakeup,
        }
        for fd in handlers:
            poller.register(fd, select.POLLIN)
        while True:
            wait = None
            if self.pending is not None and self.killed is None:
                wait = max(self.pending.wake_at() - time.monotonic(), 0) * 1000 + 1
            for fd, _ in poller.poll(wait):
                if not handlers[fd]():
                    poller.unregister(fd)
            self._keep_time()

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
                if self.pending is not None:
                    self.pending.interrupt()
            else:
                self._forward(message)
        return True

    def _forward(self, message: Json) -> None:
        self.pending = Pending(message, self.child)
        if self.pending.launches:
            self.runs_tests = message["arguments"]["target"]["kind"] in TEST_KINDS
        if self.status is not None:
            self._report_end()
            return
        try:
            write_all(self.requests, self.seal.seal(message))
        except OSError:
            self.pending.deadline = time.monotonic()  # the program closed the link

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
        """Relay the debuggee's answers, which its seal tells from what the program wrote there."""
        text = self.from_debuggee.opened(line)
        if text is None:
            return
        try:
            message = json.loads(text)
            answer = message.get("answer")
            if answer is not None:
                self._on_sealed_answer(message["id"], answer)
            elif self.pending is not None and message["id"] == self.pending.id:
                self._on_progress(self.pending, message)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            self._end_forger()

    def _on_progress(self, pending: Pending, message: Json) -> None:
        pending.reached |= bool(message.get("reached"))
        if "paused" in message:
            # From here on the debugger runs, and the program's code only for it.
            pending.next_signal = min(pending.next_signal, time.monotonic() + TICK)
        self.notes += message.get("notes", [])
        if "report" in message:
            self._on_output()
            self.ring.add(message["report"].encode("utf-8", "backslashreplace"))
        self.breakpoints = message.get("breakpoints", self.breakpoints)
        self.hidden |= bool(message.get("hidden"))
        self.over |= bool(message.get("over"))

    def _on_sealed_answer(self, number: object, message: Json) -> None:
        pending = self.pending
        if pending is None or number != pending.id:
            self._end_forger()
            return
        # Why the program had to be interrupted.
        threads = message.pop("native_threads", {})
        stopped = message.get("stop", {}).get("reason") == "interrupted"
        late = message.get("error", {}).get("kind") == "timeout"
        if (stopped or late) and pending.diagnosis is not None:
            reason, text, thread = pending.diagnosis
            where = threads.get(str(thread))
            message["kill_reason"] = reason
            message["diagnosis"] = f"{text} (thread {where})" if where else text
        if pending.counts or message.get("state") == "post_mortem":
            message["child_processes"] = self._has_started_others()
        self.pending = None
        self._send({**message, "id": pending.id})

    def _end_forger(self) -> None:
        """End a program that has answered in the debugger's place."""
        self.killed = {**killed(INTERFERENCE, "", ""), "lost": FORGED}
        os.kill(self.child, signal.SIGKILL)

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
            # Relay what the debuggee answered just before its end.
            while select.select([self.answers.fd], [], [], 0)[0] and self._on_answer():
                continue
            if self.pending is not None:
                self._report_end()
        return True

    def _keep_time(self) -> None:
        pending = self.pending
        if pending is None or self.status is not None or self.killed is not None:
            return
        if time.monotonic() >= pending.deadline + pending.grace:
            # The interrupt went unanswered: record the program's stack, from C, and kill it.
            found = pending.last_diagnosis()
            os.kill(self.child, DUMP)
            self.killed = killed(found.reason, found.text, self._dumped(1.0))
            os.kill(self.child, signal.SIGKILL)
        elif self.cut_off:
            # Only after half of the grace, since the program may be about to end.
            if time.monotonic() >= pending.deadline + pending.grace / 2:
                self.killed = killed(EXITED, CUT_OFF, "")
                os.kill(self.child, signal.SIGKILL)
        else:
            pending.keep_time()

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
            if self.runs_tests and not self.over and pending.runs and os.WIFEXITED(self.status):
                self.notes.append(UNFINISHED)
        message["child_processes"] = self._has_started_others()
        message["hidden"] = self.hidden
        if pending.launches and self.breakpoints is not None:
            message["breakpoint_news"] = {"changed": self.breakpoints, "gone": []}
        self._send({"id": pending.id, "state": "done", **message})

    def _end(self) -> None:
        kill_descendants()
        os._exit(0)
