"""Where a training's curves and tables go while it runs: wandb, trackio, both or neither."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from configs.processes import is_main_process
from train.config import TrainConfig
from train.job import Job

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


def needed(config: TrainConfig) -> tuple[str, ...]:
    """The packages that a config's trackers are."""
    chosen = {"wandb": config.wandb, "trackio": config.trackio}
    return tuple(name for name, settings in chosen.items() if settings is not None)


@contextmanager
def tracked(job: Job) -> Iterator[Trackers]:
    """Runs of the config's trackers around the training, with its config and its data's hash.

    Of several processes, the main one has them.
    """
    if not is_main_process():
        yield Trackers()
        return
    with _wandb_run(job) as wandb_run, _trackio_run(job) as trackio_run:
        yield Trackers(wandb_run, trackio_run)


def _facts(job: Job) -> dict[str, Any]:
    return job.config.model_dump(mode="json") | {"data_sha256": job.data_sha256}


@contextmanager
def _wandb_run(job: Job) -> Iterator[Any]:
    """A run that the trainer's own callback finds and logs to."""
    settings = job.config.wandb
    if settings is None:
        yield None
        return
    import wandb

    with wandb.init(
        project=settings.project,
        name=settings.name,
        mode=settings.mode,
        dir=str(job.work),
        config=_facts(job),
    ) as run:
        yield run


@contextmanager
def _trackio_run(job: Job) -> Iterator[Any]:
    settings = job.config.trackio
    if settings is None:
        yield None
        return
    import trackio

    # It prints how to look at the run, among this command's own lines.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        run = trackio.init(
            project=settings.project,
            name=settings.name,
            space_id=settings.space,
            config=_facts(job),
            embed=False,
        )
    try:
        yield run
    finally:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            trackio.finish()


def send_numbers(trackers: Trackers) -> Any:
    """A trainer callback that passes on what is logged."""
    from transformers import TrainerCallback

    class Send(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            trackers.numbers(logs or {}, state.global_step)

    return Send()
