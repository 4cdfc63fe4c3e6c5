"""Word n-grams as hashes, and an index of which of them were seen.

What is compared are runs of N words, lower case, without white space, punctuation and the line
numbers that tools put before code: N = 13 words, as GPT-3's authors (arXiv:2005.14165, appendix C)
and most after them. In code that is two to four lines. Punctuation doesn't count as a word, or 13
of them would be one line, `for i in range(len(x)):`, which any program may share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from collect.patches import PatchError
from collect.unified import Hunk, parse

WORDS = 13
Hashes = NDArray[np.uint64]
"""One hash of 64 bits for each n-gram. They hold for this process alone, as Python's own do."""
NONE = np.empty(0, np.uint64)

_WORD = re.compile(r"\w+")
_LINE_NUMBER = re.compile(r"^[ \t]*\d+[ \t]*[:|>]?(?=\s)", re.MULTILINE)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SIEVE_BITS = 22


def words(text: str) -> list[str]:
    """The words that n-grams are made of."""
    return _WORD.findall(_LINE_NUMBER.sub("", text).lower())


def ngrams(found: Sequence[str], length: int = WORDS) -> Hashes:
    """The hash of every run of so many words, in order; none where there are fewer."""
    count = len(found) - length + 1
    if count < 1:
        return NONE
    each = np.fromiter(map(hash, found), np.int64, len(found)).astype(np.uint64)
    total = np.zeros(count, np.uint64)
    for start in range(length):
        total = total * _FACTOR + each[start : start + count]
    return total


def changed_ngrams(patch: str, length: int = WORDS) -> Hashes:
    """Those of the text after a patch that the text before has not, each once: they give the fix
    away.

    The lines around a change are of the repository, which other bugs have too. None where the patch
    is not a unified diff.
    """
    hunks = _hunks(patch)
    before = _joined(ngrams(words("".join(hunk.old)), length) for hunk in hunks)
    after = _joined(ngrams(words("".join(hunk.new)), length) for hunk in hunks)
    return np.setdiff1d(after, before)


def patch_texts(patch: str) -> list[str]:
    """A patch as the texts before and after it; as it stands where it is not a unified diff."""
    hunks = _hunks(patch)
    sides = [side for hunk in hunks for side in (hunk.old, hunk.new)]
    return ["".join(lines) for lines in sides] or [patch]


class SeenNgrams:
    """Which of a fixed set of n-grams a stream of texts has, and which text had it first.

    Memory goes with the set, not with the stream: about 20 bytes an n-gram.
    """

    def __init__(self, wanted: Iterable[Hashes]) -> None:
        self._wanted = np.unique(_joined(wanted))
        self._first = np.full(len(self._wanted), -1, np.int32)
        self._sources: list[str] = []
        # Most n-grams of a stream are not wanted: one look at a small table rules them out.
        self._sieve = np.zeros(1 << _SIEVE_BITS, np.bool_)
        self._sieve[self._wanted >> np.uint64(64 - _SIEVE_BITS)] = True

    def see(self, found: Hashes, source: str) -> None:
        """Note the n-grams of a text; `source` names it."""
        found = found[self._sieve[found >> np.uint64(64 - _SIEVE_BITS)]]
        if not len(found):
            return
        places = np.minimum(np.searchsorted(self._wanted, found), len(self._wanted) - 1)
        places = places[self._wanted[places] == found]
        new = places[self._first[places] < 0]
        if len(new):
            if not self._sources or self._sources[-1] != source:
                self._sources.append(source)
            self._first[new] = len(self._sources) - 1

    def shared(self, wanted: Hashes) -> tuple[int, str]:
        """How many of some of the set were seen, and in which text the most of them first."""
        first = self._first[np.searchsorted(self._wanted, wanted)]
        first = first[first >= 0]
        if not len(first):
            return 0, ""
        return len(first), self._sources[int(np.bincount(first).argmax())]


def _joined(parts: Iterable[Hashes]) -> Hashes:
    return np.concatenate([NONE, *parts])


def _hunks(patch: str) -> list[Hunk]:
    try:
        return [hunk for file in parse(patch) for hunk in file.hunks]
    except PatchError:
        return []
