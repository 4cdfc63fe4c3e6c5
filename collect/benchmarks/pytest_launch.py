"""Runs pytest in a child process, and keeps the report in this one, out of the program's reach.

It is copied into the sandbox (see `collect.benchmarks.pytest_run`) and started there: standard
library and pytest only, CPython 3.8 and later. This process never imports the project's code. It
reads a key from stdin after the child has closed that, and signs each line that the child reports
to `report.jsonl`: lines that the program writes there don't count, and reports from before a
timeout are kept. The child's lines come through an unnamed socket, each with a token.

The child imports pytest before the project's folders are on `sys.path`: no module of the project
can replace pytest, its plugins or `sitecustomize`. STEPINTO_PYTHONPATH is the original PYTHONPATH;
`python -I` would also ignore PYTHONHASHSEED.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
PR_SET_DUMPABLE = 4
WATCHED = ("builtins", "math", "unittest.case", "unittest.result", "unittest.suite", "pytest")
"""Modules whose functions and classes must not be replaced, besides pytest's own."""
BY_PYTEST = "_pytest.config.Config._getini_unknown_type"
"""pytest replaces this itself, for its fixture `tmpdir`."""


def launch() -> None:
    """Fork into observer and child; ends the process with pytest's exit status."""
    ours, theirs = socket.socketpair()
    token = os.urandom(16).hex().encode()
    child = os.fork()
    if child == 0:
        ours.close()
        play_child(theirs, token)
    theirs.close()
    sys.exit(Observer(ours, child, token).watch())


class Observer:
    """The parent: receives pytest's reports from the child, and writes them down."""

    def __init__(self, channel: socket.socket, child: int, token: bytes) -> None:
        # On Linux, hide this process's memory and open files from others of the same user.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self.channel = channel
        self.child = child
        self.token = token
        self.report = open(os.path.join(FOLDER, "report.jsonl"), "ab")  # noqa: SIM115
        order = json.load(sys.stdin)
        # If stdin is a file, the sandbox's own processes also have it open.
        with contextlib.suppress(OSError):
            os.ftruncate(0, 0)
        self.key = bytes.fromhex(order["key"])
        self.twins: dict[str, Any] | None = order["twins"]
        # Twins have extra time, which the sandbox limits.
        self.deadline: float | None = time.monotonic() + order["seconds"]
        self.lines = 0
        self.finished: set[str] = set()
        self.failed = False
        # Only now may the child run the project's code.
        self.send(b"\n")

    def watch(self) -> int:
        """Run until the child has ended; returns its exit status as a shell would."""
        for line in self.received():
            if not line.startswith(self.token):
                continue
            fields = json.loads(line[len(self.token) :])
            self.keep(fields)
            if fields["when"] == "done" and not self.is_late():
                self.deadline = None
                self.order_twins()
            if fields["when"] == "end":
                break
        _, status = os.waitpid(self.child, 0)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        for path in self.twins["files"] if self.twins is not None else ():
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.keep({"when": "exit", "status": code, "timed_out": self.is_late()})
        return code

    def send(self, line: bytes) -> None:
        # The child may have died; the missing reports will show that.
        with contextlib.suppress(OSError):
            self.channel.sendall(line)

    def received(self) -> Any:
        """The child's lines until it ends: processes that it started may keep the channel open."""
        held = b""
        while True:
            if self.is_late():
                os.kill(self.child, signal.SIGKILL)
                return
            if select.select([self.channel], [], [], 0.1)[0]:
                try:
                    data = self.channel.recv(1 << 16)
                except ConnectionResetError:
                    # It died with unread input; what it sent can still be read.
                    continue
                if not data:
                    return
                *lines, held = (held + data).split(b"\n")
                yield from lines
            # WNOWAIT leaves the child for a later wait.
            elif os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return

    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def keep(self, fields: dict[str, Any]) -> None:
        try:
            # `hashlib` loads OpenSSL, which takes as long as pytest does for a small test.
            from _blake2 import blake2b
        except ImportError:
            from hashlib import blake2b
        text = json.dumps(fields).encode()
        mac = blake2b(b"%d %s" % (self.lines, text), key=self.key).hexdigest()
        self.report.write(b"%s %s\n" % (mac.encode(), text))
        self.report.flush()
        self.lines += 1
        if fields["when"] in ("setup", "call", "teardown"):
            self.failed = self.failed or fields["outcome"] == "failed"
            if fields["when"] == "teardown":
                self.finished.add(fields["nodeid"])

    def order_twins(self) -> None:
        """If all went well, write the twins that check this, and have them run."""
        order = self.twins
        if order is None or self.failed or not self.finished.issuperset(order["deciding"]):
            self.send(b"null\n")
            return
        for path, source in order["files"].items():
            with open(path, "x", encoding="utf-8", newline="") as file:
                file.write(source)
        asked = {"paths": list(order["files"]), "tests": order["tests"]}
        self.send(json.dumps(asked).encode() + b"\n")


def play_child(channel: socket.socket, token: bytes) -> None:
    """Run pytest, report, and exit at once, so that exit handlers of the program can't change the
    exit status."""
    leave: Callable[[int], Any] = os._exit
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = run_pytest(channel, token)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            leave(status)


def run_pytest(channel: socket.socket, token: bytes) -> int:
    """pytest's exit status."""
    use_path = isolate()
    import pytest

    preload()
    with open(os.path.join(FOLDER, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    process, send = os.getpid(), channel.sendall

    def write(fields: dict[str, Any]) -> None:
        # A test may fork, and its child may continue as pytest.
        if os.getpid() == process:
            send(token + json.dumps(fields).encode() + b"\n")

    reader = channel.makefile("rb")

    replaced = watch()

    def ask() -> Any:
        write({"when": "replaced", "names": replaced()})
        write({"when": "done"})
        return json.loads(reader.readline() or b"null")

    plugins = [__import__(name) for name in job["plugins"]]
    reporter = __import__("stepinto_pytest_report").Reporter(job["tests"], write, ask)
    reader.readline()
    use_path()
    status = int(pytest.main(job["arguments"], plugins=[reporter, *plugins]))
    write({"when": "end", "status": status})
    return status


def isolate() -> Callable[[], None]:
    """Remove the project's folders from `sys.path`; the returned function restores them."""
    workspace = os.getcwd()
    told = os.environ.pop("STEPINTO_PYTHONPATH", "")
    added = [path for path in told.split(os.pathsep) if path]
    own = [path for path in sys.path if path != FOLDER]
    prefixes = (sys.prefix, sys.base_prefix)

    def is_projects(path: str) -> bool:
        return is_below(path, workspace) and not any(is_below(path, each) for each in prefixes)

    sys.path[:] = [FOLDER, *(path for path in (*added, *own) if not is_projects(path))]

    def use_path() -> None:
        sys.path[:] = [workspace, *added, *own]
        if told:
            os.environ["PYTHONPATH"] = told

    return use_path


def is_below(path: str, folder: str) -> bool:
    absolute = os.path.abspath(path)
    return absolute == folder or absolute.startswith(folder.rstrip(os.sep) + os.sep)


def preload() -> None:
    """Import now what pytest would import later, when the project's folders are on the path."""
    from importlib import import_module

    from _pytest.config import default_plugins

    for name in default_plugins:
        import_module(f"_pytest.{name}")


def watch() -> Callable[[], list[str]]:
    """Returns a function that lists what was replaced since of the functions and classes behind
    tests: if `assertEqual` does nothing, a test runs to its end, and so does its twin."""
    from importlib import import_module
    from types import BuiltinFunctionType, FunctionType

    kinds = (FunctionType, BuiltinFunctionType, type, staticmethod, classmethod, property)
    owners: dict[str, Any] = {}
    for name in (*WATCHED, *(each for each in sys.modules if each.startswith("_pytest."))):
        owners[name] = module = import_module(name)
        for key, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == name:
                owners[f"{name}.{key}"] = value

    before = [
        (owner, key, value, getattr(value, "__code__", None))
        for owner, of in owners.items()
        for key, value in vars(of).items()
        if isinstance(value, kinds) and f"{owner}.{key}" != BY_PYTEST
    ]

    def replaced() -> list[str]:
        return [
            f"{owner}.{key}"
            for owner, key, value, code in before
            if vars(owners[owner]).get(key) is not value
            or getattr(value, "__code__", None) is not code
        ]

    return replaced


if __name__ == "__main__":
    launch()
