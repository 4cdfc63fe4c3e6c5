"""Interactive processes behind a pseudo-terminal, on both backends."""

from __future__ import annotations

import threading
import time

import pytest

from sandbox import Command, Sandbox, Terminal
from sandbox.errors import SandboxDead
from tests.sandbox.conftest import OpenSandbox

ECHO = "import sys\nfor line in sys.stdin:\n    print('got', len(line), line[:3], flush=True)"


def spawn(box: Sandbox, script: str) -> Terminal:
    return box.spawn(Command([box.python, "-u", "-c", script]))


def test_lines_go_to_and_fro_without_echo(box: Sandbox) -> None:
    terminal = spawn(box, ECHO)
    for word in (b"one", b"three"):
        terminal.send_line(word)
        assert terminal.read_line(30) == b"got %d %s" % (len(word) + 1, word[:3])
    assert terminal.read_line(0.05) is None
    assert terminal.alive()
    assert terminal.close() == 137
    assert not terminal.alive()


def test_process_has_a_terminal_of_its_own(box: Sandbox) -> None:
    terminal = spawn(box, "import os; print(os.isatty(0), os.isatty(1)); open('/dev/tty').close()")
    assert terminal.read_line(30) == b"True True"
    with pytest.raises(EOFError):
        terminal.read_line(30)
    assert terminal.close() == 0


def test_long_lines_pass_both_ways(box: Sandbox) -> None:
    terminal = spawn(box, ECHO)
    terminal.send_line(b"x" * 1_000_000)
    assert terminal.read_line(60) == b"got 1000001 xxx"
    terminal.close()
    terminal = spawn(box, "print('y' * 5_000_000); print('end')")
    assert terminal.read_line(60) == b"y" * 5_000_000
    assert terminal.read_line(30) == b"end"
    terminal.close()


@pytest.mark.slow
def test_sending_while_the_process_prints_does_not_block(box: Sandbox) -> None:
    terminal = spawn(box, "print('z' * 2_000_000)\nprint(len(input()))")
    terminal.send_line(b"x" * 500_000)
    assert terminal.read_line(30) == b"z" * 2_000_000
    assert terminal.read_line(30) == b"500000"
    terminal.close()


@pytest.mark.parametrize("backend", ["local"], indirect=True)  # an engine takes what is sent
def test_sending_to_a_process_that_only_prints_ends(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.terminal.SEND_TIMEOUT", 1.0)
    terminal = spawn(box, "import os\nwhile True: os.write(1, b'z' * 10_000)")
    began = time.monotonic()
    with pytest.raises(SandboxDead, match="read nothing"):
        terminal.send_line(b"x" * 100_000)
    assert time.monotonic() - began < 20
    terminal.close()


def test_end_of_the_process_is_end_of_file(box: Sandbox) -> None:
    terminal = spawn(
        box, "import sys; sys.stdout.write('a\\nrest'); sys.stdout.flush(); sys.exit(3)"
    )
    assert [terminal.read_line(30), terminal.read_line(30)] == [b"a", b"rest"]
    with pytest.raises(EOFError):
        terminal.read_line(30)
    with pytest.raises(SandboxDead):
        terminal.send_line(b"late")
    ends_by = time.monotonic() + 20
    while terminal.alive() and time.monotonic() < ends_by:
        time.sleep(0.01)  # its descriptors are closed a moment before it is gone
    assert not terminal.alive()
    assert [terminal.close(), terminal.close()] == [3, 3]


def test_close_kills_what_the_process_started(box: Sandbox) -> None:
    script = "setsid sleep 1004 & echo up; sleep 1004"
    terminal = box.spawn(Command(["bash", "-c", script]))
    assert terminal.read_line(30) == b"up"
    terminal.close()
    assert "sleep 1004" not in box.run(Command(["ps", "-eo", "args"])).output


def test_control_c_interrupts(box: Sandbox) -> None:
    # Blocked and waited for: a sleep may begin between the signal and Python's look at it.
    script = (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "print('ready')\nprint(signal.sigwait([signal.SIGINT]).name)"
    )
    terminal = spawn(box, script)
    assert terminal.read_line(30) == b"ready"
    terminal.send_line(b"\x03")
    assert terminal.read_line(30) == b"SIGINT"
    terminal.close()


def test_terminal_outlives_the_thread_that_opened_it(box: Sandbox) -> None:
    opened: list[Terminal] = []
    thread = threading.Thread(target=lambda: opened.append(spawn(box, ECHO)))
    thread.start()
    thread.join()
    for _ in range(3):
        opened[0].send_line(b"still")
        assert opened[0].read_line(30) == b"got 6 sti"
    opened[0].close()


def test_commands_and_terminals_run_side_by_side(open_backend: OpenSandbox) -> None:
    box = open_backend()
    terminal = spawn(box, ECHO)
    assert box.run(Command(["bash", "-c", "sleep 1006 & echo ran"])).output == "ran\n"
    terminal.send_line(b"still")
    assert terminal.read_line(30) == b"got 6 sti"
    box.close()
    with pytest.raises((EOFError, SandboxDead)):
        terminal.read_line(30)
    terminal.close()
