"""Questions as prompts for training by rewards."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasets import load_dataset

from collect.agents.config import AgentsConfig
from collect.benchmarks.held_out import HeldOutConfig
from collect.errors import ConfigError
from collect.question_records import Question
from format.config import FormatConfig, PromptsConfig
from format.dataset import read_rows, split_file
from format.parts import PROMPT_COLUMNS
from format.stage import run_format
from tests.collect.questions.asked import value
from tests.format.conversations import write_run

PROMPTS = FormatConfig(test_fraction=0.2, prompts=PromptsConfig())


def questions_of(run: Path) -> list[Question]:
    """Three about a bug of each of two repositories, one of them known to the conversations."""
    made = [
        value("41").model_copy(
            update={
                "id": f"{name}.{number}",
                "instance_id": name,
                "instance_hash": name,
                "repository": name,
                "question": f"What is it {number}?",
            }
        )
        for name in ("ledger", "elsewhere")
        for number in range(3)
    ]
    lines = "".join(f"{question.model_dump_json()}\n" for question in made)
    (run / "questions.jsonl").write_text(lines)
    return made


def test_a_prompt_is_what_the_subagent_is_asked(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    made = questions_of(run)
    agents = AgentsConfig(debug_run_code=True)
    report = run_format(PROMPTS, run, agents=agents)
    assert sum(report.outputs["prompts"].values()) == 6
    loaded = load_dataset(str(run / "sft" / "prompts"), cache_dir=str(tmp_path / "cache"))
    rows = {row["question_id"]: row for split in loaded.values() for row in split}
    row = rows[made[0].id]
    assert [each["role"] for each in row["prompt"]] == ["system", "user"]
    assert "What is it 0?" in row["prompt"][1]["content"]
    assert "debug_run_code" in row["prompt"][0]["content"]
    assert "debug_run_code" in [tool["function"]["name"] for tool in row["tools"]]
    assert Question.model_validate_json(row["question"]) == made[0]


def test_a_repository_has_one_side_in_all_data(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    questions_of(run)
    run_format(PROMPTS, run)
    sides = {
        (row["repository"], split)
        for folder, kinds in ((run / "sft", None), (run / "sft" / "prompts", PROMPT_COLUMNS))
        for split in ("train", "test")
        if list((folder / "data").glob(f"{split}-*"))
        for row in (
            read_rows(split_file(folder, split), kinds=kinds)
            if kinds
            else read_rows(split_file(folder, split), ("repository",))
        )
    }
    assert len(sides) == len({repository for repository, _ in sides}) == 6


def test_held_out_bugs_are_never_asked_about(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    questions_of(run)
    report = run_format(PROMPTS, run, HeldOutConfig(repositories=("elsewhere",)))
    assert sum(report.outputs["prompts"].values()) == 3
    with pytest.raises(ConfigError, match="none of its 6 questions is left"):
        run_format(PROMPTS, run, HeldOutConfig(repositories=("elsewhere", "ledger")))
    few = FormatConfig(test_fraction=0, prompts=PromptsConfig(per_bug=1))
    assert run_format(few, run).outputs["prompts"]["train"] == 2
