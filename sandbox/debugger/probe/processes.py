"""Processes seen from outside: their states, descendants and crash dumps."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Dict, FrozenSet, List, Optional

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


def descendants(root: int) -> List[int]:
    """Every process below `root`, found in /proc."""
    parents: Dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z" or int(fields[1]) == root:
                parents[int(name)] = int(fields[1])
    found: List[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def waited_for_children(pid: int) -> bool:
    """Whether a process has waited for children: the kernel adds up what those used."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[8]) > 0  # cminflt, see proc(5)
    except (OSError, IndexError):
        return False


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
    try:
        with open(folder + "/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii")
    except (OSError, IndexError):
        return "?"


def children(pid: int) -> List[int]:
    """The running children of a process, oldest first."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if int(parent) == pid and state not in b"ZX":
                found.append(int(name))
    return sorted(found)


def command_line(pid: int) -> str:
    """A process's command line, in at most 80 characters."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return "?"
    return " ".join(words).strip().translate(CONTROL)[:80]


def signal_set(pid: int, field: str) -> FrozenSet[int]:
    """The signals in a set of a process's main thread: `SigBlk`, `SigIgn` or `SigCgt`."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith(field)]
    except OSError:
        return frozenset()
    return frozenset(number for number in range(1, 65) if masks and masks[0] >> (number - 1) & 1)


def memory_kills() -> Optional[int]:
    """Number of processes that the kernel has killed for lack of memory; None if unknown."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            counts = [int(line.split()[1]) for line in file if line.startswith("oom_kill ")]
    except OSError:
        return None
    return counts[0] if counts else None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def dumped_frames(text: str) -> List[Json]:
    """The program's frames of the main thread in a `faulthandler` dump, innermost first.

    The dump has a block for each thread, the main one last.
    """
    workspace = Workspace(os.getcwd())
    frames: List[Json] = []
    for block in re.split(r"\n\s*\n", text):
        found = [
            (file, int(line), function)
            for file, line, function in re.findall(r'File "(.*)", line (\d+) in (.*)', block)
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
