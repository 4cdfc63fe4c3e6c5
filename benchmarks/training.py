"""`python -m benchmarks.training SFT`: how long a row takes to train, by setting, side by side.

SFT is a folder that `stepinto format` has written. Every setting trains the default base model on
the same rows in the same order, one row a step, in a process of its own. Seconds are those of a
step after the first; `CPU` is what they took of all cores, which other work on the machine disturbs
less. The loss of the last step tells whether two settings compute the same.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from format.dataset import split_file
from train.base_model import load_tokenization
from train.config import LoraSettings, TrainConfig
from train.methods.sft import build_trainer
from train.report import LossPoint
from train.rows import encode_split, load_rows
from train.trainer import load_model, report_steps


@dataclass(frozen=True)
class Setting:
    """One way to train."""

    top_layers: int | None
    """How many of the 30 layers are trained, from the top; None: all."""
    bf16: bool
    trained_tokens_only: bool
    """Whether the head scores no more than the tokens that are trained; else TRL's own loss."""


SETTINGS = {
    f"{layers}-{dtype}-{loss}": Setting(top, dtype == "bf16", loss == "trained")
    for layers, top in (("all", None), ("top8", 8))
    for dtype in ("f32", "bf16")
    for loss in ("trl", "trained")
}


def measure(setting: Setting, sft: Path, steps: int) -> str:
    """Train a few steps; returns a row of the table."""
    config = TrainConfig.model_validate(
        {
            "device": "cpu",
            "lora": LoraSettings(top_layers=setting.top_layers),
            "max_steps": steps,
            "batch_size": 1,
            "gradient_accumulation": 1,
            "checkpoint_every": steps + 1,
            "trainer_arguments": {"bf16": setting.bf16, "dataloader_pin_memory": False},
        }
    )
    clocks: list[tuple[float, float]] = []
    losses: list[float] = []

    def on_step(point: LossPoint, _: int) -> None:
        losses.append(point.loss)
        clocks.append((time.monotonic(), time.process_time()))

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokenization = load_tokenization(config)
        encode_split(split_file(sft, "train"), folder / "rows.arrow", config, tokenization)
        trainer = build_trainer(
            config,
            load_model(config, tokenization.base),
            tokenization.tokenizer,
            load_rows(folder / "rows.arrow"),
            folder,
            trained_tokens_only=setting.trained_tokens_only,
        )
        trainer.add_callback(report_steps(on_step))
        trainer.train()
    pairs = list(itertools.pairwise(clocks))
    seconds, cpu = (statistics.median(b[n] - a[n] for a, b in pairs) for n in (0, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return f"{seconds:.1f} | {cpu:.1f} | {peak:,} | {losses[-1]:.4f} |"


def main() -> None:
    """Print the table as Markdown, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("sft", type=Path, help="a folder that `stepinto format` has written")
    parser.add_argument("--steps", type=int, default=4, help="of which the first is not counted")
    parser.add_argument(
        "--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="NAME"
    )
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps must be 2 or more, since the first is not counted")
    print("| Setting | Seconds a row | CPU | Peak MB | Last loss |")
    print("| --- | --- | --- | --- | --- |")
    context = multiprocessing.get_context("spawn")
    for name in options.settings:
        task = (SETTINGS[name], options.sft, options.steps)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            print(f"| {name} | {pool.submit(measure, *task).result()}", flush=True)


if __name__ == "__main__":
    main()
