"""What `stepinto train` says of rows that are not those of the last `stepinto format`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import stepinto
from collect.errors import ConfigError
from collect.store.run_store import RunStore
from configs.loading import load_config, save_config
from format.config import FormatConfig
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run
from train.config import TrainConfig
from train.stage import run_train

NOTHING = "format.min_stops=99"


@pytest.fixture
def run(tmp_path: Path, tiny_folder: Path) -> Path:
    """A run with rows of the first three of its five rollouts."""
    folder = write_run(tmp_path / "run", make_rollouts()[:3])
    config = {
        "run": "run",
        "runs_folder": str(tmp_path),
        "format": {"test_fraction": 0},
        "train": {
            "base_model": str(tiny_folder),
            "max_length": 4096,
            "max_steps": 1,
            "gradient_accumulation": 1,
            "device": "cpu",
        },
    }
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(config))
    save_config(load_config(path))
    assert stepinto.main(["format", str(folder)]) == 0
    return folder


def add_rollouts(run: Path) -> None:
    store = RunStore.open(run)
    for rollout, conversations in make_rollouts()[3:]:
        store.add(rollout, conversations)
    store.close()


def test_training_is_refused_after_a_format_that_kept_nothing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = sorted(path.name for path in (run / "sft" / "data").iterdir())
    assert stepinto.main(["format", str(run), NOTHING]) == 2
    assert sorted(path.name for path in (run / "sft" / "data").iterdir()) == rows
    capsys.readouterr()

    assert stepinto.main(["train", str(run)]) == 2
    told = capsys.readouterr().err
    assert f"the last `stepinto format` wrote no rows, so those in {run}/sft are older" in told
    assert "'stopped' dropped 3" in told
    assert f"remove {run}/sft/refused.txt to train on the older rows" in told
    assert not (run / "model").exists()
    with pytest.raises(ConfigError, match="wrote no rows"):
        run_train(TrainConfig(method="dpo"), run)


@pytest.mark.parametrize("way", ["a format that keeps rows", "the note removed"])
def test_training_goes_on_after(run: Path, capsys: pytest.CaptureFixture[str], way: str) -> None:
    assert stepinto.main(["format", str(run), NOTHING]) == 2
    if way == "the note removed":
        (run / "sft" / "refused.txt").unlink()
    else:
        assert stepinto.main(["format", str(run)]) == 0
    capsys.readouterr()
    assert stepinto.main(["train", str(run)]) == 0
    assert "since then" not in capsys.readouterr().err


def test_a_refused_format_without_earlier_rows_leaves_no_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", make_rollouts(1))
    with pytest.raises(ConfigError, match="is left to train on"):
        run_format(FormatConfig(min_stops=99), folder)
    assert not (folder / "sft").exists()


def test_rows_older_than_rollouts_and_settings_are_told(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_rollouts(run)
    changes = ["format.max_characters=null", "held_out.repositories=[ledger]"]
    assert stepinto.main(["train", str(run), *changes, "format.name=Renamed"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert f"training on the rows in {run}/sft as they are, though since then" in told
    assert "run had 3 rollouts and has 5 now" in told
    assert "format.max_characters was 200000 and is null now" in told
    assert "the section held_out was another" in told
    assert "Renamed" not in told


def test_rollouts_done_again_are_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = RunStore.open(run)
    again = make_rollouts(1, started_at=2e9)
    for rollout, conversations in again:
        store.add(rollout, conversations)
    store.close()
    assert stepinto.main(["train", str(run)]) == 0
    assert "rollouts of run were done again since" in " ".join(capsys.readouterr().err.split())


def test_rows_of_an_earlier_version_are_trained_on(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "sft" / "report.json").unlink()
    assert stepinto.main(["train", str(run)]) == 0
    assert "since then" not in capsys.readouterr().err
