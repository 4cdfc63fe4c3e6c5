"""The four stages in a row, as a user runs them, with a tiny model in the small one's place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.question_records import read_questions
from collect.store.run_store import RunStore
from format.dataset import split_file
from stepinto import main
from tests.tiny_model import build_tiny_model

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "quickstart.yaml"


@pytest.mark.timeout(600)
def test_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base = build_tiny_model(tmp_path / "tiny", context=16_384)
    overrides = [
        f"runs_folder={tmp_path}",
        "run=test",
        "models.small.max_context=16384",
        "models.small.sampling={temperature: 0, max_tokens: 8}",
        "collect.benchmark.limit=2",
        "format.test_fraction=0",
        f"train.base_model={base}",
        "train.max_steps=2",
        "train.max_length=16384",
        "train.lora={r: 4}",
        "eval.benchmark.limit=1",
        "eval.variants=[baseline, debug2fix_tool_limit]",
        "eval.statistics={resamples: 1000}",
    ]
    assert main(["run", str(CONFIG), *overrides]) == 0
    run = tmp_path / "test"
    assert len(list(RunStore(run).read_rollouts())) == 2
    assert split_file(run / "sft", "train").is_file()
    assert json.loads((run / "model" / "training.json").read_text())["steps"] == 2
    results = json.loads((run / "eval" / "results.json").read_text())
    arms = results["arms"]
    compared = [(row["first_sub_model"], row["second_sub_model"]) for row in results["comparisons"]]
    assert compared == [("oracle", ""), ("small", ""), ("small", "oracle")]
    assert results["recovered_gain"][0]["undefined"], "one bug says nothing about a gain"
    assert {(arm["variant"], arm["sub_model"]) for arm in arms} == {
        ("baseline", ""),
        ("debug2fix_tool_limit", "oracle"),
        ("debug2fix_tool_limit", "small"),
    }
    figures = {each["name"] for each in results["figures"]}
    assert {"failure_modes", "answer_failures", "pass_rate"} <= figures
    small = next(arm for arm in arms if arm["sub_model"] == "small")
    assert small["sub_tokens"] > 0
    assert "oracle (scripted)" in capfd.readouterr().out

    finished = {path: path.stat().st_mtime_ns for path in (run / "model").iterdir()}
    assert main(["train", str(run)]) == 0, "a run folder stands for its config"
    assert {path: path.stat().st_mtime_ns for path in (run / "model").iterdir()} == finished
    assert main(["eval", str(run)]) == 0


@pytest.mark.slow
def test_the_stages_are_those_that_the_config_names(tmp_path: Path) -> None:
    overrides = [
        f"runs_folder={tmp_path}",
        "run=asked",
        "stages=[questions, answer, format]",
        "questions.benchmark={name: bundled, instances: [shopcart__negative-base]}",
        "questions.per_category=1",
        "format.min_inspections=null",
    ]
    assert main(["run", str(CONFIG), *overrides]) == 0
    run = tmp_path / "asked"
    asked = read_questions(run / "questions.jsonl")
    assert len(list(RunStore(run).read_rollouts())) == len(asked) >= 5
    assert split_file(run / "sft", "train").is_file()
    assert not (run / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["format", str(CONFIG)], "run `stepinto collect` on this run folder first"),
        (["train", str(CONFIG)], "run `stepinto format` on this run folder first"),
        (["collect", str(CONFIG), "collect.main=none"], "there is no model 'none'"),
        (["collect", str(CONFIG), "sandbox.python=/no/python"], "/no/python"),
        (["run", str(CONFIG), "stages=[collect, tarin]"], "stages.1"),
        (["eval", str(CONFIG), "eval.pairs=[]"], "there is nothing to evaluate"),
        (["eval", str(CONFIG), "eval.judge={model: oracle}"], "cannot judge"),
        (["collect", "none.yaml"], "there is no config none.yaml"),
    ],
)
def test_bad_input_is_told_before_work_starts(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, f"runs_folder={tmp_path}"]) == 2
    assert told in capsys.readouterr().err
