"""Several processes train one model: what the main one does while the others wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

from collect.errors import ConfigError

PATIENCE = timedelta(days=1)
"""How long processes wait for the main one, which may encode a million rows. The training's own
time limit (`ddp_timeout`) is much shorter."""
Result = TypeVar("Result")

# Detects the processes that `accelerate launch` or `torchrun` has started. Reads the environment,
# so that the command line does not need torch.


def process_count() -> int:
    """Number of processes on all machines."""
    return int(os.environ.get("WORLD_SIZE", "1"))


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
            "--config_file configs/accelerate/ddp.yaml -m stepinto train CONFIG`, or set "
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
