"""Questions as prompts for training with rewards: what a Debug Subagent would be asked."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collect.agents.config import AgentsConfig
from collect.benchmarks.held_out import HeldOut
from collect.errors import ConfigError
from collect.question_records import Question, read_questions
from collect.questions.building import DEFAULT_NAME
from collect.questions.episode import tool_schemas
from collect.questions.rows import opening_messages
from format.config import FormatConfig, PromptsConfig
from format.rows import Column, Kind, message_object
from format.splits import Splits
from format.writing import Part, PartReport

COLUMNS = {
    "prompt": Column("the system's and the user's message to the Debug Subagent", Kind.OBJECTS),
    "tools": Column("JSON schemas of its tools", Kind.OBJECTS),
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
    COLUMNS,
    "category",
    "Questions about a program's run, whose true answers were measured, as `prompt` for training "
    "by rewards. Only a debug session on the bug, with the question's patch, answers them.",
)


def choose_questions(config: PromptsConfig, run: Path, held_out: HeldOut) -> list[Question]:
    """The file's questions, without those on held-out bugs. Raises ConfigError."""
    path = Path(config.questions) if config.questions is not None else run / DEFAULT_NAME
    return _limited(config, without_held_out(read_questions(path), held_out, path))


def without_held_out(
    questions: Sequence[Question], held_out: HeldOut, path: Path
) -> list[Question]:
    """The questions that may be used for training. Raises ConfigError if there are none."""
    kept = [each for each in questions if not _is_held_out(each, held_out)]
    if not kept:
        raise ConfigError(
            f"{path}: none of its {len(questions)} questions is left to train on; held_out leaves "
            "out the bugs of all. Make questions about other bugs with `stepinto bench questions`"
        )
    return kept


def _is_held_out(question: Question, held_out: HeldOut) -> bool:
    bug = (question.benchmark, question.instance_id, question.instance_hash, question.repository)
    return held_out.has(*bug)


def _limited(config: PromptsConfig, questions: Sequence[Question]) -> list[Question]:
    """At most `per_bug` questions of each bug, in file order."""
    if config.per_bug is None:
        return list(questions)
    kept: set[str] = set()
    counts: Counter[str] = Counter()
    for each in sorted(questions, key=lambda question: _rank(config, question)):
        if counts[each.instance_hash] < config.per_bug:
            counts[each.instance_hash] += 1
            kept.add(each.id)
    return [each for each in questions if each.id in kept]


def _rank(config: PromptsConfig, question: Question) -> bytes:
    return hashlib.sha256(f"{config.seed}:{question.id}".encode()).digest()


def write_prompts(
    config: FormatConfig,
    questions: Sequence[Question],
    agents: AgentsConfig,
    splits: Splits,
    sft: Path,
) -> PartReport:
    """Write the dataset below the `sft` folder."""
    assert config.prompts is not None
    splits.extend(each.repository for each in questions)
    rows = ((splits.of(each.repository), prompt_row(each, agents)) for each in questions)
    return PROMPTS.write(sft, config, config.prompts, rows)


def prompt_row(question: Question, agents: AgentsConfig) -> dict[str, Any]:
    """One question as a row."""
    return {
        "prompt": [message_object(each) for each in opening_messages(question, agents)],
        "tools": tool_schemas(question.language, agents),
        "question_id": question.id,
        "question": question.model_dump_json(),
        **{name: str(getattr(question, name)) for name in NAMED},
    }
