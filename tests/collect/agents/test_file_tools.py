"""The tools on files, in a real sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from collect.agents.file_tools import EditFile, EditGate, Grep, ListFiles, ReadFile
from collect.agents.shell_tool import Bash
from collect.agents.tools import Tool, Toolbox, ToolReply
from collect.messages import ToolCall
from collect.records import ToolOutcome
from sandbox import Sandbox, SandboxConfig, open_sandbox

FILES = {
    "shop/cart.py": b"rate = 1\nlimit = 2\nrate = 1\n",
    "shop/-odd.py": b"rate = 3\n",
    "README.md": b"The rate is fixed.\n",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig()) as opened:
        opened.write_files(FILES)
        yield opened


def call(sandbox: Sandbox, name: str, **arguments: Any) -> ToolReply:
    gate = EditGate()
    tools: list[Tool] = [
        ListFiles(sandbox),
        ReadFile(sandbox),
        Grep(sandbox),
        EditFile(sandbox, gate),
        Bash(sandbox, 5.0, gate),
    ]
    return Toolbox(tools).call(ToolCall("1", name, json.dumps(arguments)))


def test_list_files(sandbox: Sandbox) -> None:
    assert "shop/cart.py" in call(sandbox, "list_files").text.splitlines()
    assert call(sandbox, "list_files", path="shop", pattern="c*").text == "shop/cart.py"
    assert call(sandbox, "list_files", path="none").outcome is ToolOutcome.ERROR


def test_read_file(sandbox: Sandbox) -> None:
    text = call(sandbox, "read_file", path="shop/cart.py", start_line=2, end_line=2).text
    assert text == "    2 limit = 2\n[1 more lines, to 3]"
    beyond = call(sandbox, "read_file", path="shop/cart.py", start_line=9)
    assert (beyond.outcome, "has 3 lines" in beyond.text) == (ToolOutcome.ERROR, True)
    assert call(sandbox, "read_file", path="../../etc/passwd").outcome is ToolOutcome.ERROR


def test_grep(sandbox: Sandbox) -> None:
    found = call(sandbox, "grep", pattern="rate", path="shop").text.splitlines()
    assert sorted(found) == [
        "shop/-odd.py:1:rate = 3",
        "shop/cart.py:1:rate = 1",
        "shop/cart.py:3:rate = 1",
    ]
    assert call(sandbox, "grep", pattern="-rate").text == "No matches."
    assert call(sandbox, "grep", pattern="(").outcome is ToolOutcome.ERROR


def test_edit_file(sandbox: Sandbox) -> None:
    twice = call(sandbox, "edit_file", path="shop/cart.py", old_string="rate = 1", new_string="x")
    assert (twice.outcome, "occurs 2 times" in twice.text) == (ToolOutcome.ERROR, True)
    call(sandbox, "edit_file", path="shop/cart.py", old_string="limit = 2", new_string="limit = 3")
    assert sandbox.read_file("shop/cart.py") == b"rate = 1\nlimit = 3\nrate = 1\n"
    call(sandbox, "edit_file", path="new/x.py", old_string="", new_string="y = 1\n")
    assert sandbox.read_file("new/x.py") == b"y = 1\n"
    again = call(sandbox, "edit_file", path="new/x.py", old_string="", new_string="z")
    assert again.outcome is ToolOutcome.ERROR


def test_bash(sandbox: Sandbox) -> None:
    assert call(sandbox, "bash", command="echo a; exit 3").text == "a\n\n[exit code 3]"
    assert "killed after 0.5 s" in call(sandbox, "bash", command="sleep 9", timeout=0.5).text
    assert call(sandbox, "bash", command="true").text == "[no output]"


def test_line_numbers_are_pythons(sandbox: Sandbox) -> None:
    sandbox.write_file("feed.py", "a\x0cb\u2028c\nd\r\ne\n".encode())
    shown = call(sandbox, "read_file", path="feed.py", start_line=2).text
    assert shown == "    2 d\n    3 e"
    sandbox.write_file("empty.py", b"")
    assert "has 0 lines" in call(sandbox, "read_file", path="empty.py").text


def test_an_edit_keeps_every_other_byte(sandbox: Sandbox) -> None:
    sandbox.write_file("odd.py", b"\xef\xbb\xbf# \xe9\r\na = 1\r\nb = 2\nc = 3\r\n")
    reply = call(sandbox, "edit_file", path="odd.py", old_string="= 2\nc = 3\n", new_string="")
    assert reply.outcome is ToolOutcome.ERROR, "the file mixes line ends there"
    call(sandbox, "edit_file", path="odd.py", old_string="b = 2\nc", new_string="b = 5\nc")
    call(sandbox, "edit_file", path="odd.py", old_string="\na = 1\n", new_string="\na = 4\n\n")
    expected = b"\xef\xbb\xbf# \xe9\r\na = 4\r\n\r\nb = 5\nc = 3\r\n"
    assert sandbox.read_file("odd.py") == expected
