"""Further datasets of a run: preference pairs of attempts at one question, in TRL's conversational
preference format; and questions as prompts for training with rewards."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from sys import intern
from tempfile import TemporaryFile
from typing import Any

import yaml
from pydantic import BaseModel

from collect.agents.config import AgentsConfig
from collect.benchmarks.held_out import HeldOut
from collect.errors import ConfigError
from collect.question_records import Question, read_questions
from collect.questions.asking import VARIANT, opening_messages, tool_schemas
from collect.questions.building import DEFAULT_NAME
from collect.store.messages import Message
from collect.store.records import Conversation, Role
from format.candidates import Candidate, Candidates, exact_arguments, grounded, within_length
from format.config import FormatConfig, PreferencesConfig, PromptsConfig, Why
from format.dataset import COLUMNS, TEST, TRAIN, Column, Splits, SplitWriter, message_object
from format.duplicates import session_key
from format.leaks import Leak
from format.report import column_table, fenced, markdown_table, write_readme
from format.turn_quality import trained_turns

Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    name: str
    """Name of its folder, also in its title."""
    columns: dict[str, Column]
    about: str
    """The column by whose values rows are counted."""
    introduction: str

    def write(
        self, sft: Path, config: FormatConfig, section: BaseModel, rows: Iterable[tuple[str, Row]]
    ) -> dict[str, int]:
        """Write rows, each with its split, below the `sft` folder, with a report and a card.

        `section` is the config section that produced them. Returns the number of rows by split.
        """
        folder = sft / self.name
        counts: dict[str, Counter[str]] = {TRAIN: Counter(), TEST: Counter()}
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(
                    closing(SplitWriter(folder, name, self.columns, config.arguments))
                )
                for name in counts
            }
            for split, row in rows:
                writers[split].add(row)
                counts[split][row[self.about]] += 1
        counts = {name: found for name, found in counts.items() if found}
        totals = {name: found.total() for name, found in counts.items()}
        report = {"rows": counts, "config": section.model_dump(mode="json")}
        (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
        kinds = sorted(set().union(*counts.values()))
        table = [
            [name, f"{totals[name]:,}", *(f"{found[kind]:,}" for kind in kinds)]
            for name, found in counts.items()
        ]
        sections = {
            "Splits": "By repository, as those of the conversations.\n\n"
            + markdown_table(["split", "rows", *kinds], table),
            "Columns": column_table(self.columns),
            "Config": fenced("yaml", yaml.safe_dump(report["config"])),
        }
        settings = config.model_dump(mode="json") | {"name": f"{config.name}: {self.name}"}
        write_readme(folder, settings, totals, self.introduction, sections)
        return totals


# Pairs.


NEVER = ("role", "not_held_out", "no_failure")
"""Conversations that these filters drop are in no pair."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A conversation that can be a side of a pair: short facts, no texts."""

    conversation_id: str
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
    conversation, outcome = candidate.conversation, candidate.outcome
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
    right = [each for each in attempts if each.right]
    if why is Why.CORRECT:
        wrong = [each for each in attempts if not each.right]
        both = [(better, worse) for better in right for worse in wrong]
        return [Pair(why, *pair) for pair in both if pair[0].answer != pair[1].answer]
    both = [(short, long) for short in right for long in right]
    return [Pair(why, a, b) for a, b in both if a.turns <= config.shorter_share * b.turns]


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
PREFERENCES = Part(
    "preferences",
    PAIR_COLUMNS,
    "why",
    "Pairs of attempts at the same question about the same bug, as `prompt`, `chosen`, `rejected` "
    "and `tools` for TRL's `DPOTrainer`. What the tools answered is part of both sides: mask it.",
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
            "Answer with several models (questions.answer_with: [a, b]) or several attempts "
            "(questions.attempts) of one that samples, or leave format.preferences out"
        )
    splits.extend(pair.chosen.repository for pair in pairs)
    needed = {name for pair in pairs for name in pair.ids}
    # The sides of a pair may be far apart in the run, so their texts wait in a file.
    with TemporaryFile(dir=sft) as file:
        places: dict[str, int] = {}
        for candidate in chain.from_iterable(source.rollouts()):
            name = candidate.conversation.conversation_id
            if name in needed:
                places[name] = file.tell()
                file.write(json.dumps(_side(candidate)).encode() + b"\n")

        def row(pair: Pair) -> dict[str, Any]:
            sides = []
            for name in pair.ids:
                file.seek(places[name])
                sides.append(json.loads(file.readline()))
            return _row(pair, *sides)

        rows = ((splits.of(pair.chosen.repository), row(pair)) for pair in pairs)
        return PREFERENCES.write(sft, config, config.preferences, rows)


def _side(candidate: Candidate) -> dict[str, Any]:
    conversation, config = candidate.conversation, candidate.config
    messages = [message_object(row.message, config.reasoning) for row in conversation.messages]
    shared = len(_prompt_of(conversation))
    return {
        "prompt": messages[:shared],
        "rest": messages[shared:],
        "tools": json.loads(conversation.tools),
        "trained_turns": list(trained_turns(candidate.turn_quality, config.masked_turns)),
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


# Questions as prompts: what a Debug Subagent would be asked.


PROMPT_COLUMNS = {
    "prompt": Column("the system's and the user's message to the Debug Subagent", "objects"),
    "tools": Column("JSON schemas of its tools", "objects"),
    "question_id": Column("the question's id"),
    "question": Column("its whole record as JSON, with the true answer: for the scorer alone"),
    "category": Column("what it asks for"),
    "benchmark": Column("where the bug is from"),
    "instance_id": Column("the bug"),
    "instance_hash": Column("its version"),
    "repository": Column("what the splits keep together"),
    "language": Column("python or java"),
}
NAMED = ("category", "benchmark", "instance_id", "instance_hash", "repository", "language")
PROMPTS = Part(
    "prompts",
    PROMPT_COLUMNS,
    "category",
    "Questions about a program's run, whose true answers were measured, as `prompt` for training "
    "by rewards. Only a debug session on the bug, with the question's patch, answers them.",
)


def choose_questions(config: PromptsConfig, run: Path, held_out: HeldOut) -> list[Question]:
    """At most `per_bug` of the file's questions of each bug, in file order, without those on
    held-out bugs. Raises ConfigError."""
    path = Path(config.questions) if config.questions is not None else run / DEFAULT_NAME
    questions = without_held_out(read_questions(path), held_out, path)
    if config.per_bug is None:
        return questions
    kept: set[str] = set()
    counts: Counter[str] = Counter()
    for each in sorted(
        questions, key=lambda each: hashlib.sha256(f"{config.seed}:{each.id}".encode()).digest()
    ):
        if counts[each.instance_hash] < config.per_bug:
            counts[each.instance_hash] += 1
            kept.add(each.id)
    return [each for each in questions if each.id in kept]


def without_held_out(
    questions: Sequence[Question], held_out: HeldOut, path: Path
) -> list[Question]:
    """The questions that may be used for training. Raises ConfigError if there are none."""
    kept = [
        each
        for each in questions
        if not held_out.has(each.benchmark, each.instance_id, each.instance_hash, each.repository)
    ]
    if not kept:
        raise ConfigError(
            f"{path}: none of its {len(questions)} questions is left to train on; held_out leaves "
            "out the bugs of all. Make questions about other bugs with `stepinto bench questions`"
        )
    return kept


def write_prompts(
    config: FormatConfig,
    questions: Sequence[Question],
    agents: AgentsConfig,
    splits: Splits,
    sft: Path,
) -> dict[str, int]:
    """Write the dataset below the `sft` folder; returns rows by split."""
    assert config.prompts is not None
    splits.extend(each.repository for each in questions)
    rows = (
        (
            splits.of(each.repository),
            {
                "prompt": [message_object(said) for said in opening_messages(each, agents)],
                "tools": tool_schemas(each.language, agents),
                "question_id": each.id,
                "question": each.model_dump_json(),
                **{name: str(getattr(each, name)) for name in NAMED},
            },
        )
        for each in questions
    )
    return PROMPTS.write(sft, config, config.prompts, rows)
