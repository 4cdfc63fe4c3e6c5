"""Files of records that came from other machines, or were written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.store.files import StrictRecord, read_lines


class Note(StrictRecord):
    """A record."""

    text: str


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_lines(path, Note, "write it")
    return str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n \n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_are_read_whatever_editor_wrote_them(tmp_path: Path, end: str, mark: str) -> None:
    text = mark + end.join(['{"text": "a\u2028b\x85c"}', '{"text": "d"}', ""])
    path = written(tmp_path, text.encode())
    assert [note.text for note in read_lines(path, Note, "")] == ["a\u2028b\x85c", "d"]


def test_all_wrong_lines_are_told_at_once(tmp_path: Path) -> None:
    wrong = [b'{"txt": "%d"}' % number for number in range(8)]
    told = refused(written(tmp_path, b"\n".join([b'{"text": "a"}', *wrong])))
    assert "8 of 9 lines are wrong, fix or remove them" in told
    assert all(f"line {number}: txt: there is no such key" in told for number in range(2, 7))
    assert "line 7" not in told
    assert told.endswith("and 3 more")
    one = refused(written(tmp_path, b'{"text": "a"}\n{"text": 1}\n'))
    assert one.endswith("line 2: text: must be a text (it is 1); fix or remove that line")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            '{"text": "a"}\n'.encode("utf-16"),
            "not UTF-8: byte 0xff in line 1; save it as UTF-8",
        ),
        ('{"text": "a"}\n'.encode("utf-16-le"), "line 1: not JSON"),
        ('{"text": "ä"}\n'.encode("latin-1"), "not UTF-8: byte 0xe4 in line 1; save it as UTF-8"),
        (b'{"text": "a"}\n{"text": "\xff"}\n', "not UTF-8: byte 0xff in line 2"),
        (b'[\n{"text": "a"},\n{"text": "b"}\n]\n', "a list: write one record a line, without"),
        (b'{\n  "text": "a"\n}\n', "line 1: not JSON (EOF while parsing an object"),
        (b'{\n  "text": "a"\n}\n', "a record stands on one line of its own"),
    ],
)
def test_the_cause_is_named(tmp_path: Path, data: bytes, told: str) -> None:
    assert told in refused(written(tmp_path, data))
