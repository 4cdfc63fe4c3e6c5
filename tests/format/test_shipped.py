"""The shipped sessions in the config of a run in another folder than the checkout."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.shipped import DEMONSTRATIONS, with_shipped
from stepinto import main
from tests.format.conversations import make_rollouts, write_run

ROOT = Path(__file__).parents[2]


def test_a_config_names_them_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "own", make_rollouts())
    settings = {"runs": ["demonstrations"], "questions": ["demonstrations/questions.jsonl"]}
    config = {"run": "own", "format": settings | {"min_inspections": None}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(config))
    assert main(["format", "own.yaml"]) == 0, capsys.readouterr().err
    sft = tmp_path / "runs" / "own" / "sft"
    rows = list(read_rows(split_file(sft, "train"), ("conversation_id", "difficulty")))
    assert any(row["conversation_id"].startswith("demonstrations/") for row in rows)
    assert any(row["difficulty"] for row in rows)
    written = json.loads((sft / "report.json").read_text())["config"]
    assert [written[name] for name in settings] == list(settings.values())
    assert str(DEMONSTRATIONS) not in (sft / "README.md").read_text()


def test_the_shipped_config_needs_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["format", "played"]) == 0
    assert split_file(tmp_path / "runs" / "played" / "sft", "train").is_file()


def test_a_folder_of_the_users_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = Path("demonstrations"), Path("runs/demonstrations")
    assert with_shipped(FormatConfig(runs=runs)).runs == (DEMONSTRATIONS, runs[1])
    (tmp_path / "demonstrations").mkdir()
    assert with_shipped(FormatConfig(runs=runs)).runs == runs


def test_a_wrong_folder_is_told_with_where_it_was_sought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("run: own\nformat: {runs: [demonstration]}\n")
    assert main(["format", "own.yaml"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"demonstration is no folder of a run with rollouts; it must lie in {tmp_path}" in told


def test_they_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert DEMONSTRATIONS.relative_to(ROOT).as_posix() in packed
