"""Preference pairs as rows in TRL's conversational preference format."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from collect.errors import ConfigError
from format.attempts import Attempt, Attempts, prompt_of
from format.candidates import Candidate
from format.config import FormatConfig, PreferencesConfig, Why
from format.rows import Column, Kind, message_object
from format.splits import Splits
from format.turn_quality import trained_turns
from format.writing import Part, PartReport

# Pair the attempts at each question.


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
    """The pairs of one question, independent of the order of attempts; each attempt in as few pairs
    as the limit allows."""
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


# Store texts by name in a file, to combine texts that are far apart in a run.


class Spool:
    """Stores JSON objects by name, and returns them in any order."""

    def __init__(self, file: IO[bytes]) -> None:
        """`file` is empty, and open for writing and reading."""
        self._file = file
        self._places: dict[str, int] = {}

    def put(self, name: str, value: dict[str, Any]) -> None:
        """Store an object."""
        self._places[name] = self._file.seek(0, 2)
        self._file.write(json.dumps(value).encode() + b"\n")

    def get(self, name: str) -> dict[str, Any]:
        """A stored object. Raises KeyError."""
        self._file.seek(self._places[name])
        value: dict[str, Any] = json.loads(self._file.readline())
        return value


COLUMNS = {
    "prompt": Column("the messages that both attempts begin with", Kind.OBJECTS),
    "chosen": Column("the rest of the better attempt", Kind.OBJECTS),
    "rejected": Column("the rest of the worse attempt", Kind.OBJECTS),
    "tools": Column("JSON schemas of the tools that both were given", Kind.OBJECTS),
    "why": Column(
        "correct: the worse one's answer is missing, was scored as wrong, or claims what was not "
        "observed; shorter: both are right"
    ),
    "chosen_trained_turns": Column(
        "for each assistant message of the better attempt, in order, whether it is trained on",
        Kind.FLAGS,
    ),
    "chosen_turns": Column("assistant messages of the better attempt", Kind.INTEGER),
    "rejected_turns": Column("assistant messages of the worse attempt", Kind.INTEGER),
    "chosen_id": Column("the better conversation's id in the run"),
    "rejected_id": Column("the worse conversation's id in the run"),
    "chosen_model": Column("which model held the better conversation"),
    "rejected_model": Column("which model held the worse conversation"),
    "question_id": Column("the runtime question's id; null where it is not known, or is none"),
    "benchmark": Column("where the bug is from"),
    "instance_id": Column("the bug"),
    "repository": Column("what the splits keep together"),
    "language": Column("python or java"),
}
PREFERENCES = Part(
    "preferences",
    COLUMNS,
    "why",
    "Pairs of attempts at the same question about the same bug, as `prompt`, `chosen`, `rejected` "
    "and `tools` for TRL's `DPOTrainer`. What the tools answered is part of both sides: mask it.",
)


def write_preferences(
    config: FormatConfig,
    attempts: Attempts,
    source: Iterable[Candidate],
    splits: Splits,
    sft: Path,
) -> PartReport:
    """Write the dataset below the `sft` folder. Raises ConfigError if there are no pairs."""
    assert config.preferences is not None
    pairs = list(choose_pairs(config.preferences, attempts.by_question))
    if not pairs:
        raise ConfigError(_no_pair(attempts))
    splits.extend(pair.chosen.repository for pair in pairs)
    with TemporaryFile(dir=sft) as file:
        spool = Spool(file)
        _fill(spool, pairs, source, config)
        rows = ((splits.of(pair.chosen.repository), _row(pair, spool)) for pair in pairs)
        return PREFERENCES.write(sft, config, config.preferences, rows)


def _no_pair(attempts: Attempts) -> str:
    questions = attempts.by_question.values()
    several = sum(len(each) > 1 for each in questions)
    right = sum(attempt.right for each in questions for attempt in each)
    wrong = sum(map(len, questions)) - right
    return (
        f"format.preferences finds no pair: of {len(questions)} questions {several} have more than "
        f"one attempt to compare; {right} attempts are right and {wrong} wrong. Answer with "
        "several models (questions.answer_with: [a, b]) or several attempts (questions.attempts) "
        "of one that samples, or leave format.preferences out"
    )


def _fill(
    spool: Spool, pairs: Sequence[Pair], source: Iterable[Candidate], config: FormatConfig
) -> None:
    needed = {
        name
        for pair in pairs
        for name in (pair.chosen.conversation_id, pair.rejected.conversation_id)
    }
    for candidate in source:
        if candidate.conversation.conversation_id in needed:
            spool.put(candidate.conversation.conversation_id, _side(candidate, config))


def _side(candidate: Candidate, config: FormatConfig) -> dict[str, Any]:
    """The fields of a row for one attempt."""
    conversation = candidate.conversation
    return {
        "messages": [
            message_object(row.message, config.reasoning) for row in conversation.messages
        ],
        "shared": len(prompt_of(conversation)),
        "tools": json.loads(conversation.tools),
        "trained_turns": list(trained_turns(candidate.turn_quality, config.masked_turns)),
        "model": conversation.model,
        "benchmark": conversation.benchmark,
        "instance_id": conversation.instance_id,
        "language": candidate.outcome.language,
    }


def _row(pair: Pair, spool: Spool) -> dict[str, Any]:
    chosen = spool.get(pair.chosen.conversation_id)
    rejected = spool.get(pair.rejected.conversation_id)
    shared = chosen["shared"]
    return {
        "prompt": chosen["messages"][:shared],
        "chosen": chosen["messages"][shared:],
        "rejected": rejected["messages"][shared:],
        "tools": chosen["tools"],
        "why": pair.why.value,
        "chosen_trained_turns": chosen["trained_turns"],
        "chosen_turns": pair.chosen.turns,
        "rejected_turns": pair.rejected.turns,
        "chosen_id": pair.chosen.conversation_id,
        "rejected_id": pair.rejected.conversation_id,
        "chosen_model": chosen["model"],
        "rejected_model": rejected["model"],
        "question_id": pair.chosen.question_id,
        "repository": pair.chosen.repository,
        **{name: chosen[name] for name in ("benchmark", "instance_id", "language")},
    }
