"""The debuggee's entry point: its process becomes the program under test."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import site
import sys
from typing import Callable

from .arrivals import ARRIVALS
from .interpreter import import_standard
from .own import DUMP, decode, install_guards
from .pytest_runs import preload, run_name, run_pytest
from .session import Session
from .targets import Target, run_module, run_script
from .unittest_runs import run_unittest
from .wire import Json, LineReader, Link, Refusal, write_all

KINDS: dict[str, Callable[[Target], object]] = {
    "name": run_name,
    "pytest": run_pytest,
    "unittest": run_unittest,
    "script": run_script,
    "module": run_module,
}
HIGH_FD = 700
"""The debuggee's descriptors start here, above those that programs close in bulk."""


def main(line: bytes, rest: bytes) -> Callable[[], None]:
    """Get ready by what the supervisor says first; `rest` was read after that. Returns what runs
    the program, so that no frame below it holds the key."""
    told: Json = decode(line.decode())
    dump = move_high(told["dump"])
    faulthandler.register(DUMP, file=dump, all_threads=True, chain=False)
    faulthandler.enable(file=dump, all_threads=False)
    install_guards()
    ARRIVALS.install()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    requests = LineReader(copy_high(0), rest)
    link = Link(requests, move_high(told["answers"]), told.pop("key"))
    return lambda: sys.exit(debuggee(link, told))  # type: ignore[arg-type]


def debuggee(link: Link, told: Json) -> object:
    """Become the program: start a session, run the target."""
    request = link.next_request()
    launch = request["arguments"]
    feed_stdin(launch.get("stdin", ""))
    variables = launch["target"].get("variables", {})
    os.environ.update(variables)
    folders = (variables.get("PYTHONPATH"), told["python_path"])
    use_python_path(os.pathsep.join(filter(None, folders)))
    if told["uname"]:
        platform = import_standard("platform")
        platform._uname_cache = platform.uname_result(*told["uname"])
    session = Session(link, launch["limits"])
    if request["action"] == "place":
        session.place(launch["breakpoint"])
        return 0
    preload(launch["target"]["kind"], session.workspace)
    target = Target(session, launch)
    if target.kind == "script":
        session.workspace.include(target.names[0])
    session.prepare(launch["breakpoints"], launch["watch"])
    return run(target)


def use_python_path(folders: str) -> None:
    """Do what Python does with PYTHONPATH when it starts, now that the probe is loaded."""
    if not folders:
        return
    from importlib.machinery import PathFinder

    os.environ["PYTHONPATH"] = folders
    added = folders.split(os.pathsep)
    sys.path[:0] = added
    site.removeduppaths()
    for name in ("sitecustomize", "usercustomize"):
        if PathFinder.find_spec(name, added) is not None:
            sys.modules.pop(name, None)
    site.execsitecustomize()
    if site.ENABLE_USER_SITE:
        site.execusercustomize()


def run(target: Target) -> object:
    """Returns the program's exit code, in the form that `sys.exit` takes."""
    session = target.session
    if target.kind != "script":
        sys.path.insert(0, session.workspace.root)
    try:
        code = KINDS[target.kind](target)
    except Refusal as refusal:
        session.fail_launch(str(refusal), refusal.kind)
        return 1
    session.say_notes()
    session.tracer.run_freely(None)
    return code


def copy_high(fd: int) -> int:
    """Copy a descriptor above those that programs close, to a number that they don't know."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD + os.urandom(1)[0])


def move_high(fd: int) -> int:
    high = copy_high(fd)
    os.close(fd)
    return high


def feed_stdin(text: str) -> None:
    """Make the text the program's standard input, as a file that ends."""
    path = f"/tmp/.stdin-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    write_all(fd, text.encode("utf-8", "surrogateescape"))
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)
