"""A further dataset of a run: preference pairs of attempts at one question, in TRL's conversational
preference format."""

from __future__ import annotations

import hashlib
import json
import shelve
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from dbm import dumb
from itertools import chain, takewhile
from pathlib import Path
from sys import intern
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from collect.control_tokens import OF_KNOWN_FAMILIES
from collect.errors import ConfigError
from collect.questions.asking import VARIANT
from collect.store.messages import Message
from collect.store.records import Conversation, Role
from format.candidates import Candidate, Candidates, exact_arguments, grounded, within_length
from format.config import FormatConfig, Leak, PreferencesConfig, Why
from format.dataset import COLUMNS, TEST, TRAIN, Column, Splits, SplitWriter, message_object
from format.duplicates import session_key
from format.report import column_table, fenced, markdown_table, write_readme

NEVER = ("role", "not_held_out", "no_failure")
"""Conversations that these filters drop are in no pair."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A conversation that can be a side of a pair: short facts, no texts."""

    conversation_id: str
    model: str
    repository: str
    question_id: str | None
    right: bool
    """Whether it can be the better side; else it can only be the worse one."""
    turns: int
    """Number of assistant messages."""
    question: bytes
    """Equal for attempts at the same question about the same bug, with the same tools."""
    said: bytes
    """Equal for conversations with the same text."""
    answer: bytes
    """Equal for equal answers; empty if there is none."""


def attempt_of(candidate: Candidate, dropped_by: str | None) -> Attempt | None:
    """A conversation's role in a pair; None if it fits in none, as all but those of
    Debug Subagents that were asked while the workspace was unchanged.

    `dropped_by` is the filter that dropped it; being a duplicate does not matter.
    """
    conversation, outcome = candidate.said, candidate.outcome
    right = dropped_by is None and outcome.resolved
    if (
        conversation.role is not Role.DEBUG_SUBAGENT
        or not candidate.asked_early
        or dropped_by in NEVER
        or not (right or _is_wrong(candidate))
    ):
        return None
    prompt = [[message.role, message.content] for message in _prompt_of(conversation)]
    bug = [conversation.benchmark, conversation.instance_id, outcome.instance_hash]
    question = json.dumps([bug, outcome.question_id, conversation.tools, prompt])
    return Attempt(
        conversation.conversation_id,
        intern(conversation.model),
        intern(conversation.repository),
        outcome.question_id,
        right,
        sum(row.message.role == "assistant" for row in conversation.messages),
        _digest(question),
        session_key(conversation)[:16],
        _digest(repr(conversation.answer)) if conversation.answer else b"",
    )


def _is_wrong(candidate: Candidate) -> bool:
    """Whether it ended in a worse answer (missing, ungrounded, or scored as wrong), and can be used
    as recorded.

    If a main agent asked, the outcome is that of its patch, and says nothing about the answer.
    """
    conversation = candidate.conversation
    scored_wrong = conversation.variant == VARIANT and not candidate.outcome.resolved
    last = conversation.messages[-1].message if conversation.messages else None
    return (
        (scored_wrong or conversation.answer is None or not grounded(candidate))
        and last is not None
        and last.role == "assistant"
        and not last.tool_calls
        and exact_arguments(candidate)
        and within_length(candidate)
        and not set(candidate.leaks) - {Leak.ORACLE}
    )


def _prompt_of(conversation: Conversation) -> list[Message]:
    messages = (row.message for row in conversation.messages)
    return list(takewhile(lambda message: message.role != "assistant", messages))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


Attempts = dict[tuple[bytes, bytes], Attempt]
"""The attempts of a run by `question` and `said`: only the first of equal conversations."""


@dataclass(frozen=True, slots=True)
class Pair:
    why: Why
    chosen: Attempt
    rejected: Attempt

    @property
    def ids(self) -> tuple[str, str]:
        return self.chosen.conversation_id, self.rejected.conversation_id


def choose_pairs(
    config: PreferencesConfig, by_question: Mapping[bytes, Sequence[Attempt]]
) -> Iterator[Pair]:
    """The pairs of all questions, each within the config's limits, independent of the order of
    attempts; each attempt in as few pairs as the limit allows."""
    for attempts in by_question.values():
        uses: Counter[str] = Counter()
        left = config.per_question
        for why in config.why:
            possible = _possible(why, config, attempts)
            possible.sort(key=lambda pair: _digest(f"{config.seed}:{':'.join(pair.ids)}"))
            while possible and left:
                pair = min(possible, key=lambda each: sum(uses[name] for name in each.ids))
                possible.remove(pair)
                uses.update(pair.ids)
                left -= 1
                yield pair


def _possible(why: Why, config: PreferencesConfig, attempts: Sequence[Attempt]) -> list[Pair]:
    better = [each for each in attempts if each.right]
    worse = [each for each in attempts if each.right is (why is Why.SHORTER)]
    pairs = [
        Pair(why, a, b)
        for a in better
        for b in worse
        if a.model in (config.chosen_from or (b.model,))
    ]
    if why is Why.CORRECT:
        return [pair for pair in pairs if pair.chosen.answer != pair.rejected.answer]
    share = config.shorter_share
    return [pair for pair in pairs if pair.chosen.turns <= share * pair.rejected.turns]


PAIR_COLUMNS = {
    "prompt": Column("the messages that both attempts begin with", "objects"),
    "chosen": Column("the rest of the better attempt", "objects"),
    "rejected": Column("the rest of the worse attempt", "objects"),
    "tools": Column("JSON schemas of the tools that both were given", "objects"),
    "why": Column(
        "correct: the worse one's answer is missing, was scored as wrong, or claims what was not "
        "observed; shorter: both are right"
    ),
    "chosen_trained_turns": Column(
        "for each assistant message of the better attempt, in order, whether it is trained on",
        "flags",
    ),
    "chosen_turns": Column("assistant messages of the better attempt", "integer"),
    "rejected_turns": Column("assistant messages of the worse attempt", "integer"),
    "chosen_id": Column("the better conversation's id in the run"),
    "rejected_id": Column("the worse conversation's id in the run"),
    "chosen_model": Column("which model held the better conversation"),
    "rejected_model": Column("which model held the worse conversation"),
    "question_id": Column("the runtime question's id; null where it is not known, or is none"),
    **{name: COLUMNS[name] for name in ("benchmark", "instance_id", "repository", "language")},
}
PREFERENCES = "preferences"
"""The folder, below `sft`."""
INTRODUCTION = (
    "Pairs of attempts at the same question about the same bug, as `prompt`, `chosen`, `rejected` "
    "and `tools` for TRL's `DPOTrainer`. What the tools answered is part of both sides: mask it."
)


def write_preferences(
    config: FormatConfig,
    attempts: Attempts,
    source: Candidates,
    splits: Splits,
    sft: Path,
) -> dict[str, int]:
    """Write the dataset below the `sft` folder; returns rows by split.

    Raises ConfigError if there are no pairs.
    """
    assert config.preferences is not None
    by_question: dict[bytes, list[Attempt]] = defaultdict(list)
    for attempt in attempts.values():
        by_question[attempt.question].append(attempt)
    pairs = list(choose_pairs(config.preferences, by_question))
    if not pairs:
        several = sum(len(each) > 1 for each in by_question.values())
        right = sum(attempt.right for attempt in attempts.values())
        wrong = len(attempts) - right
        raise ConfigError(
            f"format.preferences finds no pair: of {len(by_question)} questions {several} have "
            f"more than one attempt to compare; {right} attempts are right and {wrong} wrong. "
            "Let a model that samples make several attempts (questions.attempts), or take another "
            "model's right answers (questions.answer_with: [a, b] and "
            "format.preferences.chosen_from: [b]), or leave format.preferences out"
        )
    needed = {name for pair in pairs for name in pair.ids}
    folder = sft / PREFERENCES
    counts: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                closing(SplitWriter(folder, name, PAIR_COLUMNS, config.arguments))
            )
            for name in (TRAIN, TEST)
        }
        # The sides of a pair may be far apart in the run, so their texts wait in a file.
        texts = stack.enter_context(TemporaryDirectory(dir=sft))
        file = stack.enter_context(dumb.open(f"{texts}/sides"))
        sides: shelve.Shelf[dict[str, Any]] = shelve.Shelf(file)  # type: ignore[arg-type]
        for candidate in chain.from_iterable(source.rollouts()):
            if candidate.conversation.conversation_id in needed:
                sides[candidate.conversation.conversation_id] = _side(candidate)
        for pair in pairs:
            split = splits.of(pair.chosen.repository)
            writers[split].add(_row(pair, *(sides[name] for name in pair.ids)))
            counts.setdefault(split, Counter())[pair.why.value] += 1
    return _write_card(folder, config, counts)


def _write_card(
    folder: Path, config: FormatConfig, counts: dict[str, Counter[str]]
) -> dict[str, int]:
    """Write the dataset's card, of the counts by split and `why`; returns rows by split."""
    assert config.preferences is not None
    counts = {name: counts[name] for name in (TRAIN, TEST) if name in counts}
    totals = {name: found.total() for name, found in counts.items()}
    kinds = sorted(set().union(*counts.values()))
    table = [
        [name, f"{totals[name]:,}", *(f"{found[kind]:,}" for kind in kinds)]
        for name, found in counts.items()
    ]
    sections = {
        "Splits": "By repository, as those of the conversations.\n\n"
        + markdown_table(["split", "rows", *kinds], table),
        "Columns": column_table(PAIR_COLUMNS),
        "Config": fenced("yaml", yaml.safe_dump(config.preferences.model_dump(mode="json"))),
    }
    settings = config.model_dump(mode="json") | {"name": f"{config.name}: {PREFERENCES}"}
    write_readme(folder, settings, INTRODUCTION, sections)
    return totals


def _side(candidate: Candidate) -> dict[str, Any]:
    conversation, config = candidate.said, candidate.config
    messages = [
        OF_KNOWN_FAMILIES.marked(message_object(row.message, config.reasoning))
        for row in conversation.messages
    ]
    shared = len(_prompt_of(conversation))
    return {
        "prompt": messages[:shared],
        "rest": messages[shared:],
        "tools": json.loads(conversation.tools),
        "trained_turns": list(candidate.trained),
        "model": conversation.model,
        "benchmark": conversation.benchmark,
        "instance_id": conversation.instance_id,
        "language": candidate.outcome.language,
    }


def _row(pair: Pair, chosen: dict[str, Any], rejected: dict[str, Any]) -> dict[str, Any]:
    named = ("prompt", "tools", "benchmark", "instance_id", "language")
    return {name: chosen[name] for name in named} | {
        "chosen": chosen["rest"],
        "rejected": rejected["rest"],
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
    }
