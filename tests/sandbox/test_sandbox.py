"""What both backends promise: commands, limits on output, time and resources, isolation."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import DiskExceeded, SandboxDead
from tests.sandbox.conftest import OpenSandbox


def shell(box: Sandbox, script: str, **settings: object) -> CommandResult:
    return box.run(Command(["bash", "-c", script], **settings))  # type: ignore[arg-type]


def python(box: Sandbox, script: str, **settings: object) -> CommandResult:
    return box.run(Command([box.python, "-c", script], **settings))  # type: ignore[arg-type]


def test_run_gives_output_and_exit_code_of_the_command(box: Sandbox) -> None:
    result = shell(box, "echo one; echo two >&2; echo three; exit 7")
    assert (result.exit_code, result.output) == (7, "one\ntwo\nthree\n")
    assert not result.timed_out
    assert not result.truncated


def test_exit_codes_are_those_of_a_shell(box: Sandbox) -> None:
    assert shell(box, "kill -SEGV $$").exit_code == 128 + signal.SIGSEGV
    missing = box.run(Command(["no-such-program"]))
    assert missing.exit_code == 127
    assert "no-such-program" in missing.output
    assert box.run(Command(["pwd"], cwd="/no/such/folder")).exit_code == 125
    with pytest.raises(ValueError, match="argv is empty"):
        box.run(Command([]))


def test_command_starts_in_the_workspace_or_its_cwd_with_its_env(box: Sandbox) -> None:
    box.write_file("inner/file", b"")
    assert shell(box, "pwd").output.strip() == box.workspace
    inner = f"{box.workspace}/inner"
    result = shell(box, 'pwd; echo "$GREETING"', cwd=inner, env={"GREETING": "a 'b' $c"})
    assert result.output == f"{inner}\na 'b' $c\n"


def test_arguments_arrive_as_they_are(box: Sandbox) -> None:
    arguments = ["", "a b", "$HOME", "`id`", "'\"", "-x", "A=b", "ünï", "line\nbreak"]
    script = "import sys; print(sys.argv[1:])"
    result = box.run(Command([box.python, "-c", script, *arguments]))
    assert result.output == f"{arguments}\n"


def test_stdin_reaches_the_command(box: Sandbox) -> None:
    data = os.urandom(3_000_000)
    assert shell(box, "sha256sum", stdin=data).output == _sha256sum(data)
    assert shell(box, "cat", stdin=b"").output == ""
    assert shell(box, "cat /dev/stdin", stdin=b"by name").output == "by name"
    assert shell(box, "head -c 3", stdin=b"x" * 3_000_000).output == "xxx"


def test_output_can_be_opened_by_name(box: Sandbox) -> None:
    assert shell(box, "echo out >/dev/stdout; echo err >/dev/stderr").output == "out\nerr\n"


def test_output_that_is_no_text_is_replaced(box: Sandbox) -> None:
    assert shell(box, r"printf 'a\xffb'").output == "a\N{REPLACEMENT CHARACTER}b"


def test_flood_of_output_is_cut_to_head_and_tail(open_backend: OpenSandbox) -> None:
    box = open_backend(output_limit=2000, command_timeout=60)
    result = shell(box, "echo first; yes | head -c 50000000; echo last")
    assert result.exit_code == 0
    assert result.truncated
    assert result.output.startswith("first\n")
    assert result.output.endswith("last\n")
    assert f"[... {50_000_000 + 11 - 2000} bytes cut ...]\n" in result.output
    assert len(result.output) < 2100


def test_output_at_the_limit_is_whole(open_backend: OpenSandbox) -> None:
    box = open_backend(output_limit=1000)
    assert not shell(box, "head -c 1000 /dev/zero | tr '\\0' x").truncated
    assert shell(box, "head -c 1001 /dev/zero | tr '\\0' x").truncated


def test_command_past_its_timeout_is_killed_with_what_it_started(box: Sandbox) -> None:
    script = "echo before; trap '' TERM INT; setsid sleep 1001 & sleep 1001"
    result = shell(box, script, timeout=0.7)
    assert (result.exit_code, result.timed_out, result.output) == (124, True, "before\n")
    assert _running(box, "sleep 1001") == []


def test_flood_past_its_timeout_is_killed(box: Sandbox) -> None:
    result = box.run(Command(["yes"], timeout=0.5))
    assert (result.exit_code, result.timed_out, result.truncated) == (124, True, True)


def test_background_processes_end_with_the_command(box: Sandbox) -> None:
    script = "nohup sleep 1002 >/dev/null 2>&1 & setsid env -i sleep 1002 & echo started"
    result = shell(box, script)
    assert (result.exit_code, result.output) == (0, "started\n")
    assert _running(box, "sleep 1002") == []


def test_a_command_that_kills_all_it_can_ends_itself_only(box: Sandbox) -> None:
    shell(box, "kill -9 -1; kill -9 1; kill -9 $PPID; kill -9 $$")
    assert shell(box, "echo alive").output == "alive\n"


def test_read_only_command_cannot_write_the_workspace(box: Sandbox) -> None:
    box.write_file("folder/file", b"kept")
    script = (
        "cat folder/file; echo x >folder/file; rm -f folder/file; touch new folder/new; "
        "chmod 777 folder; mv folder other; echo tmp >/tmp/note && cat /tmp/note"
    )
    result = shell(box, script, read_only=True)
    assert result.output.startswith("kept")
    assert result.output.endswith("tmp\n")
    assert box.read_tree() == {"folder/file": b"kept"}


def test_processes_have_no_rights(box: Sandbox) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in shell(box, "cat /proc/self/status").output.splitlines()
        if ":\t" in line
    )
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[capabilities], 16) == 0, capabilities
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split()
    assert "0" not in status["Gid"].split()
    assert shell(box, "touch /usr/x /etc/x /x; mount -t tmpfs none /tmp").exit_code != 0


def test_there_is_no_network(box: Sandbox) -> None:
    script = (
        "import socket; print([name for _, name in socket.if_nameindex()])\n"
        "socket.create_connection(('192.0.2.1', 80), timeout=5)"
    )
    result = python(box, script)
    assert "['lo']" in result.output.splitlines()
    assert "unreachable" in result.output


def test_memory_is_limited(box: Sandbox) -> None:
    result = python(box, "held = bytearray(1 << 30); print('allocated')")
    assert result.exit_code != 0
    assert "allocated" not in result.output
    assert python(box, "held = bytearray(100 << 20); print('allocated')").exit_code == 0


def test_fork_bomb_is_contained(box: Sandbox) -> None:
    result = shell(box, "bomb() { bomb | bomb & }; bomb; sleep 1000", timeout=1)
    assert result.exit_code != 0
    assert shell(box, "echo alive").output == "alive\n"
    assert _running(box, "bomb") == []


def test_number_of_processes_is_limited(box: Sandbox) -> None:
    script = (
        "import os, signal\nchildren = 0\ntry:\n"
        "    while children < 500:\n"
        "        if os.fork() == 0:\n            signal.pause()\n"
        "        children += 1\n"
        "except BlockingIOError:\n    print(children)"
    )
    assert 20 <= int(python(box, script).output) <= 48


def test_open_files_are_limited(open_backend: OpenSandbox) -> None:
    box = open_backend(open_files=80)
    script = "files = []\ntry:\n    while True: files.append(open('/dev/null'))\n"
    script += "except OSError as error: print(len(files), error.strerror)"
    result = box.run(Command([box.python, "-c", script]))
    count, _, said = result.output.strip().partition(" ")
    assert (50 < int(count) < 80, said) == (True, "Too many open files")
    assert shell(box, "ulimit -n 81").exit_code != 0


def test_file_size_is_limited(box: Sandbox) -> None:
    result = shell(box, "head -c 20000000 /dev/zero >big; stat -c %s big")
    assert result.output.splitlines()[-1] == str(8 * 1024 * 1024)


def test_the_disk_as_a_whole_is_limited(open_backend: OpenSandbox) -> None:
    box, modest = open_backend(disk_mb=64), open_backend(disk_mb=64)
    fill = "for n in $(seq {}); do head -c 5000000 /dev/zero >file$n; done; sleep {}"
    with pytest.raises(DiskExceeded, match="more than 64 MB"):
        shell(box, fill.format(40, 100), timeout=100)
    with pytest.raises(DiskExceeded):
        box.read_file("file1")
    assert shell(modest, fill.format(4, 1)).exit_code == 0


def test_host_environment_and_home_are_not_readable(
    open_backend: OpenSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = "h0st-s3cret"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text(secret)
    box = open_backend()
    script = (
        f"env; cat /proc/*/environ | tr '\\0' '\\n'; cat '{tmp_path}/token' ~/token; ls -aR ~; "
        f"ls '{tmp_path}' '{Path.home()}'"
    )
    result = shell(box, script)
    assert secret not in result.output
    assert "token\n" not in result.output.replace("/token", "")
    assert f"'{tmp_path}': No such file" in result.output
    real_home = os.path.expanduser(f"~{os.environ.get('USER', 'root')}")
    listed = shell(box, f"cat {real_home}/.bashrc {real_home}/.ssh/* {real_home}/.pyenv/version")
    assert listed.exit_code != 0


@pytest.mark.slow
def test_two_sandboxes_do_not_see_each_other(open_backend: OpenSandbox) -> None:
    first, second = open_backend(), open_backend()
    first.write_file("mine", b"first-s3cret")
    terminal = first.spawn(Command(["sh", "-c", "echo up; sleep 1003"]))
    assert terminal.read_line(30) == b"up"
    shell(first, "echo first-s3cret >/tmp/mine; echo first-s3cret >/dev/shm/mine")
    assert _running(second, "sleep 1003") == []
    found = shell(second, "grep -rl s3cret /workspace /tmp /dev/shm; ls -A /workspace /tmp")
    assert "mine" not in found.output
    assert second.read_tree() == {}


def test_closed_sandbox_says_so_and_closes_twice(open_backend: OpenSandbox) -> None:
    box = open_backend()
    box.close()
    box.close()
    with pytest.raises(SandboxDead, match="closed"):
        box.run(Command(["true"]))
    with pytest.raises(SandboxDead, match="closed"):
        box.read_file("x")


@pytest.mark.slow
def test_python_runs_pytest(box: Sandbox) -> None:
    box.write_file("test_it.py", b"def test_it():\n    assert 1 + 1 == 2\n")
    result = box.run(Command([box.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]))
    assert "1 passed" in result.output, result.output
    assert set(box.read_tree()) == {"test_it.py"}


def _running(box: Sandbox, pattern: str) -> list[str]:
    """Processes of the sandbox whose command line holds a pattern."""
    listing = box.run(Command(["ps", "-eo", "args"])).output
    return [line for line in listing.splitlines() if pattern in line]


def _sha256sum(data: bytes) -> str:
    import hashlib

    return f"{hashlib.sha256(data).hexdigest()}  -\n"
