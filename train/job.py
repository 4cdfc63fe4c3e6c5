"""One training: its inputs, the paths of its files, and the processes that share it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, TypeVar, cast

from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import HeldOutConfig
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.models.config import file_stamps, training_of
from collect.store.records import digest
from train.base_model import template_file
from train.config import TrainConfig

PATIENCE = timedelta(days=1)
"""How long processes wait for the main one, which may encode a million rows. The training's own
time limit (`ddp_timeout`) is much shorter."""
DDP = Path(__file__).parents[1] / "configs" / "accelerate" / "ddp.yaml"
"""Gives each process the whole model."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    config: TrainConfig
    run: Path
    data: Path
    data_sha256: str
    other_facts: Any = None
    """Other facts that distinguish this training, as JSON; None: nothing."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash that distinguishes trainings. It includes the training or files of a base model in a
        folder, and template files."""
        facts: dict[str, Any] = {"config": self.config.identity(), "data": self.data_sha256}
        base = Path(self.config.base_model)
        if base != self.run / "model":
            made = training_of(base).get("fingerprint") or file_stamps(base)
            if made:
                facts["base"] = made
        files = {name: template_file(each) for name, each in self.config.templates.items()}
        texts = {name: file.read_text() for name, file in files.items() if file and file.is_file()}
        if texts:
            facts["templates"] = {name: digest(text) for name, text in texts.items()}
        if self.other_facts is not None:
            facts["other"] = self.other_facts
        return digest(facts)

    @property
    def work(self) -> Path:
        return self.run / "train"

    @property
    def checkpoints(self) -> Path:
        return self.work / "checkpoints"

    @property
    def rows(self) -> Path:
        return self.work / "rows.arrow"

    @property
    def test_rows(self) -> Path:
        return self.work / "test-rows.arrow"

    def kept_copy(self, rows: int) -> Path:
        """Where the trainer's copy after so many rows is kept until training is over."""
        return self.checkpoints / "kept" / str(rows)


@dataclass(frozen=True)
class QuestionBench:
    """The settings beside the `train` section that training on rewards needs: the benchmark of the
    questions, and how its bugs are debugged."""

    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    """The sandbox, the agents' limits, and when to give up."""
    benchmark: BenchmarkConfig = field(default_factory=lambda: BenchmarkConfig(name="bundled"))
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    """Bugs that no question may be about."""

    @property
    def facts(self) -> Any:
        facts = {"sandbox": self.runtime.sandbox, "agents": self.runtime.agents}
        facts |= {"benchmark": self.benchmark, "held_out": self.held_out}
        return {name: section.model_dump(mode="json") for name, section in facts.items()}


# The processes that `accelerate launch` or `torchrun` has started: read from the environment, so
# that the command line does not need torch.


def process_count() -> int:
    """Number of processes on all machines."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def epoch_steps(config: TrainConfig, rows: int) -> int:
    """Optimizer steps of an epoch; the last one takes the remaining rows."""
    return ceil(rows / (config.batch_size * config.gradient_accumulation * process_count()))


def is_main_process() -> bool:
    """Whether this process writes files and prints for the user."""
    return os.environ.get("RANK", "0") == "0"


def sharded() -> bool:
    """Whether each process holds only a part of the model."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def refuse_idle_gpus(cpu: bool) -> None:
    """Raise ConfigError if one process sees several GPUs, since TRL would use only one."""
    import torch

    gpus = 0 if cpu else torch.cuda.device_count()
    if gpus > 1 and process_count() == 1:
        raise ConfigError(
            f"there are {gpus} GPUs, and one process trains on one: start `accelerate launch "
            f"--config_file {DDP} -m stepinto train CONFIG`, or set "
            "CUDA_VISIBLE_DEVICES=0"
        )


class Processes:
    def __init__(self, waiting: Any = None) -> None:
        self._waiting = waiting

    def on_main(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the main process; returns its result in every process.

        If it raises ConfigError, the others exit silently.
        """
        if self._waiting is None:
            return work()
        from torch import distributed

        outcome: list[Any] = [None, None]
        if is_main_process():
            try:
                outcome = [False, work()]
            except ConfigError:
                distributed.broadcast_object_list([True, None], src=0, group=self._waiting)
                raise
        distributed.broadcast_object_list(outcome, src=0, group=self._waiting)
        failed, result = outcome
        if failed:
            raise SystemExit(2)
        return cast(Result, result)


@contextmanager
def joined(cpu: bool) -> Iterator[Processes]:
    """Join the other processes of this training, if any, and leave at the end."""
    if process_count() == 1:
        yield Processes()
        return
    from accelerate import PartialState
    from torch import distributed

    PartialState(cpu=cpu)
    # Gloo lets processes wait without a GPU, with a separate time limit.
    yield Processes(distributed.new_group(backend="gloo", timeout=PATIENCE))
    distributed.destroy_process_group()
