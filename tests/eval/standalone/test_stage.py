"""Subagents measured alone, by `stepinto eval`, through real sessions."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

import stepinto
from collect.question_records import QuestionsConfig
from collect.store.run_store import RunStore
from eval.config import EvalConfig


@pytest.fixture
def config(tmp_path: Path, questions_file: Path, shop_config: QuestionsConfig) -> dict[str, Any]:
    """A config that asks the oracle three questions about the shop."""
    shutil.copy(questions_file, tmp_path / "questions.jsonl")
    questions = {
        "models": ["oracle"],
        "path": str(tmp_path / "questions.jsonl"),
        "benchmark": shop_config.benchmark.model_dump(mode="json"),
        "limit": 3,
        "shuffle_seed": 1,
    }
    statistics = {"resamples": 1000}
    evaluation = {"questions": questions, "statistics": statistics}
    return {"run": "alone", "runs_folder": str(tmp_path), "eval": evaluation}


def evaluate(config: dict[str, Any], folder: Path, *overrides: str) -> int:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return stepinto.main(["eval", str(path), *overrides])


def test_a_subagent_alone(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(config, tmp_path) == 0
    printed = capsys.readouterr().out
    assert "oracle (scripted)" in printed
    assert "source_reader (runs nothing)" in printed
    folder = tmp_path / "alone" / "eval" / "questions"
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    oracle, reader = results["models"]
    assert (oracle["model"], oracle["scripted"], oracle["questions"]) == ("oracle", True, 3)
    assert (oracle["accuracy"], oracle["well_formed"], oracle["valid_calls"]) == (100, 100, 100)
    assert oracle["grounded"] == 100
    assert oracle["seconds"] > 0
    assert oracle["tool_calls"] >= 3
    assert (reader["model"], reader["steps"], reader["dollars"]) == ("source_reader", None, None)
    assert len({row["category"] for row in results["answers"]}) > 1
    names = [each["name"] for each in results["figures"]]
    assert {"accuracy_by_category", "answer_failures", "tools_by_step_1"} <= {*names}
    assert sorted(names) == sorted(path.stem for path in (folder / "figures").iterdir())
    with (folder / "models.csv").open(newline="") as file:
        assert [row["model"] for row in csv.DictReader(file)] == ["oracle", "source_reader"]

    before = {row.rollout_id: row.started_at for row in RunStore(folder).read_rollouts()}
    trained = tmp_path / "alone" / "sft" / "report.json"
    trained.parent.mkdir()
    trained.write_text(json.dumps({"splits": {"train": {"repositories": ["acme/shop"]}}}))
    assert evaluate(config, tmp_path, "eval.statistics.baseline=source_reader") == 0
    assert "Warning: questions about shop are asked" in capsys.readouterr().out
    assert before == {r.rollout_id: r.started_at for r in RunStore(folder).read_rollouts()}
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    (compared,) = results["comparisons"]
    assert (compared["first_sub_model"], compared["attempts"]) == ("oracle", 3)


def test_what_it_needs_is_looked_at_and_nothing_asked(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = "models.other={backend: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}"
    keyless = ("models.other.api_key_env=STEPINTO_TEST_NO_KEY", "eval.questions.models=[other]")
    assert evaluate(config, tmp_path, "--preflight") == 0
    printed = capsys.readouterr().out
    assert "questions to oracle" in printed
    assert "3 of 3 to do" in printed
    assert evaluate(config, tmp_path, missing, *keyless, "--preflight") == 2
    assert "STEPINTO_TEST_NO_KEY" in capsys.readouterr().out
    assert not list(RunStore(tmp_path / "alone" / "eval" / "questions").read_rollouts())


@pytest.mark.slow
def test_a_model_that_does_not_answer(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = {
        "backend": "openai",
        "model": "dead",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": None,
        "retries": {"max_retries": 0},
        "check_tools": False,
    }
    config["models"] = {"oracle": {"backend": "oracle"}, "dead": dead, "later": dead}
    config["runner"] = {"give_up_after": 2, "concurrency": 1}
    config["eval"]["questions"]["models"] = ["oracle", "dead", "later"]
    assert evaluate(config, tmp_path) == 1
    told = capsys.readouterr()
    assert "no answer yet to 6 questions" in told.err
    folder = tmp_path / "alone" / "eval" / "questions"
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    oracle, first, later, _ = results["models"]
    assert (oracle["questions"], oracle["missing"]) == (3, 0)
    assert (first["questions"], first["missing"], later["missing"]) == (0, 3, 3)
    assert sum(row.sub_model == "dead" for row in RunStore(folder).read_rollouts()) == 2
    assert all(row["instances"] == 0 for row in results["comparisons"])


@pytest.mark.slow
def test_questions_are_made_where_no_file_is_named(config: dict[str, Any], tmp_path: Path) -> None:
    questions = config["eval"]["questions"]
    del questions["path"]
    questions |= {"limits": dict.fromkeys(["root_cause", "local_variable"], 1), "per_category": 0}
    questions["limit"] = 1
    assert evaluate(config, tmp_path) == 0
    folder = tmp_path / "alone" / "eval" / "questions"
    (made,) = folder.glob("questions-*.jsonl")
    written = made.stat().st_mtime_ns
    assert evaluate(config, tmp_path) == 0
    assert made.stat().st_mtime_ns == written
    assert "1 over the limit" in (folder / "tables.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("eval.questions.models=[gpt]", "there is no model 'gpt'"),
        ("eval.questions.path=/none.jsonl", "/none.jsonl"),
        ("eval.questions.benchmark={name: bundled}", "none of its"),
    ],
)
def test_bad_input_is_told(
    override: str,
    told: str,
    config: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert evaluate(config, tmp_path, override) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"models": ["a", "a"]}, "twice"),
        ({"models": ["source_reader"]}, "always there"),
        ({"models": []}, "at least 1"),
        ({"models": ["a"], "path": "questions.parquet"}, "must end in .jsonl"),
    ],
)
def test_mistakes_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        EvalConfig.model_validate({"questions": fields})
