"""Supervised fine-tuning: the rows' assistant turns are learned as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from format.dataset import split_file
from train.config import TrainConfig
from train.job import Job
from train.preflight.report import Preflight
from train.rows import encode_split, load_encoded
from train.tokenization import Tokenization
from train.trainer import build_trainer, check_trainer_arguments


@dataclass(frozen=True)
class SupervisedFineTuning:
    """On the train split of `RUN/sft/`."""

    config: TrainConfig
    other_facts: Any = None

    def check(self) -> None:
        check_trainer_arguments(self.config.trainer_arguments)

    def data(self, run: Path) -> Path:
        return split_file(run / "sft", "train")

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        return encode_split(job.data, job.rows, self.config, tokenization)

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        rows = load_encoded(job.rows)
        yield build_trainer(self.config, model, tokenization.tokenizer, rows, job.checkpoints)
