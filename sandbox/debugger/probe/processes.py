"""Processes seen from outside: their states, their descendants, the dumps of their crashes."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Dict, List

from .wire import Json
from .workspace import Workspace


def adopt_orphans() -> None:
    """Make processes that the program leaves behind children of this one, and hide its memory."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the program can't read the nonce from /proc
    except (ImportError, OSError, AttributeError):
        return  # without ctypes both are lost, and the sandbox still ends what is left


def descendants(root: int) -> List[int]:
    """Every process below `root`, by /proc."""
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


def kill_descendants() -> None:
    """Leave no process behind that this one started."""
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


def process_state(pid: int) -> str:
    """The kernel's letter for what a process does: R runs, S sleeps, D waits for a device."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii")
    except OSError:
        return "?"


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
            {"file": workspace.relative(file), "line": int(line), "function": function}
            for file, line, function in re.findall(r'File "(.*)", line (\d+) in (.*)', block)
            if not workspace.internal(file) and not file.startswith("<")
        ]
        frames = found or frames
    return frames
