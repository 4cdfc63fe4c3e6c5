"""The loss from trained tokens alone is TRL's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from train.config import TrainConfig
from train.encoding import IGNORED
from train.methods.sft import build_trainer
from train.trainer import loss_curve
from train.trl_trainers import shared_beginning, trained_logits

TRAINED = [(5, 9), (19, 20), (0, 21), (30, 60)]
"""Of each row after its beginning."""


def rows(beginning: int) -> Dataset:
    """Of different lengths, so that a batch has padding; one is trained at its last token only.

    All begin with as many tokens alike, which are not trained; in one the next is.
    """
    tails = [list(range(3, 40)), list(range(50, 70)), list(range(9, 30)), list(range(100, 160))]
    ids = [[*range(200, 200 + beginning), *tail] for tail in tails]
    spans = [(beginning + start, beginning + end) for start, end in TRAINED]
    labels = [
        [token if start <= place < end else IGNORED for place, token in enumerate(row)]
        for row, (start, end) in zip(ids, spans, strict=True)
    ]
    return Dataset.from_dict({"input_ids": ids, "labels": labels})


def trained(
    folder: Path, output: Path, *, trained_tokens_only: bool, beginning: int = 0, **changes: Any
) -> Any:
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
        rows(beginning),
        output,
        trained_tokens_only=trained_tokens_only,
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    "beginning", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 40))]
)
def test_loss_gradients_and_accuracy_are_those_of_all_tokens(
    tiny_folder: Path, tmp_path: Path, beginning: int
) -> None:
    options = {"beginning": beginning, "batch_size": 4, "gradient_accumulation": 1}
    ours = trained(tiny_folder, tmp_path / "ours", trained_tokens_only=True, **options)
    theirs = trained(tiny_folder, tmp_path / "theirs", trained_tokens_only=False, **options)
    assert type(ours) is not type(theirs)
    curves = [loss_curve(each.state.log_history) for each in (ours, theirs)]
    for left, right in zip(*curves, strict=True):
        assert left.loss == pytest.approx(right.loss, rel=1e-4)
        assert left.token_accuracy == pytest.approx(right.token_accuracy)
    expected = dict(theirs.model.named_parameters())
    for name, weight in ours.model.named_parameters():
        assert weight.allclose(expected[name], atol=1e-6), name


def test_what_rows_have_in_common_is_read_once(tiny_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    read: list[int] = []
    layer = model.get_decoder().layers[0]
    layer.register_forward_pre_hook(lambda _, given: read.append(given[0].shape[1]))
    data = rows(40)
    batch = DataCollatorForLanguageModeling(pad_token_id=0)(list(data))
    shared = shared_beginning(batch)
    # The last token is read in each row: what follows it is trained in one.
    assert shared == 39
    trained_logits(model, batch, shared)
    assert read == [39, *(len(row) - 39 for row in data["input_ids"])]


@pytest.mark.parametrize("beginning", [0, 20])
def test_a_short_beginning_is_not_read_apart(beginning: int) -> None:
    batch = DataCollatorForLanguageModeling(pad_token_id=0)(list(rows(beginning)))
    assert shared_beginning(batch) == 0


@pytest.mark.slow
def test_a_loss_that_needs_every_logit_is_left_to_trl(tiny_folder: Path, tmp_path: Path) -> None:
    arguments = {"bf16": False, "loss_type": "dft"}
    trainer = trained(
        tiny_folder, tmp_path, trained_tokens_only=True, trainer_arguments=arguments, max_steps=1
    )
    assert type(trainer).__name__ == "SFTTrainer"
