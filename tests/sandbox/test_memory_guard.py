"""The memory of a local sandbox as a whole, taken in every way that programs have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sandbox import Command, CommandResult, SandboxConfig
from sandbox.debugger import Action, DebugLimits, Launch, open_debugger
from sandbox.errors import OutOfMemory
from sandbox.local import LocalSandbox

FORKS = """
import os, time
for number in range(4):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(number / 2)
            held = b"x" * (200 << 20)
            time.sleep(60)
        os._exit(0)
time.sleep(60)
"""
"""A tree whose processes become orphans, and take 200 MB each, one after the other."""

GROWS = """
held = []
try:
    while True:
        held.append(b"x" * (1 << 20))
except MemoryError:
    print("refused")
"""

MEMFDS = """
import os, time
files = [os.memfd_create(str(number)) for number in range(6)]
for file in files:
    os.write(file, bytes(64 << 20))
time.sleep(60)
"""

SHARED_FILE = """
import time
with open("/dev/shm/file", "wb") as file:
    for _ in range(200):
        file.write(bytes(1 << 20))
time.sleep(60)
"""

SHARED_PAGES = """
import mmap, time
held = mmap.mmap(-1, 200 << 20)
for _ in range(200):
    held.write(bytes(1 << 20))
time.sleep(60)
"""

COPY_ON_WRITE = """
import os, time
held = b"x" * (200 << 20)
for _ in range(20):
    if os.fork() == 0:
        read = sum(held[::4096])
        time.sleep(3)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
print("done")
"""

VFORK = """
import os, subprocess
held = b"x" * (300 << 20)
os.mkfifo("fifo")
subprocess.Popen(["sh", "-c", "sleep 3; echo >fifo"])
wait = (os.POSIX_SPAWN_OPEN, 9, "fifo", os.O_RDONLY, 0)
child = os.posix_spawn("/bin/true", ["true"], {}, file_actions=[wait])
os.waitpid(child, 0)
print("done")
"""
"""Its child uses the parent's memory until the fifo opens."""


def run(box: LocalSandbox, program: str) -> CommandResult:
    return box.run(Command([box.python, "-c", program], timeout=30))


@pytest.mark.parametrize(
    ("program", "memory_mb"),
    [(FORKS, 512), (MEMFDS, 256), (SHARED_FILE, 128), (SHARED_PAGES, 160)],
    ids=["forks", "memfds", "file", "pages"],
)
def test_memory_is_limited_over_all_processes(program: str, memory_mb: int) -> None:
    with LocalSandbox(SandboxConfig()) as other:
        terminal = other.spawn(Command(["cat"]))
        with LocalSandbox(SandboxConfig(memory_mb=memory_mb)) as box:
            with pytest.raises(OutOfMemory, match=f"more than {memory_mb} MB"):
                run(box, program)
            with pytest.raises(OutOfMemory):
                box.read_tree()
        terminal.send_line(b"alive")
        assert terminal.read_line(30) == b"alive"
        terminal.close()


def test_one_process_alone_is_refused_memory_and_its_sandbox_lives() -> None:
    with LocalSandbox(SandboxConfig(memory_mb=256)) as box:
        assert run(box, GROWS).output == "refused\n"
        assert run(box, "print('alive')").output == "alive\n"


@pytest.mark.parametrize(
    "program",
    [COPY_ON_WRITE, pytest.param(VFORK, marks=pytest.mark.slow)],
    ids=["fork", "vfork"],
)
def test_memory_that_processes_share_counts_once(program: str) -> None:
    with LocalSandbox(SandboxConfig(memory_mb=512)) as box:
        assert run(box, program).output == "done\n"


def test_a_debugged_program_that_takes_too_much_is_no_observation() -> None:
    with LocalSandbox(SandboxConfig(memory_mb=512)) as box:
        box.write_file("program.py", FORKS.encode())
        debugger = open_debugger("python", box, DebugLimits(action_timeout=30))
        debugger.start(Launch("program.py"))
        with pytest.raises(OutOfMemory):
            debugger.control(Action.CONTINUE)
        debugger.close()


def test_the_kernel_ends_sandboxed_processes_first() -> None:
    with LocalSandbox(SandboxConfig()) as box:
        shown = box.run(Command(["cat", "/proc/self/oom_score_adj", "/proc/1/oom_score_adj"]))
        assert shown.output.split() == ["1000", "1000"]


NO_DETAILS = """
import sys
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.errors import OutOfMemory
with open_sandbox(SandboxConfig(memory_mb=512)) as box:
    try:
        print(box.run(Command([box.python, "-c", sys.argv[1]], timeout=30)).output)
    except OutOfMemory:
        print("out of memory")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has the right to give up")
def test_memory_is_limited_where_the_kernel_keeps_the_details() -> None:
    """As in a container that runs StepInto as root without CAP_SYS_PTRACE."""
    drop = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]
    command = [*drop, sys.executable, "-c", NO_DETAILS, FORKS]
    told = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert told.stdout == "out of memory\n"
