"""A run folder from elsewhere: its links lead no write out of it, and no read."""

from __future__ import annotations

import os
import re
import socket
from contextlib import closing
from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.store.files import (
    StrictRecord,
    TextFile,
    WorkFile,
    file_name,
    locked,
    refuse_links,
    replacing,
    replacing_folder,
    write_text,
)
from tests.sandbox.users import AS_ORDINARY, run_tests_as_ordinary


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file of the user's that links lead to."""
    path = tmp_path / "mine.txt"
    path.write_text("mine\n")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "replay").mkdir(parents=True)
    return folder


def test_a_temporary_file_is_no_link(run: Path, canary: Path) -> None:
    (run / ".tmp-config.yaml").symlink_to(canary)
    write_text(run / "config.yaml", "run: x\n")
    assert canary.read_text() == "mine\n"
    assert (run / "config.yaml").read_text() == "run: x\n"


def test_temporary_files_have_names_that_nobody_can_foresee(run: Path) -> None:
    with replacing(run / "a") as first, replacing(run / "a") as second:
        assert first != second
        assert first.is_file()
        first.write_text("first")
        second.write_text("second")
    assert (run / "a").read_text() == "first"


def test_a_link_is_replaced_and_not_followed(run: Path, canary: Path) -> None:
    for durable in (True, False):
        (run / "index.html").unlink(missing_ok=True)
        (run / "index.html").symlink_to(canary)
        write_text(run / "index.html", "page", durable)
        assert not (run / "index.html").is_symlink()
    assert canary.read_text() == "mine\n"


def test_what_fails_leaves_nothing(run: Path) -> None:
    with pytest.raises(KeyError), replacing(run / "a"):
        raise KeyError
    assert [path.name for path in run.iterdir()] == ["replay"]


def test_a_lock_empties_no_file(run: Path, canary: Path) -> None:
    lock = run / "replay" / ".lock"
    lock.symlink_to(canary)
    with pytest.raises(ConfigError, match=r"\.lock is a link or a pipe"):
        locked(lock)
    assert canary.read_text() == "mine\n"
    lock.unlink()
    os.link(canary, lock)
    with closing(locked(lock)):
        assert canary.read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_text_that_grows_is_an_ordinary_file(run: Path, canary: Path, kind: str) -> None:
    path = run / "journal" / "0123456789abcdef.jsonl"
    path.parent.mkdir()
    if kind == "link":
        path.symlink_to(canary)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for act in (TextFile(path).read, lambda: TextFile(path).add("line\n")):
        with pytest.raises((ConfigError, IsADirectoryError), match=path.name):
            act()
    assert canary.read_text() == "mine\n"


class Outcome(StrictRecord):
    id: str


@pytest.mark.parametrize("name", ["out.work.jsonl", ".out.lock"])
def test_outcomes_so_far_are_ordinary_files(run: Path, canary: Path, name: str) -> None:
    canary.write_text('{"settings": "s"}\n')
    (run / name).symlink_to(canary)
    with pytest.raises(ConfigError, match="is a link"):
        WorkFile(run / "out.jsonl", "s", Outcome, lambda each: each.id, "other settings")
    assert canary.read_text() == '{"settings": "s"}\n'


@pytest.mark.parametrize("name", [".tmp-sft", "sft"])
def test_a_folder_is_not_written_or_emptied_through_a_link(
    run: Path, tmp_path: Path, name: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "keep").touch()
    (run / name).symlink_to(mine)
    try:
        with replacing_folder(run / "sft") as folder:
            (folder / "new").touch()
    except FileExistsError:
        assert name == ".tmp-sft"
    assert [path.name for path in mine.iterdir()] == ["keep"]


@pytest.mark.parametrize(
    "name", ["rollouts", ".tmp-config.yaml", "report/conversations/a.html", "eval/replay/.lock"]
)
@pytest.mark.parametrize("to", ["absolute", "relative", "by another link", "not there yet"])
def test_a_link_that_leads_out_is_refused(run: Path, canary: Path, name: str, to: str) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    target = canary
    if to == "not there yet":
        target = canary.with_name("later")
    elif to == "relative":
        target = Path("../" * len(Path(name).parts)) / canary.name
    elif to == "by another link":
        target = run / "replay" / "way"
        target.symlink_to(canary.parent)
    (run / name).symlink_to(target)
    with pytest.raises(ConfigError, match=r"is a link to '.*', out of the run's folder"):
        refuse_links(run)


def test_links_within_a_run_and_the_folder_itself_may_be(run: Path, tmp_path: Path) -> None:
    (run / "wandb" / "run-1").mkdir(parents=True)
    (run / "wandb" / "latest-run").symlink_to("run-1")
    (tmp_path / "by-link").symlink_to(run)
    refuse_links(run)
    refuse_links(tmp_path / "by-link")
    refuse_links(tmp_path / "not-there")


def test_pipes_and_sockets_are_refused(run: Path) -> None:
    os.mkfifo(run / "config.yaml")
    with pytest.raises(ConfigError, match="a pipe, a socket or a device"):
        refuse_links(run)
    (run / "config.yaml").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(run / "s"))
        with pytest.raises(ConfigError, match="a pipe, a socket or a device"):
            refuse_links(run)


@pytest.mark.parametrize(
    "name", ["x/../../y", "..", ".", "", ".lock", "a\0b", "a\nb", "ü", "\ud83d"]
)
def test_other_names_become_plain_ones(name: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}", file_name(name))


def test_plain_names_stay() -> None:
    assert file_name("gpt-4.1") == "gpt-4.1"


@pytest.mark.slow
@pytest.mark.parametrize("user", [AS_ORDINARY])
def test_no_link_leads_an_ordinary_user_out(user: str) -> None:
    told = run_tests_as_ordinary(Path(__file__), "not ordinary")
    passed = re.search(r"^(\d+) passed", told, re.MULTILINE)
    assert passed, told
    assert int(passed[1]) >= 30, told
    assert "failed" not in told, told
