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
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import join as join_paths
from os.path import normpath
from types import FunctionType
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
WORKSPACE = os.getcwd()
PR_SET_DUMPABLE = 4
BY_PYTEST = frozenset(
    {"_pytest.config.Config._getini_unknown_type", "pdb.set_trace", "sys.breakpointhook"}
    | {"sys.unraisablehook", "threading.excepthook"}
)
"""What pytest replaces itself."""
REPLACING = ("typing_extensions",)
"""Libraries that replace functions of Python's when they are imported."""
UNUSED = frozenset({"sys.excepthook", "sys.displayhook"})
"""What no test run calls: programs set it for terminals."""
OPENING = frozenset({"open", "os.link", "os.symlink", "os.rename"})
"""Audit events of what makes a file readable under some name."""
SEARCHES = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents"})
"""Audit events of what finds objects that nobody gave to the program."""
SETTING = frozenset({"object.__setattr__", "object.__delattr__"})
PARTS = frozenset({"__code__", "__defaults__"})
"""What of a function decides what it does."""
TRACEBACKS = traceback.__file__
"""Shows lines of the sources, also of a test whose function raised."""


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
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            leave(status)


def run_pytest(channel: socket.socket, token: bytes) -> int:
    """pytest's exit status."""
    projects, use_path = isolate()
    import pytest

    preload()
    with open(os.path.join(FOLDER, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    write = writer(channel, token)
    reader = channel.makefile("rb")
    load = json.loads
    plugins = [__import__(name) for name in job["plugins"]]
    plugins += named_plugins(projects)
    if "pytest_mock" in sys.modules:
        # It would replace the methods of mocks, to shorten tracebacks.
        job["arguments"] += ["-o", "mock_traceback_monkeypatch=false"]
    audit = Audit(job["paths"])

    def ask(session: Any) -> Any:
        write({"when": "checked", "doubts": {**watched(session), **audit.doubts}})
        write({"when": "done"})
        more = load(reader.readline() or b"null")
        audit.names.update(base_names(more["paths"] if more else ()))
        return more

    reporter = __import__("stepinto_pytest_report").Reporter(job["tests"], write, ask)
    watched = watch(reporter, audit.edits)
    reader.readline()
    audit.start()
    use_path()
    status = int(pytest.main(job["arguments"], plugins=[reporter, *plugins]))
    write({"when": "end", "status": status})
    return status


def writer(channel: socket.socket, token: bytes) -> Callable[[dict[str, Any]], None]:
    """Returns what writes a line to the parent. It calls nothing that the program can replace."""
    getpid, send, join = os.getpid, channel.sendall, "".join
    encoder: Any = json.encoder
    process = getpid()
    # In C, as `json.dumps` uses it; Python's own functions around it could be replaced.
    encode = encoder.c_make_encoder(
        None, None, encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )

    def write(fields: dict[str, Any]) -> None:
        # A test may fork, and its child may continue as pytest.
        if getpid() == process:
            send(token + join(encode(fields, 0)).encode() + b"\n")

    return write


# The project's folders.


def isolate() -> tuple[list[str], Callable[[], None]]:
    """Remove the project's folders from `sys.path`; returns them, and a function that restores
    `sys.path`."""
    told = os.environ.pop("STEPINTO_PYTHONPATH", "")
    added = [path for path in told.split(os.pathsep) if path]
    own = [path for path in sys.path if path != FOLDER]
    sys.path[:] = [FOLDER, *(path for path in (*added, *own) if not is_projects(path))]

    def use_path() -> None:
        sys.path[:] = [WORKSPACE, *added, *own]
        if told:
            os.environ["PYTHONPATH"] = told

    return [WORKSPACE, *filter(is_projects, added)], use_path


def is_projects(path: str) -> bool:
    """Whether it is in the workspace, and neither in an environment there nor this program's."""
    if path.startswith("<frozen "):
        return False
    others = (sys.prefix, sys.base_prefix, FOLDER)
    return is_below(path, WORKSPACE) and not any(is_below(path, each) for each in others)


def is_below(path: str, folder: str) -> bool:
    # Not `os.path.abspath`: a test may replace or forbid what that calls, and change the folder.
    absolute = normpath(join_paths(WORKSPACE, path))
    return absolute == folder or absolute.startswith(folder.rstrip(os.sep) + os.sep)


def base_names(paths: Iterable[str]) -> list[str]:
    return [os.path.basename(path) for path in paths]


# What pytest would import later, when the project's folders are on the path.


def preload() -> None:
    from importlib import import_module

    from _pytest.config import default_plugins

    for name in default_plugins:
        import_module(f"_pytest.{name}")


class NotOfProject:
    """Refuses to import what the project has, so that nothing else is taken for that."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if path is None and self.has(name):
            raise ImportError(f"the project has its own {name}")

    def has(self, name: str) -> bool:
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, self.folders)
        return spec is not None and spec.origin is not None


def named_plugins(projects: list[str]) -> list[Any]:
    """The modules that PYTEST_PLUGINS names, without the project's own and those that need it.
    Libraries that replace functions when they are imported do so now."""
    from importlib import import_module

    guard: Any = NotOfProject(projects)
    plugins = []
    sys.meta_path.insert(0, guard)
    for name in REPLACING:
        with contextlib.suppress(Exception):
            import_module(name)
    for name in filter(None, os.environ.get("PYTEST_PLUGINS", "").split(",")):
        # pytest imports the others, and tells what is wrong with them.
        with contextlib.suppress(Exception):
            plugins.append(import_module(name))
    sys.meta_path.remove(guard)
    return plugins


# What the program does to its tests: by these names the runs of two programs are compared.

REPLACED = "the program replaced it"
ADDED = "the program added it"
READ = "the program read it"
USED = "the program used it"


def watch(reporter: Any, edits: Mapping[Any, Any]) -> Callable[[Any], dict[str, str]]:
    """Returns a function that tells, after the tests, what was replaced since of the functions and
    classes of all modules that are loaded, and what was put in the way of imports and of pytest.
    `edits` has what parts of functions were before they were set, as `Audit` notes them.

    If `assertEqual` does nothing, a test runs to its end, and so does its twin. What decides calls
    nothing that can be replaced.
    """
    from operator import is_

    # Copies of the dictionaries would take more memory, and with it time.
    spaces = [(owner, of, (*of,), (*of.values(),)) for owner, of in namespaces()]
    finders = {id(each) for each in (*sys.meta_path, *sys.path_hooks)}
    write, ask, is_of_project = reporter.write, reporter.ask, code_of_project
    methods = (staticmethod, classmethod)
    wrappers = (*methods, property)
    same, each_of, pairs, is_callable, is_kind = all, map, zip, callable, isinstance
    value_of = getattr

    def replaced() -> Iterator[str]:
        for owner, of, keys, values in spaces:
            if not same(each_of(is_, each_of(of.get, keys), values)):
                for key, value in pairs(keys, values):
                    matters = is_callable(value) or is_kind(value, wrappers)
                    if matters and of.get(key) is not value:
                        yield f"{owner}.{key}"
        changed = {f for (f, part), old in edits.items() if value_of(f, part) is not old}
        for owner, _, keys, values in spaces if changed else ():
            for key, value in pairs(keys, values):
                function = value_of(value, "__func__", value) if is_kind(value, methods) else value
                if type(function) is FunctionType and function in changed:
                    yield f"{owner}.{key}"
        if reporter.write is not write or reporter.ask is not ask:
            yield "the test runner's reporter"

    def added(session: Any) -> Iterator[str]:
        for finder in (*sys.meta_path, *sys.path_hooks):
            if id(finder) not in finders and is_of_project(finder):
                yield f"{kind_of(finder).__qualname__} in the import system"
        for name, caller in session.config.hook.__dict__.items():
            for hook in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                if is_of_project(hook.function):
                    yield f"the hook {name} ({hook.function.__qualname__})"
        for item in session.items:
            if "runtest" in item.__dict__:
                yield f"runtest of {item.nodeid}"

    def watched(session: Any) -> dict[str, str]:
        doubts = {name: REPLACED for name in replaced() if name not in BY_PYTEST | UNUSED}
        doubts.update((name, ADDED) for name in added(session))
        return doubts

    return watched


def namespaces() -> Iterator[tuple[str, Any]]:
    """Of all modules and of their classes, by name."""
    for name, module in list(sys.modules.items()):
        of = getattr(module, "__dict__", {})
        yield name, of
        for key, value in list(of.items()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{key}", value.__dict__


def code_of_project(value: Any) -> bool:
    """Whether a function, a class, or the class of an object, is code of the project; conftest
    files have hooks of pytest."""
    methods = [value] if hasattr(value, "__code__") else vars(kind_of(value)).values()
    functions = [getattr(each, "__func__", each) for each in methods]
    files = {each.__code__.co_filename for each in functions if hasattr(each, "__code__")}
    return any(is_projects(each) and os.path.basename(each) != "conftest.py" for each in files)


def kind_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


class Audit:
    """Notes who reads the tests' files, to find what they expect, or which of them are twins, and
    what is set in functions."""

    def __init__(self, paths: Iterable[str]) -> None:
        import _pytest

        self.names = {*base_names(paths)}
        self.doubts: dict[str, str] = {}
        self.edits: dict[tuple[Any, str], Any] = {}
        """What a part of a function was at first."""
        self.pytest = os.path.dirname(os.path.abspath(_pytest.__file__))

    def start(self) -> None:
        notice, note, read = self.notice, self.edits.setdefault, getattr
        kind, function = type, FunctionType
        is_edit, is_part = SETTING.__contains__, PARTS.__contains__
        is_use = (OPENING | SEARCHES).__contains__

        def hook(event: str, arguments: Any) -> None:
            # Python calls this thousands of times, and the program can replace nothing in it.
            if is_use(event):
                notice(event, arguments)
            elif is_edit(event) and kind(arguments[0]) is function and is_part(arguments[1]):
                note(arguments[:2], read(*arguments[:2]))

        sys.addaudithook(hook)

    def notice(self, event: str, arguments: Any) -> None:
        if event in SEARCHES:
            if self.is_by_project():
                self.doubts[event] = USED
        elif isinstance(arguments[0], (str, bytes)):
            name = os.path.basename(os.fsdecode(arguments[0]))
            if name in self.names and self.is_by_project():
                self.doubts["the tests' source"] = READ

    def is_by_project(self) -> bool:
        """Whether the program's code called this, and not through pytest or for a traceback."""
        frame: Any = sys._getframe(3)
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(self.pytest) or path == TRACEBACKS:
                return False
            name = os.path.basename(path)
            if is_projects(path) and name not in self.names and name != "conftest.py":
                return True
            frame = frame.f_back
        return False


if __name__ == "__main__":
    launch()
