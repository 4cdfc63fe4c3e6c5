"""The lines of source text, as the compilers count them."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from sandbox.debugger.probe.own import source_lines as probes_lines
from sandbox.text import source_lines

# What `str.splitlines` splits at, and CPython does not: in comments it may stand anywhere.
ODD = st.text("\t\v\f\x1c\x1d\x1e\x85\u2028\u2029 é", max_size=6)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(ODD, ENDS), max_size=8), ODD)
def test_lines_have_the_numbers_that_python_gives_them(
    lines: list[tuple[str, str]], last: str
) -> None:
    text = "".join(f"x{n} = {n}  # {odd}{end}" for n, (odd, end) in enumerate(lines))
    text += f"y = 1  # {last}"
    counted = source_lines(text)
    assert probes_lines(text) == counted
    assert "".join(source_lines(text, keepends=True)) == text
    statements = ast.parse(text.encode()).body
    assert len(counted) == len(statements)
    for statement in statements:
        assert isinstance(statement, ast.Assign)
        assert isinstance(statement.targets[0], ast.Name)
        assert counted[statement.lineno - 1].startswith(f"{statement.targets[0].id} = ")


def test_a_last_line_without_an_end() -> None:
    assert source_lines("") == []
    assert source_lines("a\n") == ["a"]
    assert source_lines("a\n\n") == ["a", ""]
    assert source_lines("a\r\nb", keepends=True) == ["a\r\n", "b"]
