"""Long texts are folded and cut, code is told from prose, and nothing hidden stays hidden."""

from __future__ import annotations

import pytest

from collect.console import HIDDEN, visible
from eval.report.rendering import MOST_CHARACTERS, folded, segments


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("only prose", [("only prose", False)]),
        (
            "a\n```python\nx = 1\n\ny\n```\nb",
            [("a", False), ("```python\nx = 1\n\ny\n```", True), ("b", False)],
        ),
        ("```\nnever closed\n```python", [("```\nnever closed\n```python", True)]),
        ("", []),
    ],
)
def test_code_between_fences(text: str, parts: list[tuple[str, bool]]) -> None:
    assert list(segments(text)) == parts


def test_many_open_fences_take_no_longer() -> None:
    assert len(list(segments("```x\n" * 100_000))) == 1


def test_folding() -> None:
    assert folded("short").preview == ""
    lines = folded("line\n" * 50)
    assert (lines.lines, lines.preview) == (51, "\n".join(["line"] * 8))
    long = folded("x" * (MOST_CHARACTERS + 7))
    assert (len(long.text), long.left_out, len(long.preview)) == (MOST_CHARACTERS, 7, 600)


def test_what_is_hidden_becomes_visible() -> None:
    hidden = "\x1b[31m\x00\r\x7f\x9b\u202e\u2067\u200b\ufeff\ud800\U000e0041"
    told = r"\x1b[31m\x00\r\x7f\x9b\u202e\u2067\u200b\ufeff\ud800\U000e0041"
    assert visible(hidden) == told
    kept = "tab\tline\n\u05d0\u4e2d\U0001f469\u200d\U0001f4bb\u00e9"
    assert visible(kept) == kept
    assert not HIDDEN.search(visible("".join(map(chr, range(0x3000)))))
