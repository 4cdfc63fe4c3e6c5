"""Questions as the rows that TRL's GRPOTrainer reads, in an Arrow file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.agents.config import AgentsConfig
from collect.held_out import HeldOut, HeldOutConfig
from collect.questions.episode import tool_schemas
from collect.questions.messages import opening_messages
from collect.questions.records import Question, read_questions
from format.prompts import without_held_out

MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
SCHEMA = pa.schema({"prompt": MESSAGES, "environment": pa.string(), "question": pa.string()})
"""`environment` is the bug's language, by which TRL chooses the tools; `question` is what the
environment is reset with."""


def chosen_questions(path: Path, held_out: HeldOutConfig) -> list[Question]:
    """The questions of a file of `stepinto bench questions`, or of a split of prompts, but for
    those on bugs that are held out. Raises ConfigError."""
    if path.suffix == ".jsonl":
        every = read_questions(path)
    else:
        column = pq.read_table(path, columns=["question"])["question"].to_pylist()
        every = [Question.model_validate_json(text) for text in column]
    return without_held_out(every, HeldOut.of(held_out), path)


def _prompt(question: Question, agents: AgentsConfig) -> list[dict[str, str]]:
    messages = opening_messages(question, agents)
    return [{"role": each.role, "content": each.content} for each in messages]


def prompt_lengths(
    questions: Sequence[Question], agents: AgentsConfig, tokenizer: Any
) -> list[int]:
    """Tokens of each question's prompt, its tools included."""
    tools = {name: tool_schemas(name, agents) for name in {each.language for each in questions}}
    return [
        len(
            tokenizer.apply_chat_template(
                _prompt(question, agents),
                tools=tools[question.language],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
            )["input_ids"]
        )
        for question in questions
    ]


def write_question_rows(questions: Sequence[Question], agents: AgentsConfig, target: Path) -> None:
    """Write the rows. The prompts are made anew, so that they are what the `agents` section says
    now."""
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "prompt": _prompt(question, agents),
            "environment": question.language,
            "question": question.model_dump_json(),
        }
        for question in questions
    ]
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
