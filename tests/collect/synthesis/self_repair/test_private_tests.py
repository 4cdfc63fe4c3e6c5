from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.synthesis.self_repair import sources
from collect.synthesis.self_repair.sources import decode_tests


def pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def decode(text: str) -> object:
    return decode_tests("row 1", "private_test_cases", text)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_both_forms(protocol: int) -> None:
    tests = [{"input": "ä\n", "output": "1"}]
    assert decode(json.dumps(tests)) == tests
    assert decode(pack(pickle.dumps(json.dumps(tests), protocol))) == tests


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_nothing_is_called(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ConfigError, match="mkdir, and may hold only text"):
            decode(pack(pickle.dumps(Evil(made), protocol)))
    assert not made.exists()
    pickle.loads(pickle.dumps(Evil(made)))
    assert made.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (pack(pickle.dumps(["[]"])), "the pickle holds list, not text"),
        (pack(pickle.dumps("[")), "neither JSON"),
        (pack(b""), "pickled string of JSON: Ran out of input"),
        (pack(b"\x80\x04\x95"), "pickle"),
        (pack(b"("), "pickle"),
        (pack(b"0."), "pickle"),
        (pack(b"\x80\x04P1\n."), "row 1: column private_test_cases"),
        (pack(pickle.dumps("[]"))[:-8], "neither JSON"),
        ("no base64!", "neither JSON"),
        (base64.b64encode(b"not zlib").decode(), "neither JSON"),
    ],
)
def test_what_is_broken_is_told(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode(text)


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="more than 1000 bytes when decompressed"):
        decode(pack(pickle.dumps("x" * 10_000)))
