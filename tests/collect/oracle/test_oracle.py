"""The oracle: its candidates, and what it may and may not know."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.code.patches import ChangedRange, diff_trees
from collect.code.source import SourceFile, changed_code, place_to_stop, read_source
from collect.errors import ModelFailure
from collect.oracle.candidates import choose, gold_candidate, make_candidates

SOURCE = b'''\
"""Money."""


class Cart:
    """Things to buy."""

    def total(self, rate):
        """With tax."""
        net = sum(item.price for item in self.items)
        if net < self.limit and rate > 0:
            net = net * (1 + rate)
        self.log.append(net)
        return round(net, 2)
'''
GOLD_OF_LATIN = """\
--- a/a.py
+++ b/a.py
@@ -2,1 +2,1 @@
-x = 1
+x = 2
"""
BUNDLED = BundledBenchmark(languages=("python", "java"))
INSTANCES = {instance.id: instance for instance in BUNDLED.instances()}


def answer(location: str, text: str = "it goes wrong") -> str:
    return (
        f"<debug_answer>\n**Question**: where?\n**Answer**: {text}\n**Evidence**: x = 1\n"
        f"**Location**: {location}\n</debug_answer>"
    )


def source(data: bytes = SOURCE) -> SourceFile:
    return read_source("cart.py", data)


@pytest.mark.parametrize(
    ("start", "end", "insertion", "line"),
    [
        (10, 10, False, 10),
        (10, 11, False, 10),
        (9, 10, True, 10),
        (8, 8, False, 9),
        (7, 7, False, 9),
    ],
)
def test_where_to_stop(start: int, end: int, insertion: bool, line: int) -> None:
    place = place_to_stop(source(), ChangedRange("cart.py", start, end, insertion))
    assert (place.line, place.function) == (line, "Cart.total")


def test_probes_change_nothing() -> None:
    assert source().probes(10) == [
        "net < self.limit and rate > 0",
        "net < self.limit",
        "rate > 0",
        "net",
        "self.limit",
        "rate",
        "self",
    ]
    assert "self.log.append(net)" not in source().probes(12)


def test_probes_stay_in_the_frames_scope() -> None:
    lines = "def f(a, b):\n    return sorted(a, key=lambda i: i * b) + [x + 1 for x in a]\n"
    assert source(lines.encode()).probes(2) == ["a"]


def test_probes_are_no_modules_or_functions() -> None:
    lines = (
        "import bisect\ndef f(a, b):\n    return bisect.bisect_left(a, b, key=g)\ndef g(x): ...\n"
    )
    assert source(lines.encode()).probes(3) == ["a", "b"]


def test_assigned_targets() -> None:
    assert source().assigned(11) == ["net"]
    assert source().assigned(12) == []


@pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES)
def test_every_bug_gets_four_candidates_apart(instance: Instance) -> None:
    candidates = make_candidates(instance, 4, random.Random(0))
    assert len(candidates) == 4
    assert gold_candidate(instance) in candidates
    assert len({candidate.place for candidate in candidates}) == 4
    for candidate in candidates:
        for edit in candidate.edits:
            text = instance.files[edit.path].decode()
            assert text.count(edit.old) == 1


def test_candidates_are_in_the_bugs_own_language() -> None:
    bug = next(each for each in INSTANCES.values() if each.language == "python")
    other = next(each for each in INSTANCES.values() if each.language == "java")
    mixed = replace(bug, files={**bug.files, **other.files})
    for seed in range(5):
        paths = {each.line.path for each in make_candidates(mixed, 4, random.Random(seed))}
        assert all(path.endswith(".py") for path in paths)


def test_the_answer_decides() -> None:
    instance = next(iter(INSTANCES.values()))
    candidates = make_candidates(instance, 4, random.Random(1))
    for candidate in candidates:
        chosen = choose(answer(f"`{candidate.place}` (in it)"), candidates, random.Random(2))
        assert chosen is candidate


@pytest.mark.parametrize("text", ["", answer("unknown"), answer("tests/test_x.py:3")])
def test_an_answer_without_a_place_leaves_it_to_chance(text: str) -> None:
    instance = next(iter(INSTANCES.values()))
    candidates = make_candidates(instance, 4, random.Random(1))
    chosen = {id(choose(text, candidates, random.Random(seed))) for seed in range(40)}
    assert len(chosen) == 4


def test_the_order_of_candidates_says_nothing() -> None:
    instance = next(iter(INSTANCES.values()))
    gold = gold_candidate(instance)
    places = {make_candidates(instance, 4, random.Random(s)).index(gold) for s in range(40)}
    assert places == {0, 1, 2, 3}


def test_gold_lies_where_the_patch_does() -> None:
    for instance in INSTANCES.values():
        gold = gold_candidate(instance)
        assert list(gold.ranges) == changed_code(instance.files, instance.gold_patch)
        assert gold.function, f"{instance.id} changes no function"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a.py": "# \xe4\nx = 1\n".encode("latin-1")}, {}, "not UTF-8"),
        ({"a.py": b"x = 1\n"}, {"a.py": b"x = 1\n", "b.py": b"y = 1\n"}, "no line that is there"),
        ({"a.py": b"x = 1\n", "b.py": b"y = 1\n"}, {"a.py": b"x = 1\n"}, "deleting a file"),
    ],
)
def test_a_gold_patch_that_it_can_not_make_is_its_failure(
    old: dict[str, bytes], new: dict[str, bytes], told: str
) -> None:
    bug = next(iter(INSTANCES.values()))
    bug = replace(
        bug, files=old, gold_patch=GOLD_OF_LATIN if told == "not UTF-8" else diff_trees(old, new)
    )
    with pytest.raises(ModelFailure, match=f"can't make the gold patch of {bug.id}: .*{told}"):
        gold_candidate(bug)
