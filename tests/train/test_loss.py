"""The loss from trained tokens alone is TRL's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from train.config import TrainConfig
from train.encoding import IGNORED
from train.trainer import build_trainer, loss_curve

pytestmark = pytest.mark.slow


def rows() -> Dataset:
    """Of different lengths, so that a batch has padding; one is trained at its last token only."""
    ids = [list(range(3, 40)), list(range(50, 70)), list(range(9, 30)), list(range(100, 160))]
    spans = [(5, 9), (19, 20), (0, 21), (30, 60)]
    labels = [
        [token if start <= place < end else IGNORED for place, token in enumerate(row)]
        for row, (start, end) in zip(ids, spans, strict=True)
    ]
    return Dataset.from_dict({"input_ids": ids, "labels": labels})


def trained(folder: Path, output: Path, *, trained_tokens_only: bool, **changes: Any) -> Any:
    """A trainer after two steps of four rows each, in batches of two."""
    fields: dict[str, Any] = {
        "base_model": str(folder),
        "batch_size": 2,
        "gradient_accumulation": 2,
        "max_steps": 2,
        "learning_rate": 1e-2,
        "device": "cpu",
        "trainer_arguments": {"bf16": False, "optim": "sgd"},
    }
    model = AutoModelForCausalLM.from_pretrained(folder)
    trainer = build_trainer(
        TrainConfig(**fields | changes),
        model,
        AutoTokenizer.from_pretrained(folder),
        rows(),
        output,
        trained_tokens_only=trained_tokens_only,
    )
    trainer.train()
    return trainer


def test_loss_gradients_and_accuracy_are_those_of_all_tokens(
    tiny_folder: Path, tmp_path: Path
) -> None:
    ours = trained(tiny_folder, tmp_path / "ours", trained_tokens_only=True)
    theirs = trained(tiny_folder, tmp_path / "theirs", trained_tokens_only=False)
    assert type(ours) is not type(theirs)
    curves = [loss_curve(each.state.log_history) for each in (ours, theirs)]
    for left, right in zip(*curves, strict=True):
        assert left.loss == pytest.approx(right.loss, rel=1e-4)
        assert left.token_accuracy == pytest.approx(right.token_accuracy)
    expected = dict(theirs.model.named_parameters())
    for name, weight in ours.model.named_parameters():
        assert weight.allclose(expected[name], atol=1e-6), name


def test_a_loss_that_needs_every_logit_is_left_to_trl(tiny_folder: Path, tmp_path: Path) -> None:
    arguments = {"bf16": False, "loss_type": "dft"}
    trainer = trained(
        tiny_folder, tmp_path, trained_tokens_only=True, trainer_arguments=arguments, max_steps=1
    )
    assert type(trainer).__name__ == "SFTTrainer"
