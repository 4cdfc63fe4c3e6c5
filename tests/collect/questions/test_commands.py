"""`stepinto bench questions` and `stepinto bench answer`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import stepinto
from collect.question_records import QuestionsConfig
from configs.command_line.shared import STOPPED
from tests.collect.models.chat_server import ChatServer


@pytest.fixture
def config(tmp_path: Path, shop_run: Path, shop_config: QuestionsConfig) -> str:
    """A config of the run that has made the questions."""
    path = tmp_path / "config.yaml"
    settings = {
        "run": shop_run.name,
        "runs_folder": str(shop_run.parent),
        "questions": shop_config.model_dump(mode="json"),
    }
    path.write_text(yaml.safe_dump(settings))
    return str(path)


def test_scores_are_printed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["bench", "answer", config, "questions.answer_with=source_reader"]) == 0
    printed = capsys.readouterr().out
    assert "source_reader: " in printed
    assert "all" in printed


def test_a_model_that_is_not_there(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["bench", "answer", config, "questions.answer_with=gpt"]) == 2
    assert "there is no model 'gpt'" in capsys.readouterr().err


def test_a_spent_budget_ends_it(
    config: str, shop_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(shop_run, tmp_path / "copy")
    with ChatServer().running() as server:
        paid = "api_key_env: null, check_tools: false, prices: {input: 10000}"
        settings = [
            *(f"runs_folder={tmp_path}", "run=copy", "runner.concurrency=1"),
            f"models.paid={{backend: openai, model: m, base_url: '{server.url}', {paid}}}",
            *("questions.answer_with=paid", "runner.budget_dollars=1"),
        ]
        assert stepinto.main(["bench", "answer", config, *settings]) == STOPPED
    told = [line for line in capsys.readouterr().err.splitlines() if "stepinto: " in line]
    assert told == [
        "stepinto: the budget of $1.00 is spent ($1.00); the same command goes on with a higher "
        "runner.budget_dollars"
    ]


def test_the_output_has_its_ending(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["bench", "questions", config, "questions.output=q.txt"]) == 2
    assert "output must end in .jsonl" in capsys.readouterr().err
