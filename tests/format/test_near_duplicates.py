"""Sessions that are nearly the same."""

from __future__ import annotations

import random

import pytest

from format.config import FormatConfig
from format.duplicates import (
    UNIQUE,
    Duplicates,
    NearDuplicates,
    Signature,
    session_key,
    session_text,
    shingles,
    signature_of,
)
from tests.format.sessions import Session, see, stop


def session(lines: int, seed: int, start: int = 0) -> Session:
    """A session that has read this many lines of seeded words."""
    chance = random.Random(seed)
    made = Session()
    for number in range(lines):
        words = " ".join(f"w{chance.randrange(5_000)}" for _ in range(8))
        made.call("read_file", f"{start + number:>5} {words}", path="a.py", start_line=start)
    return made


def signature(made: Session) -> Signature:
    found = signature_of(made.answer("x"))
    assert found is not None
    return found


def jaccard(one: Session, other: Session) -> float:
    left, right = (set(shingles(session_text(each.answer("x"))).tolist()) for each in (one, other))
    return len(left & right) / len(left | right)


def test_line_numbers_addresses_and_words_between_do_not_count() -> None:
    one = Session("A question").debug(stop(line=42)).debug(see(("n", "<A at 0x7f01>")))
    other = Session("Another").debug(stop(line=57)).debug(see(("n", "<A at 0x8f02>")))
    assert session_text(one.answer("x")) == session_text(other.answer("y"))
    assert jaccard(session(5, 1, start=10), session(5, 1, start=900)) == 1
    more = Session().debug(stop(line=42)).debug(see(("n", "5")))
    assert session_text(one.answer("x")) != session_text(more.answer("x"))


@pytest.mark.parametrize("common", [0, 30, 36, 39, 40])
def test_the_similarity_is_estimated(common: int) -> None:
    one, other = session(40, 1), session(common, 1)
    other.rows += session(40 - common, 2).rows[2:]
    known = NearDuplicates(capacity=8, slots=64)
    known.add(signature(one))
    found = known.find(signature(other))
    assert found == pytest.approx(jaccard(one, other), abs=0.1)
    assert (found > 0.9) is (common >= 39)


def test_the_oldest_are_forgotten_and_memory_is_bounded() -> None:
    known = NearDuplicates(capacity=16, slots=4_096)
    signatures = [signature(session(4, seed)) for seed in range(40)]
    for each in signatures:
        assert known.find(each) < 0.9
        known.add(each)
    found = [known.find(each) for each in signatures]
    assert found[-16:] == [1.0] * 16
    assert max(found[:24]) < 0.9
    assert known._signatures.shape[0] == 16


def test_sessions_that_called_nothing_are_like_none() -> None:
    empty = Session("A question").answer("x"), Session("Another").answer("y")
    assert [signature_of(each) for each in empty] == [None, None]
    duplicates = Duplicates(FormatConfig())
    assert [duplicates.dropped_by(session_key(each), None) for each in empty] == [None, None]
    assert duplicates.dropped_by(session_key(empty[0]), None) == UNIQUE
