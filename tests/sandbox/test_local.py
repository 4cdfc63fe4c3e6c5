"""What only the local sandbox promises: the host's files, leftovers, users, unsafe mode."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig, bubblewrap, open_sandbox
from sandbox.errors import (
    CommandRefused,
    DiskExceeded,
    SandboxDead,
    SandboxFileError,
    SandboxUnavailable,
)
from sandbox.leftovers import OwnedFolder, remove_leftovers
from sandbox.local import LocalSandbox
from stepinto import main
from tests.sandbox.users import AS_ORDINARY, USERS, run_as


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A temporary folder of the test's own, so that what a sandbox leaves behind shows."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_bubblewrap(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bin")
    monkeypatch.setenv("PATH", str(folder))


def shell(box: LocalSandbox, script: str, timeout: float = 30) -> str:
    return box.run(Command(["bash", "-c", script], timeout=timeout)).output


def test_a_background_job_s_programs_can_be_interrupted() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would the debuggers in them."""
    show = "import signal; print(signal.getsignal(signal.SIGINT))"
    run = f"print(box.run(Command((box.python, '-c', {show!r}))).output)"
    script = f"from sandbox import *\nwith open_sandbox(SandboxConfig()) as box: {run}"
    command = ["sh", "-c", 'trap "" INT HUP QUIT; exec "$@"', "sh", sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "default_int_handler" in told, told


def test_close_leaves_nothing_behind(temporary: Path) -> None:
    before = _bubblewraps()
    box = LocalSandbox(SandboxConfig())
    terminal = box.spawn(Command(["sh", "-c", "echo up; sleep 1010"]))
    assert terminal.read_line(30) == b"up"
    shell(
        box, "mkdir -p locked/deep; echo x >locked/deep/file; chmod -R a-w locked; chmod 0 locked"
    )
    folders = "/".join(["ddd"] * 200)
    shell(box, f"for i in $(seq 8); do mkdir -p {folders}; cd {folders}; done")
    box.close()
    assert list(temporary.iterdir()) == []
    with pytest.raises((EOFError, SandboxDead)):
        terminal.read_line(30)
    terminal.close()
    assert _bubblewraps() == before


def test_files_outside_the_workspace_are_refused() -> None:
    with LocalSandbox(SandboxConfig()) as box:
        shell(box, "echo x >/tmp/x")
        for path in ("/etc/passwd", "../etc/passwd", "/workspace2/x", "a/../../x", "nul\0"):
            with pytest.raises(SandboxFileError, match="outside the workspace"):
                box.read_file(path)
            with pytest.raises(SandboxFileError, match="outside the workspace"):
                box.write_file(path, b"")


def test_a_parent_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    with LocalSandbox(SandboxConfig()) as box:
        box.write_file("real/passwd", b"own")
        swap = "mv folder f2; ln -s /etc folder; rm folder; mv f2 folder"
        terminal = box.spawn(
            Command(
                ["bash", "-c", f"mv real folder; echo up; while :; do {swap}; done 2>/dev/null"]
            )
        )
        assert terminal.read_line(30) == b"up"
        seen = set()
        for _ in range(300):
            try:
                box.write_file("folder/passwd", b"own")
                seen.add(box.read_file("folder/passwd"))
            except SandboxFileError:
                continue
        terminal.close()
    assert seen <= {b"own"}
    assert Path("/etc/passwd").read_bytes() != b"own"


def test_bubblewrap_killed_from_outside_is_a_dead_sandbox() -> None:
    with LocalSandbox(SandboxConfig()) as box:
        threading.Thread(target=_kill_bubblewrap_of, args=("sleep 1011",)).start()
        with pytest.raises(SandboxDead, match="killed from outside"):
            box.run(Command(["sh", "-c", "sleep 1011; true"], timeout=60))


def test_closing_ends_a_running_command() -> None:
    box = LocalSandbox(SandboxConfig())
    terminal = box.spawn(Command(["sh", "-c", "echo up; sleep 1012"]))
    assert terminal.read_line(30) == b"up"
    closer = threading.Timer(0.3, box.close)
    closer.start()
    with pytest.raises(SandboxDead):
        box.run(Command(["sleep", "1012"], timeout=60))
    closer.join()
    terminal.close()


def test_bubblewrap_that_cannot_start_is_no_output_of_the_command(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("gone")
    folder.chmod(0o755)
    with LocalSandbox(SandboxConfig(readable_paths=(str(folder),))) as box:
        folder.rmdir()
        with pytest.raises(SandboxUnavailable, match="gone0"):
            box.run(Command(["true"]))
        with pytest.raises(SandboxUnavailable, match="gone0"):
            box.spawn(Command(["true"]))


def test_readable_paths_are_readable_and_not_writable(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("data")
    (folder / "file").write_text("shared")
    folder.chmod(0o755)
    with LocalSandbox(SandboxConfig(readable_paths=(str(folder),))) as box:
        assert shell(box, f"cat {folder}/file") == "shared"
        assert "Read-only file system" in shell(box, f"echo x >{folder}/new")
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_gold_patches_are_hidden_where_stepinto_lies_in_a_readable_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "collect" / "bugs").mkdir(parents=True)
    (folder / "collect" / "bugs" / "gold.patch").write_text("the answer")
    (folder / "other").write_text("shared")
    folder.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "ANSWERS", folder / "collect")
    with LocalSandbox(SandboxConfig(readable_paths=(str(folder),))) as box:
        assert shell(box, f"cat {folder}/other") == "shared"
        assert shell(box, f"find {folder} -name gold.patch; ls {folder}/collect") == ""
        assert "Read-only" in shell(box, f"touch {folder}/collect/x")
    with LocalSandbox(SandboxConfig()) as box:
        assert shell(box, "echo up") == "up\n"


def test_hidden_paths_are_empty(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    (folder / "copies").mkdir()
    (folder / "copies" / "fixed.py").write_text("the answer")
    (folder / "other").write_text("shared")
    folder.chmod(0o755)
    hidden = (str(folder / "copies"), "/usr/share/doc", "/none/of/this/machine")
    with LocalSandbox(SandboxConfig(readable_paths=(str(folder),), hidden_paths=hidden)) as box:
        assert shell(box, f"cat {folder}/other; ls -A {folder}/copies /usr/share/doc") == (
            f"shared{folder}/copies:\n\n/usr/share/doc:\n"
        )


def test_readable_path_that_cannot_be_read_is_refused(
    tmp_path_factory: pytest.TempPathFactory, temporary: Path
) -> None:
    folder = tmp_path_factory.mktemp("private")
    with pytest.raises(SandboxUnavailable, match="missing: there is no such folder"):
        LocalSandbox(SandboxConfig(readable_paths=(f"{folder}/missing",)))
    folder.chmod(0)
    with pytest.raises(SandboxUnavailable, match="chmod"):
        LocalSandbox(SandboxConfig(readable_paths=(str(folder),)))
    assert list(temporary.iterdir()) == []


def test_leftovers_of_the_dead_are_removed_and_of_the_living_are_not(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        f"import tempfile, os; tempfile.tempdir = {str(temporary)!r}\n"
        "from sandbox import *\n"
        "box = open_sandbox(SandboxConfig()); box.write_file('x', b'')\n"
        "terminal = box.spawn(Command(['sh', '-c', 'echo up; sleep 1013']))\n"
        "terminal.read_line(30)\n"
        "print('ready', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    own = OwnedFolder()
    assert remove_leftovers() == []
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (orphan,) = (path for path in temporary.glob("stepinto-sandbox-*") if path != own.path)
    assert main(["clean"]) == 0
    said = capsys.readouterr().out
    assert f"removed {orphan}\n" in said
    assert "1 sandbox folder and" in said
    assert list(temporary.iterdir()) == [own.path]
    _wait_until(lambda: not _matching("sleep 1013"))
    own.remove()
    assert list(temporary.iterdir()) == []


def test_without_bubblewrap_it_says_how_to_go_on(no_bubblewrap: None, temporary: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        open_sandbox(SandboxConfig())
    assert list(temporary.iterdir()) == []


@pytest.mark.filterwarnings("ignore:sandbox.unsafe")
def test_unsafe_runs_commands_on_the_host(no_bubblewrap: None, temporary: Path) -> None:
    os.environ["STEPINTO_TEST_SECRET"] = "s3cret"
    with LocalSandbox(SandboxConfig(unsafe=True, command_timeout=30)) as box:
        assert Path(box.workspace).is_dir()
        box.write_file("a/b", b"1")
        assert shell(box, "pwd; cat a/b; env").startswith(f"{box.workspace}\n1")
        assert "s3cret" not in shell(box, "env")
        result = box.run(Command(["bash", "-c", "sleep 1014 & sleep 1014"], timeout=0.3))
        assert (result.exit_code, result.timed_out) == (124, True)
        assert shell(box, "sleep 1014 & echo started") == "started\n"
        _wait_until(lambda: not _matching("sleep 1014"))
        assert box.run(Command(["bash", "-c", "kill -9 $$"])).exit_code == 137
        assert box.run(Command(["no-such-program"])).exit_code == 127
        terminal = box.spawn(Command(["bash", "-c", "read line; echo got $line; exit 4"]))
        terminal.send_line(b"it")
        assert terminal.read_line(30) == b"got it"
        with pytest.raises(EOFError):
            terminal.read_line(30)
        assert terminal.close() == 4
    assert list(temporary.iterdir()) == []


ORDINARY_SCRIPT = """
FORK = b'''
import os, signal
children = 0
try:
    while os.fork():
        children += 1
    signal.pause()
except BlockingIOError:
    print("forked", 30 < children < 48)
'''
SHARE, TAKE = 'held = b"x" * (100 << 20)', "held = None"
MEMORY = '''
import os, time
%s
for number in range(8):
    if os.fork() == 0:
        held = held or b"x" * (100 << 20)
        time.sleep(2)
        os._exit(0)
    time.sleep(0.1)
for number in range(8):
    os.wait()
print("shared")
'''
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.errors import OutOfMemory
config = SandboxConfig(python="/usr/bin/python3", pids=48, file_size_mb=1)
with open_sandbox(config) as box:
    box.write_files({"a/b": b"1"})
    def run(script, **more):
        print(box.run(Command(["bash", "-c", script], **more)).output)
    run("cat a/b; echo 2 >a/c; chmod -R a-w a; id -u; grep CapEff /proc/self/status")
    run("touch x", read_only=True)
    run("head -c 9999999 /dev/zero >z; stat -c %s z")
    box.write_file("fork.py", FORK)
    run("python3 fork.py")
    terminal = box.spawn(Command(["cat"]))
    terminal.send_line(b"terminal")
    print(terminal.read_line(30), terminal.close())
    print(sorted(box.read_tree()))
with open_sandbox(SandboxConfig(python="/usr/bin/python3", memory_mb=256)) as box:
    try:
        for first in (SHARE, TAKE):
            print(box.run(Command(["python3", "-c", MEMORY % first])).output.strip())
    except OutOfMemory:
        print("out of memory")
"""


@pytest.mark.slow
@pytest.mark.parametrize("user", [AS_ORDINARY])
def test_ordinary_user_gets_the_same_sandbox(user: str) -> None:
    told = run_as(user, ORDINARY_SCRIPT)
    lines = told.splitlines()
    assert lines[:2] == ["11000", "CapEff:\t0000000000000000"], told
    assert "touch: cannot touch 'x': Read-only file system" in lines
    assert {str(1024 * 1024), "forked True", "b'terminal' 137"} <= set(lines), told
    assert lines[-3:] == ["['a/b', 'a/c', 'fork.py', 'z']", "shared", "out of memory"]


HARMS_ITSELF = """
import sys
from sandbox import Command, SandboxConfig, open_sandbox
KILL = "import os; os.fork() or (os.kill(-1, 9), os._exit(0)); os.wait()"
with open_sandbox(SandboxConfig(python=sys.executable)) as box:
    def run(*argv):
        result = box.run(Command(argv))
        print(result.exit_code, result.output.strip())
    run(box.python, "-c", KILL)
    run("sh", "-c", "kill -9 0")
    terminal = box.spawn(Command([box.python, "-c", KILL]))
    try:
        terminal.read_line(30)
    except EOFError:
        print("end", terminal.close())
    for mode in ("700", "0"):
        run("chmod", mode, "/workspace", "/tmp")
        run("echo", "alive")
"""


@pytest.mark.parametrize("user", USERS)
def test_a_command_that_harms_its_own_sandbox_ends_and_is_no_fault_of_it(user: str) -> None:
    told = run_as(user, HARMS_ITSELF).splitlines()
    assert told[:6] == ["137 ", "137 ", "end 137", "0 ", "0 alive", "0 "], told
    assert told[6].startswith("125 env: cannot change directory"), told


def _bubblewraps() -> set[int]:
    """Child processes of this one that are bubblewraps."""
    return {pid for pid in _children(os.getpid()) if "bwrap" in _arguments(pid)}


def _kill_bubblewrap_of(pattern: str) -> None:
    _wait_until(lambda: any(pattern in _arguments(pid) for pid in _bubblewraps()))
    for pid in _bubblewraps():
        if pattern in _arguments(pid):
            os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    listing = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, check=False
    )
    return [int(line) for line in listing.stdout.split()]


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _matching(pattern: str) -> list[int]:
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in processes if _arguments(pid).strip() == pattern]


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited 30 seconds in vain"
        time.sleep(0.02)


@pytest.mark.slow
def test_files_without_content_count_against_the_disk_too() -> None:
    with LocalSandbox(SandboxConfig(disk_mb=64)) as box:
        script = "for n in $(seq 40); do mkdir $n; (cd $n; touch $(seq 1000)); done; sleep 100"
        with pytest.raises(DiskExceeded):
            shell(box, script, timeout=100)


def test_a_machine_without_descriptors_is_not_a_file_that_can_t_be_read() -> None:
    with LocalSandbox(SandboxConfig()) as box:
        box.write_file("a.py", b"x")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            with pytest.raises(SandboxUnavailable, match="Too many open files"):
                box.read_file("a.py")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "variables",
    [{"A": "x" * 200_000}, {"A": "x\0"}, {f"A{n}": "x" * 100_000 for n in range(30)}],
    ids=["long", "NUL", "many"],
)
def test_variables_that_no_program_can_be_given_are_refused(variables: dict[str, str]) -> None:
    with open_sandbox(SandboxConfig(environment=variables)) as sandbox:
        with pytest.raises(CommandRefused):
            sandbox.run(Command(["true"]))
        with pytest.raises(CommandRefused):
            sandbox.spawn(Command(["true"]))
