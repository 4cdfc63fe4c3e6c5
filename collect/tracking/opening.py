"""Open runs of wandb and trackio. Both log with `run.log(numbers, step=...)`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from collect.tracking.config import TrackioSettings, WandbSettings
from collect.tracking.known import Known

INIT_SECONDS = 30.0
"""For wandb's server to answer where nobody waits for it."""


@contextmanager
def wandb_run(
    settings: WandbSettings | None,
    folder: Path,
    facts: Mapping[str, Any],
    known: Known | None = None,
) -> Iterator[Any]:
    """A run with facts as its config, None where there are no settings.

    With `known` it goes on with that run, in a thread beside the work: it is quiet, sends no more
    than it is given, and leaves the process's own run alone. Without, it is the process's own,
    which a trainer finds.
    """
    if settings is None:
        yield None
        return
    import wandb

    with wandb.init(
        project=settings.project,
        name=settings.name or (known.name if known is not None else None),
        mode=settings.mode,
        dir=str(folder),
        config=dict(facts),
        **_of_known(known),
    ) as run:
        yield run


def _of_known(known: Known | None) -> dict[str, Any]:
    if known is None:
        return {}
    import wandb

    # Weave would record what is said to models.
    os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
    quiet = wandb.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        init_timeout=INIT_SECONDS,
        x_disable_meta=True,
        x_save_requirements=False,
    )
    return {"id": known.id, "resume": "allow", "reinit": "create_new", "settings": quiet}


@contextmanager
def trackio_run(
    settings: TrackioSettings | None, facts: Mapping[str, Any], known: Known | None = None
) -> Iterator[Any]:
    """A run with facts as its config, None where there are no settings.

    With `known` it goes on with that run, which trackio tells by its name.
    """
    if settings is None:
        yield None
        return
    import trackio

    name, again = settings.name, {}
    if known is not None:
        name, again = f"{name or known.name} {known.id}", {"resume": "allow"}
    # It prints how to look at the run, among this command's own lines.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        run = trackio.init(
            project=settings.project,
            name=name,
            space_id=settings.space,
            config=dict(facts),
            embed=False,
            **again,
        )
    try:
        yield run
    finally:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            trackio.finish()
