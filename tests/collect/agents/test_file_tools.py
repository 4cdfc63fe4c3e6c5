"""The tools on files, in a real sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from collect.agents.file_tools import (
    Bash,
    BashArguments,
    EditFile,
    EditGate,
    FirstLines,
    Grep,
    ListFiles,
    ReadFile,
    first_lines,
    read_failure,
)
from collect.agents.tools import Tool, Toolbox, ToolReply
from collect.store.messages import ToolCall
from collect.store.records import ToolOutcome
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from tests.sandbox.image import TAG

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


@pytest.fixture(scope="module")
def many() -> Iterator[tuple[Sandbox, list[str]]]:
    """A sandbox whose files are more than it keeps of an output, by name or by what is in them."""
    names = [f"src/component{n // 40:02}/SomeOrdinaryClassName{n:04}.java" for n in range(300)]
    with open_sandbox(SandboxConfig(output_limit=4_000)) as opened:
        opened.write_files(dict.fromkeys(names, b"class Some { void ordinary() {} }\r\n"))
        yield opened, names


def test_a_listing_is_the_first_files_and_counts_the_others(
    many: tuple[Sandbox, list[str]],
) -> None:
    sandbox, names = many
    shown = call(sandbox, "list_files").text.split("\n")
    assert shown == [*names[:200], "[100 more files; narrow the search]"]
    assert call(sandbox, "list_files", path="src", pattern="*1?.java").text.count("\n") == 29


def test_the_matches_of_a_search_are_whole_and_counted(many: tuple[Sandbox, list[str]]) -> None:
    sandbox, names = many
    *shown, more = call(sandbox, "grep", pattern="ordinary").text.split("\n")
    assert more == "[200 more matches; narrow the search]"
    assert len(set(shown)) == 100
    assert {line.removesuffix(":1:class Some { void ordinary() {} }") for line in shown} < {*names}
    sandbox.write_file("long.txt", b"needle " + b"x" * 100_000 + b"\n:needle\f7\n")
    first, second = call(sandbox, "grep", pattern="needle").text.split("\n")
    assert (len(first), first[-6:]) == (406, " [cut]")
    assert second == "long.txt:2::needle\f7"


def test_what_a_search_complains_about_is_told(sandbox: Sandbox) -> None:
    missing = call(sandbox, "grep", pattern="rate", path="none")
    assert missing.text == "Error: grep: ./none: No such file or directory"
    script = "for n in 2 1; do echo $n; echo no $n >&2; done; exit 7"
    both = first_lines(sandbox, ["sh", "-c", script], 1, "sort")
    assert both == FirstLines(["1"], 2, 7, ["no 2", "no 1"])
    nothing = first_lines(sandbox, ["true"], 1)
    assert nothing == FirstLines([], 0, 0, [])


def test_read_file(sandbox: Sandbox) -> None:
    text = call(sandbox, "read_file", path="shop/cart.py", start_line=2, end_line=2).text
    assert text == "    2 limit = 2\n[1 more lines, to 3]"
    turned = call(sandbox, "read_file", path="shop/cart.py", start_line=3, end_line=2)
    assert turned.text == "Error: end_line 2 is before start_line 3."
    beyond = call(sandbox, "read_file", path="shop/cart.py", start_line=9)
    assert (beyond.outcome, "has 3 lines" in beyond.text) == (ToolOutcome.ERROR, True)
    assert call(sandbox, "read_file", path="../../etc/passwd").outcome is ToolOutcome.ERROR


def test_no_path_is_taken_for_an_exit_code(sandbox: Sandbox) -> None:
    missing = call(sandbox, "grep", pattern="rate", path="none\nexit x")
    assert missing.outcome is ToolOutcome.ERROR
    assert "exit x: No such file or directory" in missing.text


def test_grep(sandbox: Sandbox) -> None:
    found = call(sandbox, "grep", pattern="rate", path="shop").text.splitlines()
    assert sorted(found) == [
        "shop/-odd.py:1:rate = 3",
        "shop/cart.py:1:rate = 1",
        "shop/cart.py:3:rate = 1",
    ]
    one = call(sandbox, "grep", pattern="limit", path="shop/cart.py")
    assert one.text == "shop/cart.py:2:limit = 2"
    assert call(sandbox, "grep", pattern="-rate").text == "No matches."
    assert call(sandbox, "grep", pattern="(").outcome is ToolOutcome.ERROR


def test_edit_file(sandbox: Sandbox) -> None:
    twice = call(sandbox, "edit_file", path="shop/cart.py", old_string="rate = 1", new_string="x")
    assert (twice.outcome, "occurs 2 times" in twice.text) == (ToolOutcome.ERROR, True)
    reply = call(
        sandbox, "edit_file", path="shop/cart.py", old_string="limit = 2", new_string="limit = 3"
    )
    assert reply.text.splitlines()[1:] == ["    1 rate = 1", "    2 limit = 3", "    3 rate = 1"]
    assert sandbox.read_file("shop/cart.py") == b"rate = 1\nlimit = 3\nrate = 1\n"
    call(sandbox, "edit_file", path="new/x.py", old_string="", new_string="y = 1\n")
    assert sandbox.read_file("new/x.py") == b"y = 1\n"
    ended = call(sandbox, "edit_file", path="new/x.py", old_string="1\n", new_string="2\n")
    assert ended.text.splitlines()[1:] == ["    1 y = 2"]
    again = call(sandbox, "edit_file", path="new/x.py", old_string="", new_string="z")
    assert again.outcome is ToolOutcome.ERROR


def test_bash(sandbox: Sandbox) -> None:
    assert call(sandbox, "bash", command="echo a; exit 3").text == "a\n\n[exit code 3]"
    assert "killed after 0.5 s" in call(sandbox, "bash", command="sleep 9", timeout=0.5).text
    assert call(sandbox, "bash", command="true").text == "[no output]"


def test_a_closed_gate_lets_coverage_measure(sandbox: Sandbox) -> None:
    code = "import os; open(os.environ['COVERAGE_FILE'], 'w').close(); print('measured')"
    closed = Bash(sandbox, 5.0, EditGate(is_open=False))
    assert closed.call(BashArguments(command=f'python -c "{code}"'), "1").text == "measured"


@pytest.mark.parametrize(
    "options",
    [
        "--lf",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("", "-p no:cacheprovider", "-W error")
        ),
    ],
)
def test_a_closed_gate_lets_tests_run(sandbox: Sandbox, options: str) -> None:
    sandbox.write_file("test_cart.py", b"def test_rate():\n    assert 1 == 2\n")
    closed = Bash(sandbox, 30.0, EditGate(is_open=False))
    reply = closed.call(BashArguments(command=f"python -m pytest -q {options}"), "1")
    assert reply.outcome is ToolOutcome.ERROR
    assert reply.text.endswith("[exit code 1]")
    assert "Refused" not in reply.text
    assert "cache" not in reply.text
    edit = closed.call(BashArguments(command="echo x >test_cart.py"), "2")
    assert edit.outcome is ToolOutcome.REFUSED


@pytest.mark.slow
def test_how_a_command_failed_can_be_read_off_its_answer(sandbox: Sandbox) -> None:
    exited = call(sandbox, "bash", command="echo '[exit code 4]'; exit 3").text
    assert read_failure(exited) == ("[exit code 4]\n", 3)
    killed = call(sandbox, "bash", command="echo a; sleep 9", timeout=2).text
    assert read_failure(killed) == ("a\n", None)
    assert read_failure("[exit code 3] is not its end") is None


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


MEASURED = """
import json, resource, sys
from collect.agents.file_tools import EditFile, Grep, ListFiles, ReadFile
from collect.agents.tools import Toolbox
from collect.store.messages import ToolCall
from sandbox import Command, SandboxConfig, open_sandbox

def call(name, **arguments):
    return tools.call(ToolCall("1", name, json.dumps(arguments))).text

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

with open_sandbox(SandboxConfig(backend=sys.argv[1], image=sys.argv[2])) as sandbox:
    tools = Toolbox([ListFiles(sandbox), ReadFile(sandbox), Grep(sandbox), EditFile(sandbox)])
    fill = "yes '' | head -c 100000000 >huge; yes '' | head -c 8388608 >large; echo end >>large; "
    fill += "yes '' | head -c 8388608 >fits; head -c 99000000 /dev/zero >>long; echo >>long"
    assert sandbox.run(Command(["sh", "-c", fill])).exit_code == 0
    sandbox.read_file("fits", 10**7)
    before = peak()
    for path in ("huge", "large", "long"):
        for told in (call("read_file", path=path), call("edit_file", path=path, old_string="end",
                                                        new_string="x")):
            assert "bytes, more than the 8388608 that are read; look at a part" in told, told
    assert call("read_file", path="fits", start_line=8388600).count("\\n") == 8
    assert call("grep", pattern="end", path="large").endswith("8388609:end")
    call("grep", pattern="^$", path="huge")
    call("list_files")
    print(peak() - before)
"""


@pytest.mark.slow
def test_a_huge_file_takes_no_memory_of_ours(backend: str) -> None:
    argv = [sys.executable, "-c", MEASURED, backend, TAG]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 80, "MiB, for files of 100 MB"


def test_no_path_leaves_the_workspace(backend: str) -> None:
    config = SandboxConfig.model_validate({"backend": backend, "image": TAG})
    with open_sandbox(config) as sandbox:
        sandbox.run(Command(["sh", "-c", "echo old >/tmp/x; ln -s /tmp out; ln -s /tmp/x file"]))
        calls: list[dict[str, str]] = [
            {"name": "edit_file", "old_string": "o", "new_string": "planted"},
            {"name": "edit_file", "old_string": "", "new_string": "planted"},
            {"name": "read_file"},
        ]
        assert call(sandbox, "read_file", path="/tmp/x").text == "    1 old"
        for path in ("/etc/passwd", "../etc/passwd", "out/x", "file", "/tmp/x"):
            for arguments in calls[:2] if path == "/tmp/x" else calls:
                reply = call(sandbox, path=path, **arguments)
                assert reply.outcome is ToolOutcome.ERROR, (path, arguments)
        made = call(sandbox, "edit_file", path="out/new", old_string="", new_string="x")
        assert made.outcome is ToolOutcome.ERROR
        assert sandbox.run(Command(["sh", "-c", "ls /tmp; cat /tmp/x"])).output == "home\nx\nold\n"
