"""`sft/tokenized/`: what is in it, and that `datasets` and TRL take it as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from format.config import FormatConfig, TokenizedConfig
from format.dataset import split_file
from format.stage import run_format
from tests.format.conversations import write_run
from train.rows import write_tokenized


@pytest.fixture
def sft(tmp_path: Path) -> Path:
    run_format(FormatConfig(test_fraction=0.2), write_run(tmp_path / "run"))
    return tmp_path / "run" / "sft"


def mark_turns(sft: Path, split: str, trained: list[list[bool]]) -> None:
    """Give a split's file this column `trained_turns`."""
    path = split_file(sft, split)
    table = pq.read_table(path)
    others = [name for name in table.column_names if name != "trained_turns"]
    marked = table.select(others).append_column("trained_turns", pa.array(trained))
    pq.write_table(marked, path)


def loaded(sft: Path, cache: Path) -> Any:
    return load_dataset(str(sft / "tokenized"), cache_dir=str(cache))


def trained_text(row: dict[str, Any], tokenizer: Any) -> str:
    pairs = zip(row["input_ids"], row["assistant_masks"], strict=True)
    return str(tokenizer.decode([token for token, kept in pairs if kept]))


def test_datasets_reads_ids_and_masks_of_single_turns(
    sft: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    mark_turns(sft, "train", [[False, True, False, True]] * 3 + [[False] * 4])
    mark_turns(sft, "test", [[True] * 4])
    rows = write_tokenized(TokenizedConfig(model=str(tiny_folder)), sft)
    assert rows == {"train": 3, "test": 1}
    splits = loaded(sft, tmp_path / "cache")
    assert {name: len(split) for name, split in splits.items()} == rows
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    marked = trained_text(splits["train"][0], tokenizer)
    assert marked.count("<|im_end|>") == 2
    assert '"action": "step_over"' in marked
    assert "debug_start_session" not in marked
    assert trained_text(splits["test"][0], tokenizer).count("<|im_end|>") == 4
    conversations = load_dataset(str(sft), cache_dir=str(tmp_path / "cache"))
    assert "messages" in conversations["train"].column_names
    facts = json.loads((sft / "tokenized" / "tokenization.json").read_text())
    assert facts["rows"] == rows
    assert "{%- generation %}" in facts["template"]


def test_rows_are_cut(sft: Path, tiny_folder: Path, tmp_path: Path) -> None:
    whole = TokenizedConfig(model=str(tiny_folder), template="trl:qwen2_5_training.jinja")
    write_tokenized(whole, sft)
    longest = max(map(len, loaded(sft, tmp_path / "cache")["train"]["input_ids"]))
    write_tokenized(whole.model_copy(update={"max_length": longest - 1}), sft)
    cut = loaded(sft, tmp_path / "cache")["train"]["input_ids"]
    assert max(map(len, cut)) == longest - 1
    assert len(list((sft / "tokenized").glob("train-*.parquet"))) == 1


@pytest.mark.slow
def test_trl_takes_the_rows_as_they_are(sft: Path, tiny_folder: Path, tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    write_tokenized(TokenizedConfig(model=str(tiny_folder)), sft)
    rows = loaded(sft, tmp_path / "cache")["train"]
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_folder),
        args=SFTConfig(
            output_dir=str(tmp_path / "out"),
            max_steps=1,
            max_length=None,
            per_device_train_batch_size=1,
            bf16=False,
            use_cpu=True,
            report_to="none",
        ),
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(tiny_folder),
    )
    labels = [label for label in trainer.train_dataset[0]["labels"] if label != -100]
    masks = [sum(row["assistant_masks"]) for row in rows]
    assert len(labels) in masks
    assert trainer.train().global_step == 1
