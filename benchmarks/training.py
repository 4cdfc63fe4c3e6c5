"""`python -m benchmarks.training SFT`: how long a row takes to train, by setting, side by side.

SFT is a folder that `stepinto format` has written. Every setting trains the default base model on
the same rows in the same order, one row a step or one batch, in a process of its own. Seconds are
those of a step after the first, by row; `CPU` is what they took of all cores, which other work on
the machine disturbs less. The loss of the last step tells whether two settings of the same batch
compute the same.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from format.dataset import split_file
from train.config import LoraSettings, TrainConfig
from train.methods.sft import build_trainer
from train.report import LossPoint
from train.rows import encode_split, load_encoded
from train.tokenization import load_tokenization
from train.trainer import load_model, report_steps


@dataclass(frozen=True)
class Setting:
    """One way to train."""

    name: str
    top_layers: int | None = None
    """How many of the 30 layers are trained, from the top; None: all."""
    bf16: bool = False
    trained_tokens_only: bool = True
    """Whether the head scores no more than the tokens that are trained; else TRL's own loss."""
    batch: int = 1
    """Rows a step. With the trained tokens only, a batch reads what its rows share once."""


SETTINGS = (
    *(
        Setting(f"{layers}-{dtype}-{loss}", top, dtype == "bf16", loss == "trained")
        for layers, top in (("all", None), ("top8", 8))
        for dtype in ("f32", "bf16")
        for loss in ("trl", "trained")
    ),
    Setting("top8-bf16-trl-batch4", 8, bf16=True, trained_tokens_only=False, batch=4),
    Setting("top8-bf16-trained-batch4", 8, bf16=True, batch=4),
)


@dataclass(frozen=True)
class Measured:
    """What the steps of a setting took, by row."""

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    loss: float
    peak_mb: int


@dataclass(frozen=True)
class Task:
    """One setting on one machine."""

    setting: Setting
    sft: Path
    steps: int
    threads: int | None
    device: str


def measure(task: Task) -> Measured:
    """Train a few steps."""
    import torch

    if task.threads:
        torch.set_num_threads(task.threads)
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(task, Path(folder))
        ended: list[tuple[float, float]] = [_clocks()]
        losses: list[float] = []

        def on_step(point: LossPoint, _: int) -> None:
            losses.append(point.loss)
            ended.append(_clocks())

        trainer.add_callback(report_steps(on_step))
        trainer.train()
    pairs = list(itertools.pairwise(ended[1:]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if torch.cuda.is_available() and task.device != "cpu":
        peak = torch.cuda.max_memory_allocated() // 2**20
    return Measured(
        tuple((after[0] - before[0]) / task.setting.batch for before, after in pairs),
        tuple((after[1] - before[1]) / task.setting.batch for before, after in pairs),
        losses[-1],
        peak,
    )


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def _trainer(task: Task, folder: Path) -> Any:
    setting = task.setting
    config = TrainConfig.model_validate(
        {
            "device": task.device,
            "lora": LoraSettings(top_layers=setting.top_layers),
            "max_steps": task.steps,
            "batch_size": setting.batch,
            "gradient_accumulation": 1,
            "checkpoint_every": task.steps + 1,
            "trainer_arguments": {"bf16": setting.bf16, "dataloader_pin_memory": False},
        }
    )
    tokenization = load_tokenization(config)
    encode_split(split_file(task.sft, "train"), folder / "rows.arrow", config, tokenization)
    model = load_model(config, tokenization.base)
    rows = load_encoded(folder / "rows.arrow")
    return build_trainer(
        config,
        model,
        tokenization.tokenizer,
        rows,
        folder,
        trained_tokens_only=setting.trained_tokens_only,
    )


def main() -> None:
    """Print the table as Markdown, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("sft", type=Path, help="a folder that `stepinto format` has written")
    parser.add_argument("--steps", type=int, default=4, help="of which the first is not counted")
    parser.add_argument("--threads", type=int, help="of the CPU; PyTorch's choice without")
    parser.add_argument("--device", choices=("auto", "cpu"), default="cpu")
    names = [setting.name for setting in SETTINGS]
    parser.add_argument("--settings", nargs="+", choices=names, default=names, metavar="NAME")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps must be 2 or more, since the first is not counted")
    print(
        "| Setting | Seconds a row | CPU | Peak MB | Last loss |\n| --- | --- | --- | --- | --- |"
    )
    task = Task(SETTINGS[0], options.sft, options.steps, options.threads, options.device)
    context = multiprocessing.get_context("spawn")
    for setting in SETTINGS:
        if setting.name not in options.settings:
            continue
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            found = pool.submit(measure, replace(task, setting=setting)).result()
        seconds, cpu = map(statistics.median, (found.seconds, found.cpu_seconds))
        line = f"{setting.name} | {seconds:.1f} | {cpu:.1f} | {found.peak_mb:,} | {found.loss:.4f}"
        print(f"| {line} |", flush=True)


if __name__ == "__main__":
    main()
