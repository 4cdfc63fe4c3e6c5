"""Where a training's curves and tables go while it runs: wandb, trackio, both or neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from collect.tracking.opening import trackio_run, wandb_run
from train.job import Job
from train.launched_processes import is_main_process

Row = dict[str, str | int]
"""Of a table, by column."""


class Trackers:
    """The open runs of one training."""

    def __init__(self, wandb_run: Any = None, trackio_run: Any = None) -> None:
        self._wandb = wandb_run
        self._trackio = trackio_run

    def numbers(self, numbers: dict[str, Any], step: int) -> None:
        """Send what the trainer logs to trackio; the trainer itself sends it to wandb."""
        if self._trackio is not None:
            scalars = {name: v for name, v in numbers.items() if isinstance(v, int | float)}
            self._trackio.log(scalars, step=step)

    def table(self, name: str, rows: Sequence[Row], step: int) -> None:
        """Send a table; the rows have the same columns."""
        columns = list(rows[0])
        data = [list(row.values()) for row in rows]
        if self._wandb is not None:
            import wandb

            table = wandb.Table(columns=columns, data=data)
            self._wandb.log({name: table, "train/global_step": step})
        if self._trackio is not None:
            import trackio

            self._trackio.log({name: trackio.Table(columns=columns, data=data)}, step=step)


@contextmanager
def tracked(job: Job) -> Iterator[Trackers]:
    """Runs of the config's trackers around the training, with its config and its data's hash.

    Of several processes, the main one has them.
    """
    if not is_main_process():
        yield Trackers()
        return
    facts = job.config.model_dump(mode="json") | {"data_sha256": job.data_sha256}
    # The trainer's own callback finds wandb's run and logs to it.
    with (
        wandb_run(job.config.wandb, job.work, facts) as for_wandb,
        trackio_run(job.config.trackio, facts) as for_trackio,
    ):
        yield Trackers(for_wandb, for_trackio)


def send_numbers(trackers: Trackers) -> Any:
    """A trainer callback that passes on what is logged."""
    from transformers import TrainerCallback

    class Send(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            trackers.numbers(logs or {}, state.global_step)

    return Send()
