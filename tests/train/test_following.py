"""What can be followed of a training: losses on the test split, copies, the card."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoModelForCausalLM

from collect.errors import ConfigError
from collect.models.config import trained_on
from format.config import FormatConfig
from format.stage import run_format
from tests.format.conversations import write_run
from train.config import TrainConfig
from train.methods.sft import steps_of
from train.report import TrainReport
from train.stage import finished, run_train


def formatted(folder: Path, test_fraction: float = 0.3) -> Path:
    """A run of five conversations with both splits."""
    run = write_run(folder)
    run_format(FormatConfig(test_fraction=test_fraction), run)
    return run


def config(tiny: Path, **changes: Any) -> TrainConfig:
    """Three steps of one row each."""
    fields: dict[str, Any] = {
        "base_model": str(tiny),
        "max_steps": 3,
        "gradient_accumulation": 1,
        "max_length": 4096,
        "learning_rate": 1e-2,
        "device": "cpu",
    }
    return TrainConfig(**fields | changes)


@pytest.fixture(scope="module")
def followed(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path
) -> tuple[Path, TrainReport]:
    """A run that was trained with everything on."""
    run = formatted(tmp_path_factory.mktemp("followed") / "cache-bugs")
    settings = config(
        tiny_folder,
        eval_every=2,
        checkpoints_at=(1, 2),
        trainer_arguments={"lr_scheduler_type": "constant"},
    )
    return run, run_train(settings, run)


@pytest.mark.slow
def test_the_test_split_is_measured_at_steps_and_at_the_end(
    followed: tuple[Path, TrainReport],
) -> None:
    _, report = followed
    assert [point.step for point in report.eval_curve] == [2, 3]
    assert report.eval_curve[1].loss < report.eval_curve[0].loss
    assert all(point.token_accuracy is not None for point in report.eval_curve)


def test_a_copy_after_so_many_rows_is_a_model(followed: tuple[Path, TrainReport]) -> None:
    run, _ = followed
    folders = [run / "model-at" / "1", run / "model-at" / "2", run / "model"]
    weights = [AutoModelForCausalLM.from_pretrained(each).state_dict() for each in folders]
    name = "model.layers.1.self_attn.q_proj.weight"
    assert not weights[0][name].equal(weights[1][name])
    assert not weights[1][name].equal(weights[2][name])
    assert not (run / "train" / "checkpoints").exists()


def test_the_card_says_what_the_model_is(followed: tuple[Path, TrainReport]) -> None:
    run, report = followed
    _, front, text = (run / "model" / "README.md").read_text().split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts["library_name"] == "transformers"
    assert "base_model" not in facts
    assert "# cache-bugs" in text
    assert f"`{report.data_sha256}`" in text
    assert f", {report.loss_curve[-1].loss:.4f} at step 3 |" in text
    assert "--tool-call-parser hermes --max-model-len 4096" in text
    assert str(run.parent) not in text


def test_a_test_split_is_needed_where_something_is_measured(
    tmp_path: Path, tiny_folder: Path
) -> None:
    run = formatted(tmp_path / "run", test_fraction=0)
    with pytest.raises(ConfigError, match=r"split 'test'.* train\.eval_every"):
        run_train(config(tiny_folder, eval_every=1), run)


def test_a_copy_that_is_never_reached_is_refused(tmp_path: Path, tiny_folder: Path) -> None:
    run = formatted(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"\[8\] is never reached in 3 optimizer steps"):
        run_train(config(tiny_folder, checkpoints_at=(1, 8)), run)
    with pytest.raises(ValueError, match="must be rising numbers"):
        config(tiny_folder, checkpoints_at=(2, 1))


@pytest.mark.slow
def test_copies_tell_whose_bugs_were_trained_on(tmp_path: Path, tiny_folder: Path) -> None:
    run = formatted(tmp_path / "run", test_fraction=0)
    settings = config(tiny_folder, max_steps=1, checkpoints_at=(1,), save_untuned=True)
    own = set(run_train(settings, run).repositories)
    assert trained_on(str(run / "model-at" / "1")) == own != set()
    (opening,) = trained_on(str(run / "model-at" / "1"), "instructions")
    assert opening == trained_on(str(run / "model"), "instructions").pop()
    assert not (run / "untuned" / "training.json").exists()
    base = shutil.copytree(run / "model-at" / "1", tmp_path / "base")
    (base / "training.json").write_text('{"repositories": ["earlier"]}')
    report = run_train(settings.model_copy(update={"base_model": str(base)}), run)
    assert trained_on(str(run / "untuned")) == {"earlier"}
    assert trained_on(str(run / "model-at" / "1")) == own | {"earlier"} == set(report.repositories)


def test_a_copy_is_no_finished_training(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text('{"repositories": ["earlier"]}')
    assert finished(tmp_path, "a fingerprint") is None


@pytest.mark.parametrize(
    ("rows", "batch", "points", "steps"),
    [(100, 32, (32, 200, 300, 400), (1, 8, 12, 16)), (20, 8, (20, 21, 60), (3, 4, 9))],
)
def test_every_epoch_ends_in_a_step_of_what_is_left(
    rows: int, batch: int, points: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    settings = TrainConfig(gradient_accumulation=batch, epochs=4.0, checkpoints_at=points)
    assert steps_of(settings, rows) == dict(zip(points, steps, strict=True))


@pytest.mark.slow
def test_a_copy_of_a_later_epoch_has_trained_its_rows(tmp_path: Path, tiny_folder: Path) -> None:
    run = formatted(tmp_path / "run", test_fraction=0)
    settings = config(
        tiny_folder, max_steps=None, epochs=2, gradient_accumulation=4, checkpoints_at=(10,)
    )
    assert run_train(settings, run).steps == 4
    saved, last = (
        AutoModelForCausalLM.from_pretrained(run / each).state_dict()
        for each in ("model-at/10", "model")
    )
    assert all(saved[name].equal(last[name]) for name in last)


def test_quantization_needs_a_gpu(tmp_path: Path, tiny_folder: Path) -> None:
    run = formatted(tmp_path / "run")
    with pytest.raises(ConfigError, match="4bit needs a CUDA GPU"):
        run_train(config(tiny_folder, lora={"quantize": "4bit"}), run)
