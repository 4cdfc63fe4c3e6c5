"""Detect conversations that repeat earlier ones, by a small fingerprint of each.

Nearly equal sessions are found by MinHash with bands (Broder 1997; Leskovec, Rajaraman and Ullman,
"Mining of Massive Datasets", chapter 3). Memory is limited: only the latest `CAPACITY` sessions are
remembered, in arrays that fill up to some 400 MB. Compares calls and answers, not what the agent
said in between; ignores line numbers and addresses.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collect.store.records import Conversation
from format.config import FormatConfig

CAPACITY = 1 << 20
"""Maximum number of sessions remembered, a power of two."""
SLOTS = 1 << 21
"""Slots of each band's table; of two sessions in one slot, only the newer is found."""
BANDS, ROWS = 16, 4
"""Two sessions with 80% in common share a band with a probability of 0.9998."""
SHINGLE = 5
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier for the positions of words in a shingle (2**64 over the golden ratio)."""
HALF = np.uint64(32)
_NUMBERS = np.random.default_rng(20_251_130)
FACTORS = _NUMBERS.integers(1 << 64, size=(BANDS * ROWS, 1), dtype=np.uint64) | np.uint64(1)
OFFSETS = _NUMBERS.integers(1 << 64, size=(BANDS * ROWS, 1), dtype=np.uint64)
NUMBERS_OF_LINES = re.compile(
    r"(?<=\.py:)\d+|(?<=\.java:)\d+|^(?:->)?[ *]*\d+(?=\s)|\blines?\W+\d+|"
    r"\"(?:start|end)_line\": ?\d+|0x[0-9a-fA-F]+|\b\d+\.\d+ ?s\b",
    re.MULTILINE,
)
WORD = re.compile(r"\w+|[^\w\s]")

Signature = NDArray[np.uint32]
Hashes = NDArray[np.uint64]


class NearDuplicates:
    def __init__(self, capacity: int = CAPACITY, slots: int = SLOTS) -> None:
        self._capacity, self._slots = capacity, slots
        # The system gives it memory as it is filled.
        self._signatures = np.zeros((capacity, BANDS * ROWS), dtype=np.uint32)
        self._tables = np.zeros((BANDS, slots), dtype=np.uint32)
        self._count = 0

    def find(self, signature: Signature) -> float:
        """Similarity to the nearest remembered session, from 0 to 1, as far as known."""
        slots = self._tables[self._places(signature)]
        known = np.unique(slots[slots > 0]) - 1
        same = (self._signatures[known] == signature).mean(axis=1)
        return float(same.max(initial=0))

    def add(self, signature: Signature) -> None:
        place = self._count % self._capacity
        self._signatures[place] = signature
        self._tables[self._places(signature)] = place + 1
        self._count += 1

    def _places(self, signature: Signature) -> Any:
        bands = signature.reshape(BANDS, ROWS)
        return np.arange(BANDS), [zlib.crc32(band.tobytes()) % self._slots for band in bands]


def signature_of(conversation: Conversation) -> Signature | None:
    """The signature of a session's calls and answers: the share of equal numbers in two signatures
    estimates the share of common shingles (Jaccard similarity). None if there are none."""
    hashes = shingles(session_text(conversation))
    if not hashes.size:
        return None
    # Multiply-shift (Dietzfelbinger et al. 1997): the upper half of the products, modulo 2**64.
    mixed = FACTORS * hashes[None, :] + OFFSETS
    return np.asarray(mixed.min(axis=1) >> HALF, dtype=np.uint32)


def session_text(conversation: Conversation) -> str:
    """Calls and answers, without line numbers and addresses."""
    parts: list[str] = []
    for row in conversation.messages:
        message = row.message
        parts += [f"{call.name} {call.arguments}" for call in message.tool_calls]
        acts_in_text = message.role == "assistant" and conversation.tools == "[]"
        if acts_in_text or message.role == "tool" or row.tool_outcome is not None:
            parts.append(message.content)
    return NUMBERS_OF_LINES.sub("", "\n".join(parts))


def shingles(text: str) -> Hashes:
    """The distinct shingles of a text, as 32-bit numbers."""
    words = WORD.findall(text)
    numbers = {word: zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in set(words)}
    hashes = np.fromiter((numbers[word] for word in words), np.uint64, len(words))
    return np.unique(runs_of(hashes, max(1, min(SHINGLE, len(words)))) * FACTOR >> HALF)


def runs_of(words: Hashes, length: int) -> Hashes:
    """A 64-bit hash of every run of `length` words, from a hash of each word, in order; empty if
    there are fewer words."""
    count = max(0, len(words) - length + 1)
    runs = np.zeros(count, np.uint64)
    for start in range(length if count else 0):
        runs = runs * FACTOR + words[start : start + count]
    return runs


UNIQUE, NOT_NEAR_DUPLICATE = "unique", "not_near_duplicate"
RULES = {
    UNIQUE: "No row before it has the same messages, call ids aside (`deduplicate`).",
    NOT_NEAR_DUPLICATE: "At most `max_similarity` of what was called and answered, line numbers "
    "aside, is the same as in a session before it.",
}
"""The last steps of the funnel, with the condition that kept conversations meet."""


class Duplicates:
    def __init__(self, config: FormatConfig) -> None:
        self._config = config
        self._seen: set[bytes] = set()
        self._known = NearDuplicates()

    def dropped_by(self, key: bytes, signature: Signature | None) -> str | None:
        """The rule in `RULES` that drops a conversation with this `session_key` and
        `signature_of`; None if it is kept."""
        if self._config.deduplicate:
            if key in self._seen:
                return UNIQUE
            self._seen.add(key)
        most = self._config.max_similarity
        if most is None or signature is None:
            return None
        if self._known.find(signature) > most:
            return NOT_NEAR_DUPLICATE
        self._known.add(signature)
        return None


def session_key(conversation: Conversation) -> bytes:
    """Hash of everything said and called, without call ids, which differ in every run."""
    said = [
        [row.message.role, row.message.content, row.message.reasoning, row.message.name]
        + [[call.name, call.arguments] for call in row.message.tool_calls]
        for row in conversation.messages
    ]
    return hashlib.sha256(json.dumps(said).encode()).digest()
