"""Forks, children, signals and descriptors."""

import os
import signal
import subprocess
import sys


def child():
    return subprocess.run([sys.executable, "-c", "print('(Pdb) child')"], check=False).returncode


def forked():
    pid = os.fork()
    if pid == 0:
        os.write(1, b"from the fork\n")
        os._exit(3)
    return os.waitpid(pid, 0)[1]


def deaf():
    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue


def floods():
    for _ in range(20):
        os.write(1, b"z" * 10_000)
    os.write(2, b"\xff\xfe\x00\r\x1b[H")


def orphan():
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "600"])


def main():
    child()
    forked()
    floods()
    orphan()
    deaf()
    forked()
    sys.stdout.close()
    os._exit(4)


main()
