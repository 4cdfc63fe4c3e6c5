"""Attacks on the kernel and the host from inside a local sandbox, of root and of another user."""

from __future__ import annotations

import os

import pytest

from tests.sandbox.users import USERS, run_as

pytestmark = [
    pytest.mark.parametrize("user", USERS),
    pytest.mark.skipif(
        os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86_64"
    ),
]

OPEN = """
import sys
from sandbox import Command, SandboxConfig, open_sandbox
def attack(program, *arguments, **settings):
    with open_sandbox(SandboxConfig(**settings)) as box:
        return box.run(Command([box.python, "-c", program, *arguments], timeout=60)).output
"""
CALL = """
import ctypes, errno, os, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *(
        ctypes.c_long(each) if isinstance(each, int) else each for each in arguments
    ))
    return answer if answer >= 0 else errno.errorcode[ctypes.get_errno()]
def in_child(do):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(do()).encode())
        os._exit(0)
    return os.read(reader, 100).decode()
def told(name, answer):
    print(name, answer if isinstance(answer, str) and not answer.isdigit() else "done")
"""
SYSTEM_CALLS = (
    CALL
    + """
NEWUSER = 0x10000000
def clone():
    answer = call(56, NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if answer == 0:
        os._exit(0)
    return answer
def clone3():
    answer = call(435, struct.pack("11Q", NEWUSER, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
    if answer == 0:
        os._exit(0)
    return answer
def ramfs():
    if libc.unshare(NEWUSER | 0x20000) != 0:
        return "EPERM"
    return call(165, b"x", b"/tmp", b"ramfs", 0, 0)
child = os.fork()
if child == 0:
    time.sleep(100)
told("unshare", in_child(lambda: call(272, NEWUSER)))
told("clone", in_child(clone))
told("clone3", in_child(clone3))
told("setns", in_child(lambda: call(308, os.open("/proc/self/ns/net", 0), 0)))
told("ramfs", in_child(ramfs))
told("fsopen", call(430, b"tmpfs", 0))
told("ptrace", call(101, 16, child, 0, 0))
memory = ctypes.create_string_buffer(8)
piece = struct.pack("QQ", ctypes.addressof(memory), 8)
told("process_vm_readv", call(310, child, piece, 1, piece, 1, 0))
told("process_vm_writev", call(311, child, piece, 1, piece, 1, 0))
told("kcmp", call(312, child, child, 1, 0, 0))
told("pidfd_getfd", call(438, os.pidfd_open(child), 1, 0))
told("io_uring_setup", call(425, 4, ctypes.create_string_buffer(120)))
told("bpf", call(321, 0, struct.pack("IIIII", 2, 4, 4, 1, 0) + bytes(100), 120))
event = struct.pack("IIQQQQQ", 1, 112, 0, 0, 0, 0, 0b1100001) + bytes(64)
told("perf_event_open", call(298, event, 0, -1, -1, 0))
told("userfaultfd", call(323, 1))
told("add_key", call(248, b"user", b"name", b"value", 5, -2))
told("socket", call(41, 40, 1, 0))
told("TIOCLINUX", call(16, 0, 0x541C | 1 << 32, b"\\x06"))
os.kill(child, 9)
"""
)

NO_FILTER = """
from sandbox import bubblewrap
bubblewrap.filter_program = lambda: bytes.fromhex("060000000000ff7f")
"""
"""Allows everything; what else keeps a program from the host must hold without the filter too."""


def test_system_calls_that_have_led_out_are_refused(user: str) -> None:
    told = run_as(user, OPEN + "print(attack(sys.argv[1]))", SYSTEM_CALLS)
    answers = dict(line.split() for line in told.splitlines() if line)
    assert answers.pop("clone3") == "ENOSYS", told
    assert answers.pop("socket") == "EAFNOSUPPORT", told
    assert set(answers.values()) == {"EPERM"}, told
    assert len(answers) == 16


def test_other_numbers_for_the_same_calls_do_not_help(user: str) -> None:
    x32 = CALL + 'told("x32", call(0x40000000 | 39))\n'
    legacy = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
at = ctypes.addressof(ctypes.c_char.from_buffer(code))
print("32 bits", ctypes.CFUNCTYPE(ctypes.c_int)(at)())
"""
    told = run_as(user, OPEN + "print(*map(attack, sys.argv[1:]))", x32, legacy)
    assert told.split() == ["x32", "ENOSYS"]


SESSION_KEY = (
    CALL
    + OPEN
    + """
call(250, 1, b"of the host")
call(248, b"user", b"secret", b"s3cret", 6, -3)
print(attack(sys.argv[1]))
print("key", call(250, 10, -3, b"user", b"planted", 0))
"""
)
READ_KEY = (
    CALL
    + """
key = call(250, 10, -3, b"user", b"secret", 0)
read = ctypes.create_string_buffer(100)
if isinstance(key, int):
    call(250, 11, key, read, 100)
print("read", read.value)
call(248, b"user", b"planted", b"x", 1, -3)
"""
)


def test_the_host_s_keyrings_are_out_of_reach(user: str) -> None:
    told = run_as(user, SESSION_KEY, READ_KEY)
    assert told.split("\n") == ["read b''", "", "key ENOKEY", ""]


TERMINAL = (
    CALL
    + """
import fcntl
def typed():
    try:
        fcntl.ioctl(0, 0x5412, b"x")
        return 0
    except OSError as error:
        return errno.errorcode[error.errno]
print("terminal of process 1:", open("/proc/1/stat").read().rpartition(")")[2].split()[4])
told("ptrace", str(call(101, 16, 1, 0, 0)))
call(61, 1, 0, 0x40000000, 0)
call(101, 17, 1, 0, 0)
told("typing", str(typed()))
print("end")
"""
)
FROM_A_TERMINAL = (
    OPEN
    + """
import os
assert os.isatty(os.open("/dev/tty", os.O_RDWR))
with open_sandbox(SandboxConfig()) as box:
    terminal = box.spawn(Command([box.python, "-c", sys.argv[1]]))
    while (line := terminal.read_line(30)) not in (b"end", None):
        print(line.decode())
    terminal.close()
print(attack(sys.argv[1]))
"""
)


@pytest.mark.parametrize("without_filter", [False, True], ids=["filter", "no filter"])
def test_the_terminal_of_who_started_it_is_out_of_reach(user: str, without_filter: bool) -> None:
    told = run_as(user, NO_FILTER * without_filter + FROM_A_TERMINAL, TERMINAL, terminal=True)
    assert told.count("terminal of process 1: 0\n") == 2, told
    if without_filter:
        assert told.count("typing done\n") == 1, told
    else:
        assert told.count("ptrace EPERM\ntyping EPERM\n") == 2, told


MOUNTS = (
    OPEN
    + """
import os, tempfile
from pathlib import Path
root = Path(tempfile.mkdtemp(dir="/tmp"))
data, host = root / "deep" / "data", root / "host"
for folder in (data, host):
    folder.mkdir(parents=True)
for folder in (root, data.parent, data, host):
    folder.chmod(0o755)
(data / "file").write_text("shared")
with open_sandbox(SandboxConfig(readable_paths=(str(data),))) as box:
    def told(script):
        return box.run(Command(["sh", "-c", script])).output.strip()
    # Where bubblewrap sees the host's files while it makes the sandbox.
    for moved in (data.parent, root):
        print(told(f"mv {moved} /tmp/moved 2>/dev/null; rm -rf {moved} 2>/dev/null; "
                   f"ln -sT /oldroot{host} {moved} 2>/dev/null; echo tried"))
        print(told(f"cat {data}/file"), [path.name for path in host.iterdir()])
for folder in (data / "file", data, data.parent, host, root):
    folder.unlink() if folder.is_file() else folder.rmdir()
"""
)


def test_no_mount_point_is_swapped_for_a_link_out(user: str) -> None:
    assert run_as(user, MOUNTS).split("\n") == [*["tried", "shared []"] * 2, ""]
