"""Outcomes that are kept as they come, for the start after a killed one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from collect.errors import ConfigError
from collect.store.files import WorkFile, card_path, read_card, write_lines

REPOSITORY = Path(__file__).parents[3]
HOLDER = """
import sys
from pathlib import Path
from tests.collect.store.test_work_file import open_work

work = open_work(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


class Counted(BaseModel):
    name: str
    count: int = 0


def open_work(folder: Path, settings: str = "a") -> WorkFile[Counted]:
    output = folder / "counts.jsonl"
    return WorkFile(output, settings, Counted, lambda counted: counted.name, "other settings")


def test_a_later_start_finds_what_was_added(tmp_path: Path) -> None:
    open_work(tmp_path).add(Counted(name="one", count=1))
    with (tmp_path / "counts.work.jsonl").open("a") as file:
        file.write('{"name": "tw')
    work = open_work(tmp_path)
    assert work.outcomes == {"one": Counted(name="one", count=1)}
    work.add(Counted(name="two"))
    assert set(open_work(tmp_path).outcomes) == {"one", "two"}
    work.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_line_may_be_cut_within_a_character(tmp_path: Path) -> None:
    one, two = Counted(name="naïve"), Counted(name="€ ünïcode")
    for counted in (one, two):
        open_work(tmp_path).add(counted)
    path = tmp_path / "counts.work.jsonl"
    written = path.read_bytes()
    before = written.index(b"\n", written.index("naïve".encode())) + 1
    for end in range(before, len(written) - 1):
        path.write_bytes(written[:end])
        assert open_work(tmp_path).outcomes == {"naïve": one}
        assert path.read_bytes() == written[:before]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    open_work(tmp_path)
    with pytest.raises(ConfigError, match=r"counts\.work\.jsonl is of a run with other settings"):
        open_work(tmp_path, "b")


def test_one_writing_process_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(ConfigError, match="another process is writing to"):
            open_work(tmp_path)
        holder.kill()
    open_work(tmp_path).add(Counted(name="one"))


def test_only_a_finished_file_has_a_card(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    card = card_path(path)
    write_lines(path, [Counted(name="one")], Counted(name="card", count=1))
    assert read_card(path, card, Counted) == Counted(name="card", count=1)
    card.write_text('{"name": "ca')
    assert read_card(path, card, Counted) is None
    card.unlink()
    assert read_card(path, card, Counted) is None
