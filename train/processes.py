"""Several processes that train one model: what the main one does while the others wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

from collect.errors import ConfigError

# Whether this process is one of several that `accelerate launch` or `torchrun` has started.
#
# Read from the environment, so that the command line needs no torch for it.


def process_count() -> int:
    """How many processes there are, on all machines."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this is the one that writes files and speaks to the user."""
    return os.environ.get("RANK", "0") == "0"


PATIENCE = timedelta(days=1)
"""How long processes wait for the main one, which may encode a million rows meanwhile. Their
training's own time limit (`ddp_timeout`) is much shorter."""
Result = TypeVar("Result")


def sharded() -> bool:
    """Whether each process holds a part of the model only."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def refuse_idle_gpus(cpu: bool) -> None:
    """Raise ConfigError where one process sees several GPUs, which TRL won't use at once."""
    import torch

    gpus = 0 if cpu else torch.cuda.device_count()
    if gpus > 1 and process_count() == 1:
        raise ConfigError(
            f"there are {gpus} GPUs, and one process trains on one: start `accelerate launch "
            "--config_file configs/accelerate/ddp.yaml -m stepinto train CONFIG`, or set "
            "CUDA_VISIBLE_DEVICES=0"
        )


class Processes:
    """All processes of one training."""

    def __init__(self, waiting: Any = None) -> None:
        self._waiting = waiting

    def on_main(self, work: Callable[[], Result]) -> Result:
        """What the main process' `work` gives, in every process.

        Where it raises ConfigError, the others end as well, silently.
        """
        if self._waiting is None:
            return work()
        if not is_main_process():
            failed, result = self._told([None, None])
            if failed:
                raise SystemExit(2)
            return cast(Result, result)
        try:
            found = work()
        except ConfigError:
            self._told([True, None])
            raise
        self._told([False, found])
        return found

    def _told(self, outcome: list[Any]) -> list[Any]:
        from torch import distributed

        distributed.broadcast_object_list(outcome, src=0, group=self._waiting)
        return outcome


@contextmanager
def joined(cpu: bool) -> Iterator[Processes]:
    """Join the other processes of this training, where there are any, and part in the end."""
    if process_count() == 1:
        yield Processes()
        return
    from accelerate import PartialState
    from torch import distributed

    PartialState(cpu=cpu)
    # Gloo lets processes wait without a GPU, and with a time limit of its own.
    yield Processes(distributed.new_group(backend="gloo", timeout=PATIENCE))
    distributed.destroy_process_group()
