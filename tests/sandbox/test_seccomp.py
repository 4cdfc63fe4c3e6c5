"""What the filter answers, by machine; `test_isolation` has what it keeps programs from."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys
import termios

import pytest

from sandbox import bubblewrap
from sandbox.errors import SandboxUnavailable

X86, ARM = 0xC000003E, 0xC00000B7


def answer(machine: str, number: int, first: int = 0, second: int = 0, audit: int = 0) -> str:
    """What the kernel would make of a system call, for the few instructions that filters use."""
    program = list(struct.iter_unpack("<HBBI", bubblewrap.filter_program(machine)))
    audit = audit or {"x86_64": X86, "aarch64": ARM}[machine]
    data = struct.pack("<IIQQQQQQQ", number, audit, 0, first, second, 0, 0, 0, 0)
    at = loaded = 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        if code == bubblewrap.RETURN:
            break
        if code == bubblewrap.LOAD:
            (loaded,) = struct.unpack_from("<I", data, operand)
        else:
            holds = {
                bubblewrap.EQUAL: loaded == operand,
                bubblewrap.AT_LEAST: loaded >= operand,
                bubblewrap.ANY_BIT: bool(loaded & operand),
            }[code]
            at += yes if holds else no
    if operand & 0xFFFF0000 == bubblewrap.REFUSE:
        return errno.errorcode[operand & 0xFFFF]
    return {bubblewrap.ALLOW: "allowed", bubblewrap.KILL: "killed"}[operand]


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_each_machine_has_its_numbers(machine: str, column: int) -> None:
    for name, numbers in bubblewrap.DENIED.items():
        assert answer(machine, numbers[column]) == "EPERM", name
    clone, ioctl = bubblewrap.CLONE[column], bubblewrap.IOCTL[column]
    assert answer(machine, bubblewrap.CLONE3[column]) == "ENOSYS"
    assert answer(machine, clone, 0x003D0F00) == "allowed"
    for shift in (17, 25, 26, 27, 28, 29, 30):
        assert answer(machine, clone, 0x003D0F00 | 1 << shift) == "EPERM", shift
    assert answer(machine, ioctl, 0, termios.TIOCSTI) == "EPERM"
    assert answer(machine, ioctl, 0, termios.TIOCSTI | 1 << 32) == "EPERM"
    assert answer(machine, ioctl, 0, termios.TCGETS) == "allowed"
    families = [answer(machine, bubblewrap.SOCKET[column], family) for family in (1, 2, 10, 16)]
    assert families == ["allowed"] * 4
    assert answer(machine, bubblewrap.SOCKET[column], 40) == "EAFNOSUPPORT"
    assert answer(machine, 0x40000000) == "ENOSYS"
    assert answer(machine, 1, audit=0x40000003) == "killed"
    # The first and last denied, and those around them.
    refused = {numbers[column] for numbers in bubblewrap.DENIED.values()} | {
        bubblewrap.CLONE3[column]
    }
    allowed = set(range(1000)) - refused - {bubblewrap.SOCKET[column]}
    assert {answer(machine, number) for number in allowed} == {"allowed"}


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="no system calls of riscv64 machines"):
        bubblewrap.filter_program("riscv64")


NO_FILTERS = """
import ctypes, struct
from sandbox import doctor
# prctl(PR_SET_SECCOMP) is answered with EINVAL from now on, as by a kernel without filters.
number = {"x86_64": 157, "aarch64": 167}[__import__("os").uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, 22)]
code += [(0x06, 0, 0, 0x50016), (0x06, 0, 0, 0x7FFF0000)]
raw = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(code), ctypes.addressof(raw)))) == 0
(check,) = [check for check in doctor.check_machine() if check.name == "bubblewrap"]
print(check.found, check.detail)
"""


@pytest.mark.slow
def test_the_doctor_tells_of_a_kernel_without_filters() -> None:
    told = subprocess.run(
        [sys.executable, "-c", NO_FILTERS], capture_output=True, text=True, check=True
    ).stdout
    assert told.startswith("False the local sandbox needs a kernel with seccomp filters"), told
    assert "sandbox.backend: docker" in told
