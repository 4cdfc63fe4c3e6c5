"""Copies of the model after given numbers of rows, for a learning curve over the data."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from math import ceil
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from train.config import TrainConfig
from train.job import Job
from train.processes import process_count
from train.saving import reloaded, save_copy
from train.tokenization import Tokenization

FOLDER = "model-at"


def steps_of(config: TrainConfig, rows: int) -> dict[int, int]:
    """By number of rows, the optimizer step after which at least that many are trained.

    The last step of each epoch over the split's `rows` takes the remaining rows.
    """
    a_step = config.batch_size * config.gradient_accumulation * process_count()
    an_epoch = ceil(rows / a_step)
    return {
        point: point // rows * an_epoch + ceil(point % rows / a_step)
        for point in config.checkpoints_at
    }


def kept_adapters(job: Job, rows: int) -> Path:
    """Where the trainer's copy is kept until training is over."""
    return job.checkpoints / "kept" / str(rows)


def keep_copies(trainer: Any, job: Job) -> Any:
    """A trainer callback that saves the model at the steps of `checkpoints_at`."""
    from transformers import TrainerCallback

    steps = steps_of(job.config, len(trainer.train_dataset))

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _refuse_later_ones(steps, state.max_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            for rows, step in steps.items():
                if step == state.global_step:
                    trainer.save_model(str(kept_adapters(job, rows)))

    return Keep()


def _refuse_later_ones(steps: Mapping[int, int], last: int) -> None:
    late = [rows for rows, step in steps.items() if step > last]
    if late:
        raise ConfigError(
            f"train.checkpoints_at: {late} is never reached in {last} optimizer steps; remove it, "
            "or raise train.epochs or train.max_steps"
        )


def save_copies(job: Job, tokenization: Tokenization, repositories: Collection[str]) -> None:
    """Write the copies as they would be served, merged if the model is.

    `repositories` are those whose bugs the model was trained on.
    """
    target = job.run / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    for rows in job.config.checkpoints_at:
        model = reloaded(job.config, tokenization.base, kept_adapters(job, rows))
        whole = model.merge_and_unload() if job.config.merges else model
        serving = tokenization.templates.serving
        save_copy(whole, tokenization.tokenizer, serving, target / str(rows), repositories)
