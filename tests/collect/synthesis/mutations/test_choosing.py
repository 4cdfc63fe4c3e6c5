from __future__ import annotations

import ast
from collections import Counter

import pytest

from collect.synthesis.mutations import finding
from collect.synthesis.mutations.base import apply_all
from collect.synthesis.mutations.finding import chosen, combined, find_project_mutations

PROGRAM = '''\
class Stock:
    """What is left of what."""

    def __init__(self, names, low=10):
        super().__init__()
        self.counts = {}
        self.low_counts = {}
        self.names = list(names)
        for name in names:
            self.counts[name] = 0

    def take(self, name, count=1, strict=False):
        left = self.counts.get(name, 0)
        if strict and count > left:
            raise ValueError(name)
        self.counts[name] = max(left - count, 0)
        if left is None:
            return 0
        return min(left, count)

    def total(self, first=0, last=None):
        total = 0
        for name in self.names[first:last]:
            total += self.counts[name]
        return total, len(self.names)
'''
FOUND = find_project_mutations(PROGRAM, "stock.py")
OTHERS = find_project_mutations(PROGRAM.replace("Stock", "Store"), "store.py")


def test_the_same_seed_chooses_the_same() -> None:
    first = chosen(FOUND, "a", 12, 3)
    assert first == chosen(list(reversed(FOUND)), "a", 12, 3)
    assert first != chosen(FOUND, "b", 12, 3)
    assert first[:5] == chosen(FOUND, "a", 5, 3)


def test_no_more_than_wanted_of_one_function_and_no_edit_twice() -> None:
    taken = chosen([*FOUND, *OTHERS], "a", 1000, per_scope=2)
    scopes = Counter((one.path, one.scope) for one in taken)
    assert set(scopes.values()) == {2}
    assert len(scopes) == 6
    edits = {(one.path, one.start, one.end, one.text) for one in chosen(FOUND, "a", 1000, 3)}
    assert len(edits) == len(chosen(FOUND, "a", 1000, 3))


def test_heavier_categories_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two kinds with as many mutations, the one of weight 10 is chosen ten times as often."""
    default = [one for one in FOUND if one.kind == "wrong_default"][:4]
    start = [one for one in FOUND if one.kind == "wrong_start"][:4]
    assert len(default) == len(start) == 4
    monkeypatch.setattr(finding, "CATEGORY_WEIGHTS", {"default": 10.0, "data": 1.0})
    taken = chosen([*default, *start], "a", 4, per_scope=100)
    assert sum(one.kind == "wrong_default" for one in taken) >= 3


def test_pairs_of_one_program_that_do_not_touch() -> None:
    pairs = combined([*FOUND, *OTHERS], "a", 20)
    assert len(pairs) == 20
    assert pairs == combined([*OTHERS, *FOUND], "a", 20)
    parts = [part for pair in pairs for part in pair]
    assert len(set(map(id, parts))) == 40
    same = sum(pair[0].scope == pair[1].scope for pair in pairs)
    assert 3 <= same <= 17
    for pair in pairs:
        first, second = pair
        assert first.path == second.path
        source, broken = first.source, apply_all(pair)
        ast.parse(broken)
        assert broken.startswith(source[: first.start] + first.text)
        assert broken.endswith(second.text + source[second.end :])
        assert first.text + source[first.end : second.start] + second.text in broken


def test_edits_that_touch_are_not_combined() -> None:
    on_one_line = [one for one in FOUND if one.line == 19]
    assert len(on_one_line) > 1
    assert combined(on_one_line, "a", 3) == []
