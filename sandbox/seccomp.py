"""A seccomp filter for bubblewrap: the system calls that programs in the local sandbox are refused.

The filter allows what a Python or Java program, a build or a test needs. It refuses what has led
out of sandboxes: new namespaces and mounts, the host's keyrings, other processes' memory, typing
into terminals, and the large interfaces io_uring, bpf and perf. Containers have their engine's own
filter.

A filter is a program of the classic BPF machine (seccomp(2)), which needs no library to write.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import termios
from functools import lru_cache
from typing import IO

from sandbox.errors import SandboxUnavailable

DENIED = {
    # New namespaces, in which a program has all capabilities; clone is checked below.
    **{"unshare": (272, 97), "setns": (308, 268)},
    # Mounts.
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41)},
    **{"open_tree": (428, 428), "open_tree_attr": (467, 467), "move_mount": (429, 429)},
    **{"fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432)},
    **{"fspick": (433, 433), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265)},
    # Keyrings belong to a user or a session of the host, not to a namespace.
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    # Other processes.
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271)},
    **{"kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440)},
    # Large kernel interfaces, in which most sandbox escapes were found.
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426)},
    **{"io_uring_register": (427, 427), "bpf": (321, 280), "perf_event_open": (298, 241)},
    **{"userfaultfd": (323, 282)},
    # The whole machine. These need capabilities as well.
    **{"acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "syslog": (103, 116)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105)},
    **{"finit_module": (313, 273), "delete_module": (176, 106), "lookup_dcookie": (212, 18)},
}
"""Refused with EPERM: the system calls' numbers on x86_64 and on aarch64."""
CLONE, CLONE3, IOCTL, SOCKET = (56, 220), (435, 435), (16, 29), (41, 198)

NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET (clone(2))."""
SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Some of the others, such as vsock, reach the host from a separate network namespace."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions (linux/bpf_common.h)."""
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
"""Answers (linux/seccomp.h); REFUSE is added to an errno."""
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
"""Byte offsets in struct seccomp_data."""
X32_BIT = 0x40000000

PR_SET_SECCOMP, FILTER_MODE = 22, 2

Instruction = tuple[int, int, int, int]
"""Code, numbers of instructions to skip if a condition is true and if false, operand."""


MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH_* (linux/audit.h), and the index into the pairs of system call numbers."""


def require_filters() -> None:
    """Raises SandboxUnavailable if there is no filter for this machine or its kernel."""
    filter_program()
    libc = ctypes.CDLL(None, use_errno=True)
    # A kernel with filters answers "bad address" to a missing filter (seccomp(2)).
    libc.prctl(PR_SET_SECCOMP, FILTER_MODE, None)
    if ctypes.get_errno() != errno.EFAULT:
        raise SandboxUnavailable(
            "the local sandbox needs a kernel with seccomp filters (CONFIG_SECCOMP_FILTER), and "
            "this one has none: set sandbox.backend: docker, or use another machine"
        )


def filter_file() -> IO[bytes]:
    """A file with the filter, for one start of bubblewrap."""
    file = os.fdopen(os.memfd_create("seccomp", os.MFD_CLOEXEC), "w+b")
    file.write(filter_program())
    file.seek(0)
    return file


@lru_cache
def filter_program(machine: str = os.uname().machine) -> bytes:
    """The filter in the format of bubblewrap's `--seccomp`. Raises SandboxUnavailable."""
    known = MACHINES.get(machine)
    if known is None:
        raise SandboxUnavailable(
            f"the local sandbox knows no system calls of {machine} machines, only those of "
            f"{' and '.join(MACHINES)}: set sandbox.backend: docker"
        )
    audit_name, column = known
    program = [
        # The numbers below are of this machine only; in 32-bit programs they mean other calls.
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, audit_name),
        _answer(KILL),
        (LOAD, 0, 0, NUMBER_AT),
        # x32 programs use other numbers for the same calls, higher than any regular one.
        (AT_LEAST, 0, 1, X32_BIT),
        _answer(REFUSE + errno.ENOSYS),
        # Its flags are in memory, which a filter can't read; ENOSYS makes the C library use clone.
        *_case(CLONE3[column], [_answer(REFUSE + errno.ENOSYS)]),
    ]
    for numbers in DENIED.values():
        program += _case(numbers[column], [_answer(REFUSE + errno.EPERM)])
    clone = [
        _load_argument(0),
        (ANY_BIT, 0, 1, NEW_NAMESPACES),
        _answer(REFUSE + errno.EPERM),
        _answer(ALLOW),
    ]
    typing = [
        _load_argument(1),
        *_case(termios.TIOCSTI, [_answer(REFUSE + errno.EPERM)]),
        *_case(termios.TIOCLINUX, [_answer(REFUSE + errno.EPERM)]),
        _answer(ALLOW),
    ]
    sockets = [_load_argument(0)]
    for family in SOCKET_FAMILIES:
        sockets += _case(family, [_answer(ALLOW)])
    sockets.append(_answer(REFUSE + errno.EAFNOSUPPORT))
    program += _case(CLONE[column], clone)
    program += _case(IOCTL[column], typing)
    program += _case(SOCKET[column], sockets)
    program.append(_answer(ALLOW))
    # Both machines are little-endian.
    return b"".join(struct.pack("<HBBI", *each) for each in program)


def _case(value: int, body: list[Instruction]) -> list[Instruction]:
    """Run the body if the loaded value equals `value`; it must end with an answer."""
    return [(EQUAL, 0, len(body), value), *body]


def _load_argument(index: int) -> Instruction:
    """Load its lower half, which is all that the kernel reads of flags, families and ioctl
    numbers."""
    return (LOAD, 0, 0, ARGUMENTS_AT + 8 * index)


def _answer(answer: int) -> Instruction:
    return (RETURN, 0, 0, answer)
