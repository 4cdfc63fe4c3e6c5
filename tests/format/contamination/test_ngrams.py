"""Word n-grams, and which of them a stream of texts has."""

from __future__ import annotations

import random

import numpy as np
import pytest

from collect.code.patches import diff_trees
from format.contamination import SeenNgrams, Shared, changed_ngrams, ngrams, patch_texts, words

BEFORE = "def total(numbers):\n    first = numbers[0]\n    return sum(numbers[:-1])\n"
AFTER = BEFORE.replace("[:-1]", "[first:]")
PATCH = diff_trees({"x.py": BEFORE.encode()}, {"x.py": AFTER.encode()})


def hashes(text: str, length: int = 3) -> list[int]:
    return [int(each) for each in ngrams(words(text), length)]


@pytest.mark.parametrize(
    "other",
    [
        "Return  the\n\tSUM of: all numbers!",
        "  1 return the\n 22: sum of\n333\tall (numbers)",
        "12 | return the\n13 > sum of all\n14   numbers",
    ],
)
def test_white_space_case_punctuation_and_line_numbers_do_not_count(other: str) -> None:
    assert hashes(other) == hashes("return the sum of all numbers")


def test_the_order_and_the_numbers_within_a_line_do() -> None:
    text = "return the sum of 3 numbers"
    assert hashes("the return sum of 3 numbers") != hashes(text)
    assert not set(hashes("return 2 sum of 4 numbers")) & set(hashes(text))
    assert len(hashes(text)) == 4
    assert hashes("too short") == []


def test_of_a_patch_only_what_goes_through_a_change() -> None:
    changed = {int(each) for each in changed_ngrams(PATCH, 3)}
    assert changed == {*hashes("sum numbers first")}
    removal = diff_trees({"x.py": AFTER.encode()}, {"x.py": b"def total(numbers):\n"})
    assert len(changed_ngrams(removal, 3)) == 0
    inner = "a b c\nd e f\ng h i\n"
    cut = diff_trees({"x.py": inner.encode()}, {"x.py": b"a b c\ng h i\n"})
    assert {int(each) for each in changed_ngrams(cut, 3)} == {*hashes("b c g"), *hashes("c g h")}
    assert len(changed_ngrams("not a diff", 3)) == 0


def test_the_sides_of_a_patch() -> None:
    assert patch_texts(PATCH) == [BEFORE, AFTER]
    assert patch_texts("not a diff") == ["not a diff"]


def test_what_was_seen_and_where_first() -> None:
    one, other = "a b c d e f", "u v w x y z"
    seen = SeenNgrams([ngrams(words(one), 3), ngrams(words(other), 3)])
    seen.see(ngrams(words("b c d 1 2"), 3), "first")
    seen.see(ngrams(words("A, B, C, D, E"), 3), "second")
    seen.see(ngrams(words("p q r s t"), 3), "third")
    seen.see(ngrams([], 3), "empty")
    assert seen.shared(ngrams(words(one), 3)) == Shared(shared=3, of=4, first_in="second")
    assert seen.shared(ngrams(words(other), 3)) == Shared(shared=0, of=4)


def test_it_counts_as_sets_do() -> None:
    chance = random.Random(3)
    texts = [" ".join(chance.choices("abcdef", k=60)) for _ in range(40)]
    wanted, stream = texts[:20], texts[20:]
    seen = SeenNgrams(np.unique(ngrams(words(text), 4)) for text in wanted)
    for text in stream:
        seen.see(ngrams(words(text), 4), text)
    known = {each for text in stream for each in hashes(text, 4)}
    for text in wanted:
        own = np.unique(ngrams(words(text), 4))
        assert seen.shared(own).shared == len({*hashes(text, 4)} & known)


def test_nothing_wanted_is_nothing_seen() -> None:
    seen = SeenNgrams([])
    seen.see(ngrams(words("a b c d"), 3), "x")
    assert seen.shared(ngrams([], 3)) == Shared(shared=0, of=0)
