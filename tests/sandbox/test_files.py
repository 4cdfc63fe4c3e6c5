"""Reading and writing a workspace that an untrusted program writes to as well."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import Command, Sandbox
from sandbox.errors import SandboxFileError

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
    with pytest.raises(SandboxFileError, match="missing"):
        box.read_file("missing")
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


def test_huge_sparse_file_is_refused(box: Sandbox) -> None:
    shell(box, "for i in $(seq 70); do truncate -s 8388608 sparse$i; done; echo x >>sparse1")
    with pytest.raises(SandboxFileError):
        box.read_tree()


def test_odd_names_and_unreadable_files(box: Sandbox) -> None:
    files = {
        "with space": b"1",
        "-dash": b"2",
        "ünïcode/日本": b"3",
        "new\nline": b"4",
        "'q\"": b"5",
    }
    for path, data in files.items():
        box.write_file(path, data)
    assert box.read_tree() == files
    assert {path: box.read_file(path) for path in files} == files


@pytest.fixture(scope="module")
def shared() -> object:
    from sandbox import SandboxConfig, open_sandbox

    with open_sandbox(SandboxConfig()) as box:
        yield box


@settings(max_examples=50)
@given(st.lists(NAMES, min_size=1, max_size=4), st.binary(max_size=100))
def test_any_path_is_kept_below_the_workspace_or_refused(
    shared: Sandbox, parts: list[str], data: bytes
) -> None:
    path = "/".join(parts)
    try:
        shared.write_file(path, data)
    except SandboxFileError:
        return
    assert shared.read_file(path) == data
