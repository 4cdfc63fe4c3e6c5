"""Find out what an unresponsive program is doing, from what the kernel reports of its threads.

Two looks a moment apart tell a busy thread from a waiting one, and a thread's system call tells
what it waits for (proc(5): `schedstat`, `syscall`).
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import NamedTuple

from .own import INTERRUPT
from .wire import CONTROL, Json
from .workspace import Workspace

MAX_DUMPED = 40
"""Most frames shown of a dump."""


def adopt_orphans() -> None:
    """Adopt processes that the program leaves behind, and hide this process's memory."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: hides the nonce in /proc
    except (ImportError, OSError, AttributeError):
        return  # without ctypes both are lost, but the sandbox still kills what is left


def parents() -> dict[int, int]:
    """Every process that has not ended, with its parent."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        state, parent = (stat_fields(f"/proc/{name}") or ["X", "0"])[:2]
        if state not in "ZX":
            found[int(name)] = int(parent)
    return found


def descendants(root: int) -> list[int]:
    """Every process below `root`."""
    known, frontier = parents(), {root}
    found: list[int] = []
    while frontier:
        frontier = {pid for pid, parent in known.items() if parent in frontier}
        found.extend(frontier)
    return found


def stat_fields(folder: str) -> list[str]:
    """The fields of a process's or thread's `stat` from its state on; none if it has ended."""
    return " ".join(read_words(folder + "/stat")).rpartition(")")[2].split()


def waited_for_children(pid: int) -> bool:
    """Whether a process has waited for children: the kernel adds up what those used."""
    fields = stat_fields(f"/proc/{pid}")
    return len(fields) > 8 and int(fields[8]) > 0  # cminflt, see proc(5)


def kill_descendants() -> None:
    """Kill every process that this one started."""
    for _ in range(100):
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.005)


def process_state(folder: str) -> str:
    """The kernel's letter for a process's or thread's state, by its folder below /proc.

    R runs, S sleeps, D waits for a device, T is stopped.
    """
    return (stat_fields(folder) or ["?"])[0]


def command_line(pid: int) -> str:
    """A process's command line, in at most 80 characters."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return "?"
    return " ".join(words).strip().translate(CONTROL)[:80]


def signal_set(pid: int, field: str) -> frozenset[int]:
    """The signals in a set of a process's main thread: `SigBlk`, `SigIgn` or `SigCgt`."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith(field)]
    except OSError:
        return frozenset()
    return frozenset(number for number in range(1, 65) if masks and masks[0] >> (number - 1) & 1)


def memory_kills() -> int | None:
    """Number of processes that the kernel has killed for lack of memory; None if unknown."""
    words = read_words("/proc/vmstat")
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def dumped_frames(text: str) -> list[Json]:
    """The program's frames of the main thread in a `faulthandler` dump, innermost first.

    The dump has a block for each thread, the main one last.
    """
    workspace = Workspace(os.getcwd())
    frames: list[Json] = []
    for block in re.split(r"\n\s*\n", text):
        found = [
            (file, int(line), function)
            for file, line, function in re.findall(
                r'^ *File "(.*)", line (\d+) in (.*)', block, re.M
            )
            if not workspace.internal(file) and not file.startswith("<")
        ]
        frames = [
            {
                "index": index,
                "file": workspace.relative(file),
                "line": line,
                "function": function,
                "source": workspace.line(file, line),
            }
            for index, (file, line, function) in enumerate(found[:MAX_DUMPED])
        ] or frames
    return frames


LOOK = 0.06
"""Seconds between the two looks."""
BUSY = 0.5
"""Share of that time from which on a thread is busy: it runs, or waits for a processor."""

ENDLESS_LOOP, WAITING_FOR_STDIN, DEADLOCK = "endless_loop", "waiting_for_stdin", "deadlock"
NATIVE_CODE, EXITED, CRASHED = "native_code", "exited", "crashed"
OUT_OF_MEMORY, INTERFERENCE = "out_of_memory", "interference"

CALLS = {
    "x86_64": {
        202: "futex", 449: "futex", 455: "futex", 35: "sleep", 230: "sleep", 61: "wait4",
        247: "waitid", 0: "read", 19: "readv", 45: "recvfrom", 47: "recvmsg", 43: "accept",
        288: "accept4", 42: "connect", 1: "write", 20: "writev", 44: "sendto", 46: "sendmsg",
        7: "poll", 271: "ppoll", 23: "select", 270: "select", 232: "epoll_wait",
        281: "epoll_wait", 441: "epoll_wait", 73: "flock", 72: "fcntl", 34: "pause",
        130: "sigsuspend", 128: "sigtimedwait", 2: "open", 257: "open", 219: "restart_syscall",
    },
    "aarch64": {
        98: "futex", 449: "futex", 455: "futex", 101: "sleep", 115: "sleep", 260: "wait4",
        95: "waitid", 63: "read", 65: "readv", 207: "recvfrom", 212: "recvmsg", 202: "accept",
        242: "accept4", 203: "connect", 64: "write", 66: "writev", 206: "sendto", 211: "sendmsg",
        73: "ppoll", 72: "select", 22: "epoll_wait", 441: "epoll_wait", 32: "flock",
        25: "fcntl", 133: "sigsuspend", 137: "sigtimedwait", 56: "open", 128: "restart_syscall",
    },
}  # fmt: skip
"""The system calls that wait, by the machine's numbers for them."""
ON_DESCRIPTOR = ("read", "readv", "recvfrom", "recvmsg", "accept", "accept4", "connect", "write",
                 "writev", "sendto", "sendmsg", "flock")  # fmt: skip


class Task(NamedTuple):
    """One thread at one look."""

    state: str
    ran: int
    """Nanoseconds that it has run or waited for a processor."""
    call: str
    """The system call in which it waits; empty if unknown."""
    first: int
    """The call's first argument, usually a descriptor."""


class Diagnosis(NamedTuple):
    """What the program was doing."""

    reason: str
    """One of `records.KillReason`."""
    text: str
    """A clause that continues `the program ...`."""
    thread: int = 0
    """The kernel's id of the thread concerned, unless it is the main one."""


def look(pid: int) -> dict[int, Task]:
    """All threads of a process by id."""
    found: dict[int, Task] = {}
    try:
        names = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except OSError:
        return found
    for name in names:
        folder = f"/proc/{pid}/task/{name}"
        state = process_state(folder)
        numbers = read_words(folder + "/schedstat")
        ran = sum(map(int, numbers[:2])) if len(numbers) > 1 else 0
        found[int(name)] = Task(state, ran, *waiting_call(folder))
    return found


def waiting_call(folder: str) -> tuple[str, int]:
    words = read_words(folder + "/syscall")
    if len(words) < 2:
        return "", -1
    number, first = int(words[0]), int(words[1], 16)
    call = CALLS.get(os.uname().machine, {}).get(number, f"system call {number}")
    # Older interpreters sleep by a select without descriptors.
    return ("sleep" if call == "select" and first == 0 else call), first


def diagnose(pid: int, before: dict[int, Task], seconds: float) -> Diagnosis:
    """What a process is doing, `seconds` after a first look at it."""
    after = look(pid)
    ran = {
        tid: (task.ran - before[tid].ran) / 1e9 / max(seconds, 0.001)
        for tid, task in after.items()
        if tid in before
    }
    # A thread that only waits for a processor shows no running time, but its state is R.
    ready = [tid for tid in ran if before[tid].state == after[tid].state == "R"]
    busy = [tid for tid in after if tid in ready or ran.get(tid, 1.0) > BUSY]
    if busy:
        text = "was busy, in an endless loop or with work that takes longer than this"
        return Diagnosis(ENDLESS_LOOP, text, 0 if pid in busy else busy[0])
    state = after[pid].state if pid in after else "?"
    if state in "tT":
        return Diagnosis(NATIVE_CODE, "had stopped itself with a signal")
    if any(ran.values()):
        text = "woke up again and again for short turns of work, as a loop that waits does"
        most = max(ran, key=lambda tid: ran[tid])
        return Diagnosis(ENDLESS_LOOP, text, 0 if most == pid else most)
    return waiting(pid, after)


def waiting(pid: int, tasks: dict[int, Task]) -> Diagnosis:
    """What a process waits for if none of its threads runs."""
    others = {tid: task for tid, task in tasks.items() if task.call != "futex"}
    if not others:
        count = len(tasks)
        if count > 1:
            return Diagnosis(DEADLOCK, f"stood still: all its {count} threads waited for locks")
        return Diagnosis(DEADLOCK, "waited for a lock, with no other thread to release it")
    tid = pid if pid in others else min(others)
    found = one_wait(pid, others[tid])
    return found._replace(thread=0 if tid == pid else tid)


def one_wait(pid: int, task: Task) -> Diagnosis:
    """What one thread waits for, other than a lock."""
    if task.call == "sleep":
        return Diagnosis(NATIVE_CODE, "slept")
    if task.call in ("read", "readv"):
        opened = descriptor(pid, task.first)
        if task.first == 0 or opened.startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
            return Diagnosis(WAITING_FOR_STDIN, f"waited for input{opened and ' from '}{opened}")
    below = child_wait(pid)
    if below is not None and task.call not in ("write", "writev"):
        return below
    if task.call in ON_DESCRIPTOR:
        opened = descriptor(pid, task.first)
        text = f"waited in {task.call} on descriptor {task.first}{opened and ', '}{opened}"
        return Diagnosis(NATIVE_CODE, text)
    if task.call == "epoll_wait":
        text = "waited for events, as an asyncio loop does of which every task waits"
        return Diagnosis(NATIVE_CODE, text)
    return Diagnosis(NATIVE_CODE, f"waited in {task.call or 'a call'}")


def child_wait(pid: int) -> Diagnosis | None:
    """What the child process is doing that a process seems to wait for."""
    running = [child for child, parent in parents().items() if parent == pid]
    if not running:
        return None
    child = max(running)
    name = f"waited for its child process {child} ({command_line(child)})"
    tasks = look(child)
    task = tasks.get(child)
    if task is not None and task.call in ("read", "readv") and task.first == 0:
        return Diagnosis(WAITING_FOR_STDIN, name + ", which waited for its standard input")
    if tasks and all(task.call == "futex" for task in tasks.values()):
        return Diagnosis(DEADLOCK, name + ", whose threads all waited for locks")
    doing = (
        "was busy"
        if task is None or task.state == "R"
        else "waited in {}".format(task.call or "a call")
    )
    return Diagnosis(NATIVE_CODE, f"{name}, which {doing}")


def unanswered(pid: int, found: Diagnosis, reached: bool) -> Diagnosis:
    """Extend the diagnosis of a program that did not answer the interrupt either."""
    if INTERRUPT in signal_set(pid, "SigIgn"):
        return found._replace(text=found.text + ", at its end, which no interrupt reaches")
    if INTERRUPT in signal_set(pid, "SigBlk"):
        return found._replace(text=found.text + ", and had blocked the debugger's signal")
    if reached:
        return found._replace(text=found.text + ", and went on after each interrupt")
    if found.reason == ENDLESS_LOOP:
        text = "was busy in native code, where no interrupt reaches it"
        return found._replace(reason=NATIVE_CODE, text=text)
    return found


def descriptor(pid: int, number: int) -> str:
    """What a descriptor of a process is open on: a path, `pipe:[1]`; empty if unknown."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return ""


def read_words(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return file.read().decode("ascii", "replace").split()
    except OSError:
        return []
