"""Workspaces that are laid out again and again: only what changed is written, and all of it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from mcp.client import Client

from collect.benchmarks.base import Instance
from collect.live.workspace import LiveWorkspace
from sandbox import Command, SandboxConfig
from sandbox.errors import SandboxFileError
from tests.collect.live.conftest import TEST, live, said, with_client
from tests.sandbox.image import TAG

START = "debug_start_session"
FILES = {"a.py": b"a = 1\n", "pkg/b.py": b"b = 1\n", "pkg/deep/c.py": b"c = 1\n"}
INSTANCE = Instance("bug", "local", "python", "shop", "", (), (), "", files=FILES)
CHANGES = {
    "a new file": "echo 1 >new.py; mkdir -p x/y; echo 1 >x/y/z",
    "the same size and time": "touch -r a.py /tmp/old; printf 'a = 2\\n' >a.py; "
    "touch -r /tmp/old a.py",
    "removed": "rm -r pkg/deep a.py",
    "a link in a file's place": "rm a.py; ln -s /etc/passwd a.py",
    "a link in a folder's place": "mv pkg/deep /tmp/deep; ln -s /tmp/deep pkg/deep",
    "a folder in a file's place": "rm a.py; mkdir -p a.py/b",
    "a hard link": "ln a.py /tmp/kept; ln pkg/b.py other.py",
    "rights of a file": "chmod 0 a.py",
    "rights of a folder": "chmod 500 pkg",
    "a pipe": "mkfifo pipe; rm a.py; mkfifo a.py",
    "byte code": "mkdir __pycache__; echo 1 >__pycache__/a.pyc",
    "odd names": r"printf 1 >$(printf 'odd\nname\377'); echo 1 >-rf; echo 1 >'two words'",
}


def numbers(workspace: LiveWorkspace) -> Mapping[str, str]:
    """The inode of each file."""
    listed = Command(["find", ".", "-type", "f", "-printf", "%P %i\n"])
    lines = workspace.sandbox.run(listed).output.splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def everything(workspace: LiveWorkspace) -> str:
    """What there is: kinds, rights, names and contents."""
    script = r"find . -mindepth 1 -printf '%y %m %n %P\n' | sort; find . -type f | sort | xargs cat"
    return workspace.sandbox.run(Command(["sh", "-c", script])).output


@pytest.fixture
def workspace(backend: str) -> Iterator[LiveWorkspace]:
    config = SandboxConfig.model_validate({"backend": backend, "image": TAG})
    opened = LiveWorkspace.open(config, INSTANCE)
    with opened.sandbox:
        opened.lay_out(FILES)
        yield opened


def test_only_what_the_user_changed_is_written(workspace: LiveWorkspace) -> None:
    before = numbers(workspace)
    files = {**FILES, "a.py": b"a = 2\n", "new.py": b"n = 1\n"}
    del files["pkg/deep/c.py"]
    workspace.lay_out(files)
    after = numbers(workspace)
    assert after.keys() == files.keys()
    assert after["pkg/b.py"] == before["pkg/b.py"]
    assert workspace.sandbox.read_tree() == files


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_program_changed_is_as_it_was(workspace: LiveWorkspace, change: str) -> None:
    before = everything(workspace)
    changed = workspace.sandbox.run(Command(["sh", "-c", CHANGES[change]]))
    assert changed.exit_code == 0, changed.output
    assert everything(workspace) != before
    workspace.lay_out(FILES)
    assert everything(workspace) == before


def test_tmp_can_be_emptied(workspace: LiveWorkspace) -> None:
    left = "mkdir -p /tmp/a/b; echo 1 >/tmp/a/b/c; echo 1 >~/.left"
    workspace.sandbox.run(Command(["sh", "-c", left]))
    workspace.empty_tmp()
    look = Command(["sh", "-c", 'find /tmp -mindepth 1; test -w "$HOME"'])
    assert workspace.sandbox.run(look).output.split() == ["/tmp/home"]
    assert workspace.sandbox.run(look).exit_code == 0


def test_builds_are_kept_when_tmp_is_emptied(workspace: LiveWorkspace) -> None:
    left = "mkdir -p /tmp/a ~/build/target ~/other; echo 1 >/tmp/a/b; echo 1 >~/build/target/A"
    workspace.sandbox.run(Command(["sh", "-c", left]))
    workspace.empty_tmp(keep_builds=True)
    look = Command(["sh", "-c", "cd /tmp && find . -mindepth 1 | sort"])
    kept = ["./home", "./home/build", "./home/build/target", "./home/build/target/A"]
    assert workspace.sandbox.run(look).output.split() == kept


def test_the_machines_own_tmp_is_not_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `unsafe` runs commands on the host."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.warns(UserWarning, match="unsandboxed"):
        opened = LiveWorkspace.open(SandboxConfig(unsafe=True), INSTANCE)
    with opened.sandbox, pytest.raises(SandboxFileError, match="the machine's"):
        opened.empty_tmp()


WRITES = """\
import pathlib

def test_writes():
    left = pathlib.Path("/tmp/left"), pathlib.Path("left.txt"), pathlib.Path("shop/cart.py")
    for path in left:
        before = path.exists() and path.read_text()
        path.write_text("spoilt")
    assert True
"""


def test_a_later_start_finds_nothing_of_the_earlier_ones(repo: Path) -> None:
    (repo / "tests/test_writes.py").write_text(WRITES)
    there = "[__import__('os').path.exists(p) for p in ('/tmp/left', 'left.txt')]"
    seen = {"what": "evaluate", "expression": there}
    number = {
        "what": "evaluate",
        "expression": "__import__('os').stat('tests/test_cart.py').st_ino",
    }

    async def work(client: Client) -> None:
        numbers = []
        for test in ["tests/test_writes.py::test_writes"] * 3 + [TEST]:
            await said(client, START, test=test)
            assert "[False, False]" in await said(client, "debug_inspect", **seen)
            numbers.append(await said(client, "debug_inspect", **number))
            if test != TEST:
                await said(client, "debug_control", action="continue")
        # Two workspaces take turns.
        assert numbers[0] == numbers[2] != numbers[1] == numbers[3]

    with_client(live(repo), work)


def test_a_restart_without_its_test_leaves_the_session_as_it_is(repo: Path) -> None:
    async def work(client: Client) -> None:
        await said(client, START, test=TEST)
        tests = (repo / "tests/test_cart.py").read_text()
        (repo / "tests/test_cart.py").write_text(tests.replace("test_total", "test_sum"))
        refused = await said(client, "debug_control", action="restart")
        assert "there is no test test_total" in refused
        assert "The session goes on" in refused
        assert "test_total" in await said(client, "debug_inspect", what="stack")
        (repo / "tests/test_cart.py").write_text(tests)
        assert "Paused at" in await said(client, "debug_control", action="restart")

    with_client(live(repo), work)
