"""Ways to fill the disk that do not show in a sandbox's folder, or not to everybody."""

from __future__ import annotations

import os

import pytest

from tests.sandbox.users import USERS, run_as

pytestmark = pytest.mark.parametrize("user", USERS)

FILL = """
import mmap, os, sys, threading, time
kept = []
def opened(folder="."):
    for number in range(4):
        kept.append(open(f"{folder}/{number}", "w+b", buffering=0))
        yield kept[-1], f"{folder}/{number}"
def fill(folder="."):
    for file, _ in list(opened(folder)):
        file.write(bytes(40 << 20))
def unlinked():
    for file, name in opened():
        os.unlink(name)
        file.write(bytes(40 << 20))
def of_a_thread():
    # A process whose first thread has ended shows no open files any more.
    threading.Thread(target=lambda: (unlinked(), time.sleep(60))).start()
    import ctypes
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
def mapped():
    for file, name in opened():
        file.write(bytes(40 << 20))
        kept.append(mmap.mmap(file.fileno(), 40 << 20))
        os.unlink(name)
    # The mapping has a descriptor of its own.
    os.closerange(3, 100)
def deep():
    for _ in range(1000):
        os.mkdir("folder")
        os.chdir("folder")
    fill()
def closed():
    os.makedirs("a/b")
    files = [file for file, _ in opened("a/b")]
    os.chmod("a/b", 0)
    os.chmod("a", 0o400)
    for file in files:
        file.write(bytes(40 << 20))
def deep_and_closed():
    for _ in range(1000):
        os.mkdir("folder")
        os.chdir("folder")
    for _ in range(3):
        os.chdir("..")
        os.chmod("folder", 0)
    fill()
def not_to_be_looked_into():
    import ctypes
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    unlinked()
def of_a_program_that_none_may_read():
    import shutil
    shutil.copy("/bin/bash", "program")
    os.chmod("program", 0o111)
    for file, name in opened():
        os.set_inheritable(file.fileno(), True)
        os.unlink(name)
        file.write(bytes(10 << 20))
    # What is written by then is too little yet.
    script = "for n in 3 4 5 6; do head -c 40m /dev/zero >&$n; done; read line <>fifo"
    os.mkfifo("fifo")
    os.execv("program", ["program", "-c", script])
globals()[sys.argv[1]]()
time.sleep(60)
"""
WAYS = ["unlinked", "of_a_thread", "mapped", "deep", "closed", "deep_and_closed"]
BY_CLOSED_PROCESSES = ["not_to_be_looked_into", "of_a_program_that_none_may_read"]
"""Only root may look into those."""
FILL_IN_EACH_WAY = """
import sys, time
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.errors import DiskExceeded
for way in sys.argv[2:]:
    with open_sandbox(SandboxConfig(disk_mb=64, file_size_mb=64)) as box:
        try:
            # Longer than a disk guard waits when the free space does not fall.
            told = box.run(Command([box.python, "-c", sys.argv[1], way], timeout=40)).output
            print(way, "passed", told)
        except DiskExceeded:
            print(way, "killed")
    # The space that this one frees is then no longer taken for what the next one has not written.
    time.sleep(1)
"""


@pytest.mark.slow
def test_files_that_do_not_show_count_too(user: str) -> None:
    ways = [*WAYS, *(BY_CLOSED_PROCESSES if user == "own" and os.geteuid() == 0 else [])]
    told = run_as(user, FILL_IN_EACH_WAY, FILL, *ways)
    assert told.splitlines() == [f"{way} killed" for way in ways], told


CLOSED = """
import os
from pathlib import Path
from sandbox.guard import bytes_taken
folder = Path("measured")
for name in ("a", "a/b", "c"):
    (folder / name).mkdir(parents=True)
    (folder / name / "file").write_bytes(bytes(1 << 20))
modes = {"a/b": 0, "a": 0o500, "c": 0o200}
for name, mode in modes.items():
    (folder / name).chmod(mode)
print(bytes_taken(folder, []) >> 20)
print([(folder / "a").stat().st_mode & 0o777, (folder / "c").stat().st_mode & 0o777])
print((folder / "a" / "b").stat().st_mode & 0o777)
"""


def test_measuring_leaves_the_modes_of_folders_as_they_were(user: str) -> None:
    assert run_as(user, CLOSED).splitlines() == ["3", str([0o500, 0o200]), "0"]
