"""Which process something belongs to, as a text says it, and whether that process has ended."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

INITIAL_NAMESPACE = str(0xEFFFFFFC)
"""The PID namespace that a machine starts with (Linux, PROC_PID_INIT_INO); others are those of
containers, and get another number each time."""


def owner_tag() -> str:
    """Names this process among those of all machines, PID namespaces and boots."""
    pid = os.getpid()
    return f"{_machine()} {_namespace()} {_boot_id()} {pid} {_start_time(pid)}"


def owner_is_dead(tag: str) -> bool | None:
    """Whether the process of an `owner_tag` has ended. None where that can't be told from here: it
    is of another machine, or of another PID namespace of this one, or /proc hides it."""
    try:
        machine, namespace, boot, pid, started = tag.split()
    except ValueError:
        return None
    if (machine, namespace) != (_machine(), _namespace()):
        return None
    if boot != _boot_id():
        return True if namespace == INITIAL_NAMESPACE else None
    found = _start_time(int(pid))
    return _has_ended(int(pid)) if found is None else found != started


def _machine() -> str:
    """Its id and name: containers of one image may share the first, and machines the second."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return f"{machine or _boot_id()}-{platform.node()}"


def _namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_time(pid: int) -> str | None:
    """Clock ticks after boot (proc(5), field 22); the name before it may hold spaces. None where
    there is no such process, or /proc hides those of other users (hidepid)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _has_ended(pid: int) -> bool | None:
    """Whether no process has this number; None where one has, maybe another."""
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return None
