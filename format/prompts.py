"""Questions as prompts for training with rewards: what a Debug Subagent would be asked."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from collect.agents.config import AgentsConfig
from collect.benchmarks.held_out import HeldOut
from collect.errors import ConfigError
from collect.question_records import Question, read_questions
from collect.questions.asking import opening_messages, tool_schemas
from collect.questions.building import DEFAULT_NAME
from format.config import FormatConfig, PromptsConfig
from format.dataset import Splits
from format.rows import Column, message_object
from format.writing import Part

COLUMNS = {
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
    COLUMNS,
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
