"""The loss on the test split, during training and at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from format.dataset import split_file
from train.config import TrainConfig
from train.job import Job
from train.report import EvalPoint
from train.rows import encode_split, load_encoded, spread
from train.tokenization import Tokenization


def encoded_test_rows(job: Job) -> Path:
    """The path of the test split's encoded rows."""
    return job.work / "test-rows.arrow"


def find_test_split(run: Path, asked_by: str) -> Path:
    """The test split's file. Raises ConfigError, naming who asked, if there is none."""
    try:
        return split_file(run / "sft", "test")
    except ConfigError as error:
        raise ConfigError(
            f"{asked_by} needs a test split, and {run / 'sft'} has none: its rows' repositories "
            f"were too few for format.test_fraction; raise that, or remove {asked_by}"
        ) from error


def prepare_test_rows(job: Job, tokenization: Tokenization) -> None:
    """Encode the test split like the train split. Raises ConfigError if nothing is left."""
    target = encoded_test_rows(job)
    encode_split(find_test_split(job.run, "train.eval_every"), target, job.config, tokenization)
    if not len(load_encoded(target)):
        raise ConfigError("train.eval_every: no row of the test split has a token to train on")


def load_test_rows(job: Job) -> Any:
    """The rows to measure on."""
    return spread(load_encoded(encoded_test_rows(job)), job.config.eval_rows)


def eval_options(config: TrainConfig) -> dict[str, Any]:
    """The trainer's options for evaluation."""
    if config.eval_every is None:
        return {}
    return {
        "eval_strategy": "steps",
        "eval_steps": config.eval_every,
        "per_device_eval_batch_size": config.batch_size,
        "prediction_loss_only": True,
    }


def evaluate_at_end(trainer: Any) -> Any:
    """A trainer callback that evaluates after the last step, unless that was due anyway."""
    from transformers import TrainerCallback

    class Evaluate(TrainerCallback):  # type: ignore[misc]
        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            curve = eval_curve(state.log_history)
            if not curve or curve[-1].step != state.global_step:
                trainer.evaluate()

    return Evaluate()


def eval_curve(history: list[dict[str, Any]]) -> list[EvalPoint]:
    """The evaluated steps of a trainer's history."""
    return [
        EvalPoint(
            step=entry["step"],
            loss=entry["eval_loss"],
            token_accuracy=entry.get("eval_mean_token_accuracy"),
        )
        for entry in history
        if "eval_loss" in entry
    ]
