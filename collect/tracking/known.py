"""The run of wandb and trackio that all starts on a folder go on with."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collect.durable import write_text

NAME = "tracking.json"


class Known(BaseModel):
    """One that was begun, now or by an earlier start."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    begun_at: float
    """Unix time, seconds."""

    @property
    def step(self) -> int:
        """Whole seconds since it was begun: the steps of all starts rise in a row."""
        return max(0, int(time.time() - self.begun_at))


def known_run(folder: Path) -> Known:
    """The folder's, which the first call begins. Raises OSError, ValueError on a broken file."""
    path = folder / NAME
    if path.is_file():
        return Known.model_validate_json(path.read_bytes())
    begun = Known(id=secrets.token_hex(4), name=folder.as_posix(), begun_at=time.time())
    write_text(path, begun.model_dump_json(indent=2) + "\n")
    return begun
