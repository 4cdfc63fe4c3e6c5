"""The probe's entry point: two processes, one of which becomes the program under test."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import sys

from .interpreter import import_standard
from .own import DUMP, install_guards
from .session import Session
from .supervisor import Supervisor
from .targets import KINDS, Target, preload
from .wire import Link, Refusal, write_all

HIGH_FD = 700
"""The debuggee's descriptors start here, above those that programs close in bulk."""


def main() -> None:
    """Fork the debuggee, and supervise it."""
    if sys.version_info < (3, 9):
        # Its first call starts a process, which would be reported as the program's: importing
        # pytest imports `uuid`, which calls it.
        import_standard("platform").uname()
    requests, requests_write = os.pipe()
    answers_read, answers = os.pipe()
    output_read, output = os.pipe()
    dump_read, dump = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (requests_write, answers_read, output_read, dump_read):
            os.close(fd)
        sys.exit(debuggee(requests, answers, output, dump))  # type: ignore[arg-type]
    for fd in (requests, answers, output, dump):
        os.close(fd)
    supervisor = Supervisor(child, requests_write, answers_read, output_read, dump_read)
    write_all(1, b"STEPINTO forked\n")
    supervisor.run()


def debuggee(requests: int, answers: int, output: int, dump: int) -> object:
    """Become the program: start a session, redirect the streams, run the target."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    requests, answers, dump = move_high(requests), move_high(answers), move_high(dump)
    faulthandler.register(DUMP, file=dump, all_threads=True, chain=False)
    faulthandler.enable(file=dump, all_threads=False)
    install_guards()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    link = Link(requests, answers)
    request = link.next_request()
    launch = request["arguments"]
    session = Session(link, launch["limits"])
    if request["action"] == "place":
        session.place(launch["breakpoint"])
        return 0
    feed_stdin(launch["stdin"])
    preload(launch["target"]["kind"], session.workspace)
    target = Target(session, launch)
    if target.kind == "script":
        session.workspace.include(target.names[0])
    session.prepare(launch["breakpoints"], launch["watch"])
    return run(target)


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


def move_high(fd: int) -> int:
    """Move a descriptor above those that programs close."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
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
