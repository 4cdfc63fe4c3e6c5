"""Direct preference optimisation: the better of two attempts at a question is made likelier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from format.dataset import split_file
from train.config import TrainConfig
from train.job import Job
from train.pairs import encode_pairs
from train.preflight.report import Preflight
from train.rows import load_rows, repositories_in
from train.tokenization import Tokenization
from train.trainer import NAMED, check_trainer_arguments, lora_config, quiet, shared_options

OPTIONS = NAMED | {"beta": "dpo.beta"}
FIXED = (
    "output_dir",
    "save_strategy",
    "remove_unused_columns",
    "padding_free",
    "truncation_mode",
    "dataset_num_proc",
)
"""Options that the stage needs as they are, or that change nothing on encoded rows."""


@dataclass(frozen=True)
class PreferenceOptimization:
    """On the train split of `RUN/sft/preferences`."""

    config: TrainConfig
    other_facts: Any = None

    def check(self) -> None:
        check_trainer_arguments(self.config.trainer_arguments, "DPOConfig", OPTIONS, FIXED)

    def data(self, run: Path) -> Path:
        return split_file(run / "sft" / "preferences", "train", "format.preferences: {}")

    def repositories(self, data: Path) -> set[str]:
        return repositories_in(data)

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        return encode_pairs(job.data, job.rows, self.config, tokenization)

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        from trl import DPOConfig

        from train.pair_trainer import MaskedPairs, PairTrainer

        config, tokenizer = self.config, tokenization.tokenizer
        options = shared_options(config, job.checkpoints)
        padding = tokenizer.pad_token_id
        yield quiet(
            PairTrainer(
                model=model,
                args=DPOConfig(
                    beta=config.dpo.beta, max_length=None, remove_unused_columns=False, **options
                ),
                data_collator=MaskedPairs(
                    tokenizer.eos_token_id if padding is None else padding,
                    pad_to_multiple_of=config.trainer_arguments.get("pad_to_multiple_of"),
                ),
                train_dataset=load_rows(job.rows),
                processing_class=tokenizer,
                peft_config=lora_config(config.lora, model) if config.lora else None,
            )
        )
