"""Reading and writing a workspace that an untrusted program writes to as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError
from tests.sandbox.conftest import slow_in_containers
from tests.sandbox.image import engine_error, ensure_image

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)


def shell(box: Sandbox, script: str) -> str:
    return box.run(Command(["bash", "-c", script])).output


def test_files_come_back_as_written(box: Sandbox) -> None:
    data = bytes(range(256)) * 1000
    box.write_file("a/b/c.bin", data)
    box.write_file(f"{box.workspace}/absolute", b"")
    assert box.read_file("a/b/c.bin") == data
    assert box.read_file(f"{box.workspace}/a/../absolute") == b""
    assert box.read_tree() == {"a/b/c.bin": data, "absolute": b""}
    assert box.read_tree("a") == {"b/c.bin": data}


def test_write_files_lays_out_a_tree_that_commands_may_change(box: Sandbox) -> None:
    box.write_files({"src/one.py": b"1", "src/deep/er/two.py": b"2", "src/one.txt": b"3"})
    shell(box, "echo 4 >src/deep/er/two.py; rm src/one.txt; touch src/deep/new; chmod -R go+w src")
    assert box.read_tree() == {
        "src/one.py": b"1",
        "src/deep/er/two.py": b"4\n",
        "src/deep/new": b"",
    }


def test_overwriting_replaces_the_content_and_keeps_the_mode(box: Sandbox) -> None:
    box.write_file("run.sh", b"#!/bin/sh\necho a long first version\n")
    shell(box, "chmod 755 run.sh")
    box.write_file("run.sh", b"#!/bin/sh\necho short\n")
    assert shell(box, "./run.sh") == "short\n"


def test_caches_and_version_control_are_left_out_of_a_tree(box: Sandbox) -> None:
    kept = {"a.py": b"", ".gitignore": b"", "git/x": b""}
    box.write_files({**kept, "p/__pycache__/a.pyc": b"", ".git/HEAD": b"", ".pytest_cache/x": b""})
    assert box.read_tree() == kept


def test_missing_files_and_folders_are_errors(box: Sandbox) -> None:
    box.write_file("file", b"")
    for path in ("missing", f"{box.workspace}/missing", "/tmp/missing", "/tmp/no/missing"):
        with pytest.raises(SandboxFileError, match=f"can't read '{path}'"):
            box.read_file(path)
    with pytest.raises(SandboxFileError, match="missing"):
        box.read_tree("missing")
    for path in (".", "file/below"):
        with pytest.raises(SandboxFileError):
            box.read_file(path)
        with pytest.raises(SandboxFileError):
            box.write_file(path, b"")


def test_what_is_no_regular_file_is_refused(box: Sandbox) -> None:
    shell(box, "ln -s /etc/passwd link; mkfifo pipe; mkdir folder; ln -s missing broken")
    for path in ("link", "pipe", "folder", "broken"):
        with pytest.raises(SandboxFileError, match=path):
            box.read_file(path)
        with pytest.raises(SandboxFileError, match=path):
            box.write_file(path, b"x")
    assert box.read_tree() == {}


def test_links_do_not_lead_writes_to_system_files(box: Sandbox) -> None:
    shell(box, "ln -s /etc folder; ln -s /etc/hosts hosts")
    for path in ("folder/passwd", "hosts"):
        with pytest.raises(SandboxFileError):
            box.write_file(path, b"planted")
    with pytest.raises(SandboxFileError):
        box.write_files({"folder/passwd": b"planted"})
    assert "planted" not in shell(box, "cat /etc/passwd /etc/hosts")


OUTSIDE = [
    *("/etc/passwd", "../etc/passwd", "kept/../../etc/passwd", "/tmp/../etc/passwd"),
    *("/workspace2/x", "/tmp/away/passwd", "/tmp/own"),
    *("etc/passwd", "up/etc/passwd", "kept/own/passwd", "tmp/other", "passwd", "self"),
    *("a\0b", "half \ud800 a character"),
]


def refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except SandboxFileError:
        return True
    return False


def test_no_path_leads_out_of_the_workspace(box: Sandbox) -> None:
    box.write_file("kept/file", b"1")
    shell(
        box,
        "ln -s /etc etc; ln -s .. up; ln -s /etc kept/own; ln -s /tmp tmp; ln -s /etc/passwd passwd"
        "; ln -s kept/file self; echo old >/tmp/other; ln -sfn /etc /tmp/away; ln -sf /etc/passwd "
        "/tmp/own",
    )
    for path in OUTSIDE:
        assert refused(partial(box.read_file, path)), path
        assert refused(partial(box.write_file, path, b"planted")), path
        assert refused(partial(box.write_files, {path: b"planted"})), path
    assert box.read_file("kept/file") == b"1"
    assert shell(box, "cat /tmp/other; cat /etc/passwd | grep -c planted") == "old\n0\n"


def test_a_file_below_tmp_is_read_and_not_written(box: Sandbox) -> None:
    shell(box, "mkdir /tmp/made; echo old >/tmp/made/file")
    for path in ("/tmp/made/file", "../tmp/made/file", "/tmp/made/../made/file"):
        assert box.read_file(path) == b"old\n"
        with pytest.raises(SandboxFileError):
            box.write_file(path, b"planted")
    assert shell(box, "cat /tmp/made/file") == "old\n"


def test_no_tree_comes_from_outside_the_workspace(box: Sandbox) -> None:
    box.write_file("kept/file", b"1")
    shell(box, "ln -s /etc etc; ln -s /tmp kept/linked; ln -s .. up; echo 1 >/tmp/other")
    for path in ("/", "/etc", "..", "etc", "up"):
        assert refused(partial(box.read_tree, path)), path
    assert box.read_tree("kept/..") == {"kept/file": b"1"}


@pytest.mark.parametrize("times", [5, pytest.param(25, marks=pytest.mark.slow)])
def test_a_folder_swapped_for_a_link_leads_nowhere(box: Sandbox, times: int) -> None:
    """A program swaps a folder for a link to another while its files are read and written."""
    shell(box, "mkdir -p real/inner /tmp/away/inner; echo in >real/inner/file")
    shell(box, "echo out >/tmp/away/inner/file")
    script = "while :; do ln -sfn /tmp/away swap; rm swap; cp -r real swap; rm -rf swap; done"
    terminal = box.spawn(Command(["sh", "-c", script]))
    seen = set()
    try:
        for _ in range(times):
            with suppress(SandboxFileError):
                seen.add(box.read_file("swap/inner/file"))
            with suppress(SandboxFileError):
                box.write_file("swap/inner/file", b"planted")
    finally:
        terminal.close()
    assert seen <= {b"in\n", b"", b"planted"}
    assert shell(box, "cat /tmp/away/inner/file") == "out\n"


def test_a_file_is_read_up_to_a_limit(box: Sandbox) -> None:
    box.write_file("x", b"12345")
    assert box.read_file("x", 5) == b"12345"
    with pytest.raises(SandboxFileError, match="has 5 bytes, more than the 4"):
        box.read_file("x", 4)


def test_deep_folders_and_second_names(box: Sandbox) -> None:
    box.write_files({"a": b"1" * 1000, ".git/kept": b"2"})
    shell(box, "ln a b; ln .git/kept c")
    assert box.read_tree() == {"a": b"1" * 1000, "b": b"1" * 1000, "c": b"2"}
    box.write_file("/".join("d" * 150) + "/file", b"")
    with pytest.raises(SandboxFileError):
        box.read_tree()


@slow_in_containers
def test_huge_sparse_file_is_refused(box: Sandbox) -> None:
    shell(box, "for i in $(seq 70); do truncate -s 8388608 sparse$i; done; echo x >>sparse1")
    with pytest.raises(SandboxFileError):
        box.read_tree()


@pytest.mark.slow
def test_odd_names_and_unreadable_files(box: Sandbox) -> None:
    files = {
        "with space": b"1",
        "-dash": b"2",
        "ünïcode/日本": b"3",
        "new\nline": b"4",
        "'q\"": b"5",
        "end\n/of\n": b"6",
        "$(touch x)/`touch y`": b"7",
        "*/?": b"8",
        " a ": b"9",
        "back\\slash": b"10",
    }
    for path, data in files.items():
        box.write_file(path, data)
    assert box.read_tree() == files
    assert {path: box.read_file(path) for path in files} == files
    changed = {path: data * 2 for path, data in files.items()}
    box.write_files(changed)
    assert box.read_tree() == changed


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, Sandbox]]:
    """One sandbox of each backend for many paths."""
    with ExitStack() as opened:
        boxes = {"local": opened.enter_context(open_sandbox(SandboxConfig()))}
        if engine_error() is None:
            config = SandboxConfig(backend="docker", image=ensure_image())
            boxes["docker"] = opened.enter_context(open_sandbox(config))
        yield boxes


@slow_in_containers
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=1, max_size=4), st.binary(max_size=100))
def test_any_path_is_kept_below_the_workspace_or_refused(
    backend: str, shared: dict[str, Sandbox], parts: list[str], data: bytes
) -> None:
    path = "/".join(parts)
    try:
        shared[backend].write_file(path, data)
    except SandboxFileError:
        return
    assert shared[backend].read_file(path) == data
