"""Which attempts at a question are put against each other."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from format.config import PreferencesConfig, Why
from format.preferences.attempts import Attempt


@dataclass(frozen=True, slots=True)
class Pair:
    """A better and a worse attempt at one question."""

    why: Why
    chosen: Attempt
    rejected: Attempt


def choose_pairs(
    config: PreferencesConfig, by_question: Mapping[bytes, Sequence[Attempt]]
) -> Iterator[Pair]:
    """The pairs of all questions, each within the config's limits."""
    for attempts in by_question.values():
        yield from _of_question(config, attempts)


def _of_question(config: PreferencesConfig, attempts: Sequence[Attempt]) -> Iterator[Pair]:
    """The same pairs for the same attempts, in whatever order they come; each attempt in as few of
    them as the limit allows."""
    uses: Counter[str] = Counter()
    left = config.per_question
    for why in config.why:
        possible = sorted(_possible(why, config, attempts), key=lambda pair: _rank(config, pair))
        while possible and left:
            pair = min(possible, key=lambda each: sum(uses[name] for name in _ids(each)))
            possible.remove(pair)
            uses.update(_ids(pair))
            left -= 1
            yield pair


def _possible(why: Why, config: PreferencesConfig, attempts: Sequence[Attempt]) -> list[Pair]:
    right = [each for each in attempts if each.right]
    if why is Why.CORRECT:
        wrong = [each for each in attempts if not each.right]
        both = ((better, worse) for better in right for worse in wrong)
        return [Pair(why, *pair) for pair in both if pair[0].answer != pair[1].answer]
    return [
        Pair(why, short, long)
        for short in right
        for long in right
        if short.turns <= config.shorter_share * long.turns
    ]


def _ids(pair: Pair) -> tuple[str, str]:
    return pair.chosen.conversation_id, pair.rejected.conversation_id


def _rank(config: PreferencesConfig, pair: Pair) -> bytes:
    return hashlib.sha256(f"{config.seed}:{':'.join(_ids(pair))}".encode()).digest()
