"""Supervised fine-tuning on the rows' assistant turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from format.dataset import split_file
from format.freshness import refuse_after_refusal
from train.adapters import lora_config
from train.base_model import Tokenization
from train.config import TrainConfig
from train.job import Job, epoch_steps
from train.preflight import Preflight, encode_split, load_rows
from train.trainer import on_cpu, quiet, shared_options

TEST_SPLIT = "a larger format.test_fraction for train.eval_every, or remove that"


@dataclass(frozen=True)
class SupervisedFineTuning:
    """Trains on the train split of `RUN/sft/`."""

    config: TrainConfig
    other_facts: Any = None

    def data(self, run: Path) -> Path:
        refuse_after_refusal(run / "sft")
        if self.config.eval_every is not None:
            split_file(run / "sft", "test", TEST_SPLIT)
        return split_file(run / "sft", "train")

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        if self.config.eval_every is not None:
            split = split_file(job.run / "sft", "test", TEST_SPLIT)
            encode_split(split, job.test_rows, self.config, tokenization)
            if not len(load_rows(job.test_rows)):
                raise ConfigError(
                    "train.eval_every: no row of the test split has a token to train on"
                )
        return encode_split(job.data, job.rows, self.config, tokenization)

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        config, test_rows = self.config, None
        if config.eval_every is not None:
            every = load_rows(job.test_rows)
            test_rows = every.shard(ceil(len(every) / config.eval_rows), 0, contiguous=False)
        rows, tokenizer = load_rows(job.rows), tokenization.tokenizer
        trainer = build_trainer(
            config, model, tokenizer, rows, job.checkpoints, test_rows=test_rows
        )
        if config.checkpoints_at:
            trainer.add_callback(_keep_copies(trainer, job))
        yield trainer


def build_trainer(
    config: TrainConfig,
    model: Any,
    tokenizer: Any,
    rows: Any,
    output: Path,
    *,
    test_rows: Any = None,
    trained_tokens_only: bool = True,
) -> Any:
    """A trainer over rows of `input_ids` and `labels`, which TRL takes as they are.

    `trained_tokens_only` does not change the loss; on a CPU it is faster.
    """
    from trl import SFTConfig, SFTTrainer

    from train.trl_trainers import TrainedTokensTrainer, can_skip

    options = shared_options(config, output)
    if config.eval_every is not None:
        options |= {
            "eval_strategy": "steps",
            "eval_steps": config.eval_every,
            "per_device_eval_batch_size": config.batch_size,
            "prediction_loss_only": True,
        }
    arguments = SFTConfig(max_length=config.max_length, **options)
    chosen = trained_tokens_only and on_cpu(config) and can_skip(model, arguments)
    return quiet(
        (TrainedTokensTrainer if chosen else SFTTrainer)(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=test_rows,
            processing_class=tokenizer,
            peft_config=lora_config(config, model),
        )
    )


def steps_of(config: TrainConfig, rows: int) -> dict[int, int]:
    """By number of rows, the optimizer step after which at least that many are trained.

    The last step of each epoch over the split's `rows` takes the remaining rows.
    """
    an_epoch = epoch_steps(config, rows)
    return {
        point: point // rows * an_epoch + epoch_steps(config, point % rows)
        for point in config.checkpoints_at
    }


def _keep_copies(trainer: Any, job: Job) -> Any:
    """A trainer callback that saves the model at the steps of `checkpoints_at`, for a learning
    curve over the data."""
    from transformers import TrainerCallback

    steps = steps_of(job.config, len(trainer.train_dataset))

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            late = [rows for rows, step in steps.items() if step > state.max_steps]
            if late:
                raise ConfigError(
                    f"train.checkpoints_at: {late} is never reached in {state.max_steps} optimizer "
                    "steps; remove it, or raise train.epochs or train.max_steps"
                )

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            for rows, step in steps.items():
                if step == state.global_step:
                    trainer.save_model(str(job.kept_copy(rows)))

    return Keep()
