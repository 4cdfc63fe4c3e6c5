"""Supervised fine-tuning on the rows' assistant turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from format.dataset import split_file
from train.config import TrainConfig
from train.evaluation import evaluate_at_end, find_test_split, load_test_rows, prepare_test_rows
from train.job import Job
from train.learning_curve import keep_copies
from train.preflight.report import Preflight
from train.rows import encode_split, load_encoded, repositories_in
from train.tokenization import Tokenization
from train.trainer import build_trainer, check_trainer_arguments


@dataclass(frozen=True)
class SupervisedFineTuning:
    """Trains on the train split of `RUN/sft/`."""

    config: TrainConfig
    other_facts: Any = None

    def check(self) -> None:
        check_trainer_arguments(self.config.trainer_arguments)

    def data(self, run: Path) -> Path:
        if self.config.eval_every is not None:
            find_test_split(run, "train.eval_every")
        if self.config.samples is not None:
            find_test_split(run, "train.samples")
        return split_file(run / "sft", "train")

    def repositories(self, data: Path) -> set[str]:
        return repositories_in(data)

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        if self.config.eval_every is not None:
            prepare_test_rows(job, tokenization)
        return encode_split(job.data, job.rows, self.config, tokenization)

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        config = self.config
        evaluated = config.eval_every is not None
        trainer = build_trainer(
            config,
            model,
            tokenization.tokenizer,
            load_encoded(job.rows, from_easy=config.curriculum == "difficulty"),
            job.checkpoints,
            test_rows=load_test_rows(job) if evaluated else None,
        )
        if evaluated:
            trainer.add_callback(evaluate_at_end(trainer))
        if config.checkpoints_at:
            trainer.add_callback(keep_copies(trainer, job))
        yield trainer
