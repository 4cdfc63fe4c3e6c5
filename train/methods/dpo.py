"""Direct preference optimisation: makes the better of two attempts at a question likelier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.errors import ConfigError
from format.dataset import read_rows, split_file
from format.freshness import refuse_after_refusal
from format.preferences import PAIR_COLUMNS
from train.adapters import lora_config
from train.base_model import Tokenization
from train.config import TrainConfig
from train.encoding import Encoded
from train.job import Job
from train.preflight import Preflight, PreflightRun, load_rows, write_encoded
from train.trainer import quiet, shared_options

IDS, MASK = pa.list_(pa.int32()), pa.list_(pa.int8())
SCHEMA = pa.schema(
    {
        "prompt_ids": IDS,
        "chosen_ids": IDS,
        "rejected_ids": IDS,
        "chosen_mask": MASK,
        "rejected_mask": MASK,
    }
)
READ = (
    *("prompt", "chosen", "rejected", "tools", "repository"),
    *("chosen_trained_turns", "chosen_id", "rejected_id"),
)


@dataclass(frozen=True)
class PreferenceOptimization:
    """Trains on the train split of `RUN/sft/preferences`."""

    config: TrainConfig
    other_facts: Any = None

    def data(self, run: Path) -> Path:
        refuse_after_refusal(run / "sft")
        return split_file(run / "sft" / "preferences", "train", "format.preferences: {}")

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        return encode_pairs(job.data, job.rows, self.config, tokenization)

    @contextmanager
    def trainer(self, job: Job, model: Any, tokenization: Tokenization) -> Iterator[Any]:
        from trl import DPOConfig

        from train.trl_trainers import MaskedPairs, PairTrainer

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
                peft_config=lora_config(config, model),
            )
        )


def encode_pairs(
    split: Path, target: Path, config: TrainConfig, tokenization: Tokenization
) -> Preflight:
    """Write the pairs of a split to `target` as token ids and masks, and report on both sides of
    each as rows. Both are rendered like the rows of supervised training, so tool answers are masked
    here as there.

    Leaves out a pair if one side is longer than `max_length`: without its end a conversation is
    neither better nor worse. Raises ConfigError if no pair is left.
    """
    rows = pq.read_metadata(split).num_rows
    checks = PreflightRun(config, tokenization.base, tokenization.tokenizer, 2 * rows)
    counts = Counter(pairs=0, pairs_left_out=0, tokens=0, trained_tokens=0)

    def encoded() -> Iterator[dict[str, list[int]]]:
        for row in read_rows(split, READ, PAIR_COLUMNS):
            chosen, rejected = sides = [
                tokenization.rendered(_side(row, name)) for name in ("chosen", "rejected")
            ]
            for side in sides:
                checks.add(side)
            longest = max(len(side.encoded.input_ids) for side in sides)
            if all(side.encoded.trained for side in sides) and longest <= config.max_length:
                counts["pairs"] += 1
                counts["tokens"] += sum(len(side.encoded.input_ids) for side in sides)
                counts["trained_tokens"] += sum(side.encoded.trained for side in sides)
                yield _pair(row, chosen.encoded, rejected.encoded)
            else:
                counts["pairs_left_out"] += 1

    write_encoded(encoded(), target, SCHEMA)
    report = checks.report().model_copy(update=dict(counts))
    report.refuse_failures()
    if not report.pairs:
        raise ConfigError(
            f"none of the {rows} pairs in {split} can be trained on: train.max_length = "
            f"{config.max_length} takes those of no more tokens a side, each with one to train on"
        )
    return report


def _side(row: dict[str, Any], name: str) -> dict[str, Any]:
    """One side as a row of conversations; of the rejected one, every turn counts."""
    return {
        **row,
        "messages": row["prompt"] + row[name],
        "conversation_id": row[f"{name}_id"],
        "trained_turns": row["chosen_trained_turns"] if name == "chosen" else None,
    }


def _pair(row: dict[str, Any], chosen: Encoded, rejected: Encoded) -> dict[str, list[int]]:
    """Ids and masks; the prompt ends before the first trained token of either side."""
    start = min(chosen.mask.index(1), rejected.mask.index(1))
    if chosen.input_ids[:start] != rejected.input_ids[:start]:
        raise ConfigError(
            f"the training template renders the messages that {row['chosen_id']} and "
            f"{row['rejected_id']} begin with in two ways, so they can't be compared; set "
            "train.training_template to one that keeps what it has rendered"
        )
    return {
        "prompt_ids": chosen.input_ids[:start],
        "chosen_ids": chosen.input_ids[start:],
        "rejected_ids": rejected.input_ids[start:],
        "chosen_mask": chosen.mask[start:],
        "rejected_mask": rejected.mask[start:],
    }
