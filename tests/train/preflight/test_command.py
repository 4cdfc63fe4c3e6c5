"""`stepinto format --preflight`: the report, the flags, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import stepinto
from configs.loading import load_config, save_config
from tests.format.conversations import write_run


@pytest.fixture
def run(tmp_path: Path, tiny_folder: Path) -> Path:
    folder = write_run(tmp_path / "run")
    config = {
        "run": "run",
        "runs_folder": str(tmp_path),
        "format": {"test_fraction": 0},
        "train": {"base_model": str(tiny_folder), "max_length": 4096},
    }
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(config))
    save_config(load_config(path))
    return folder


def test_a_sound_run_passes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["format", str(run), "--preflight"]) == 0
    told = capsys.readouterr().out
    assert "PASSED      masks_are_turns: 0 wrong masks among 20 turns of 5 rows" in told
    report = json.loads((run / "preflight.json").read_text())
    assert {each["verdict"] for each in report["findings"]} == {"passed"}
    assert report["looked_through"] == 5


def test_a_failed_check_ends_in_2_and_says_what_to_do(
    run: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["format", str(run), "train.max_length=400", "--preflight", str(tiny_folder)]
    assert stepinto.main(command) == 2
    told = capsys.readouterr().out
    assert "FAILED      lengths: 5 of 5 rows are longer than train.max_length = 400" in told
    assert "raise max_length to" in told


def test_settings_say_how_the_rows_are_checked(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["format", str(run), "train.training_template=trl:llama3_training.jinja"]
    command.append("train.serving_template=trl:llama3.jinja")
    assert stepinto.main([*command, "--preflight"]) == 2
    assert "'bos_token' is undefined" in capsys.readouterr().err
    command = ["format", str(run), "train.training_template=trl:phi3_training.jinja"]
    command += ["train.serving_template=trl:phi3.jinja", "train.tool_call_parser=phi4_mini_json"]
    assert stepinto.main([*command, "--preflight"]) == 2
    told = capsys.readouterr()
    assert "NOT CHECKED tool_calls_survive: 15 calls in 20 replies" in told.out
    assert "FAILED      masks_are_turns" in told.out


def test_overrides_stand_before_the_flag(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["format", str(run), "--preflight", "train.max_length=400"]) == 2
    assert "give overrides before --preflight" in capsys.readouterr().err
    assert stepinto.main(["format", str(run), "train.max_length=400", "--preflight"]) == 2
    assert "5 of 5 rows are longer than train.max_length = 400" in capsys.readouterr().out


def test_without_the_flag_nothing_is_checked(run: Path) -> None:
    assert stepinto.main(["format", str(run)]) == 0
    assert not (run / "preflight.json").exists()
