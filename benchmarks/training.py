"""How long a row takes to train on a CPU, and how much memory.

    python -m benchmarks.training SFT --top-layers 8
    python -m benchmarks.training SFT --top-layers 8 --float32 --all-tokens

SFT is a folder that `stepinto format` has written. Each start trains the default base model on the
same rows in the same order, one row a step. Seconds are those of a step after the first; CPU
seconds are of all cores, which other work on the machine disturbs less. The loss of the last step
tells whether two settings compute the same.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import tempfile
import time
from pathlib import Path

from format.dataset import split_file
from train.base_model import load_tokenization
from train.config import LoraSettings, TrainConfig
from train.methods.sft import build_trainer
from train.report import LossPoint
from train.rows import encode_split, load_rows
from train.trainer import load_model, report_steps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sft", type=Path)
    parser.add_argument("--steps", type=int, default=4, help="of which the first is not counted")
    parser.add_argument("--top-layers", type=int, help="train only so many layers (all)")
    parser.add_argument("--float32", action="store_true", help="instead of bfloat16")
    parser.add_argument("--all-tokens", action="store_true", help="TRL's own loss")
    options = parser.parse_args()
    config = TrainConfig(
        device="cpu",
        lora=LoraSettings(top_layers=options.top_layers),
        max_steps=options.steps,
        gradient_accumulation=1,
        checkpoint_every=options.steps + 1,
        trainer_arguments={"bf16": not options.float32, "dataloader_pin_memory": False},
    )
    clocks: list[tuple[float, float]] = []

    def on_step(point: LossPoint, _: int) -> None:
        clocks.append((time.monotonic(), time.process_time()))
        print(f"step {point.step}: loss {point.loss:.4f}")

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.arrow")
        tokenization = load_tokenization(config)
        encode_split(split_file(options.sft, "train"), rows, config, tokenization)
        model, tokenizer = load_model(config, tokenization.base), tokenization.tokenizer
        trainer = build_trainer(
            *(config, model, tokenizer, load_rows(rows), Path(folder)),
            trained_tokens_only=not options.all_tokens,
        )
        trainer.add_callback(report_steps(on_step))
        trainer.train()
    pairs = list(itertools.pairwise(clocks))
    seconds, cpu = (statistics.median(b[n] - a[n] for a, b in pairs) for n in (0, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seconds:.1f} s and {cpu:.1f} CPU seconds a row, {peak:,.0f} MB at most")


if __name__ == "__main__":
    main()
