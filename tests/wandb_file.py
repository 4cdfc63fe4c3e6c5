"""Reads what wandb keeps of a run offline: a file of records, in the format of LevelDB's logs."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 32_768
HEADER = struct.Struct("<IHB")
"""Checksum, length, and whether it is whole (1), or the first, a middle or the last part."""
WHOLE, LAST = 1, 4


@dataclass(frozen=True)
class OfflineRun:
    """One start's."""

    id: str
    config: dict[str, Any]
    numbers: list[dict[str, Any]]
    """What was logged, in order; `_step` is the step."""


def offline_runs(folder: Path) -> list[OfflineRun]:
    """All below a folder's `wandb`, the oldest first."""
    return [_read(path) for path in sorted((folder / "wandb").glob("offline-run-*/*.wandb"))]


def _read(path: Path) -> OfflineRun:
    from wandb.proto import wandb_internal_pb2

    run_id, config, numbers = "", dict[str, Any](), list[dict[str, Any]]()
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        if record.HasField("run"):
            run_id = record.run.run_id
            config |= {each.key: json.loads(each.value_json) for each in record.run.config.update}
        if record.HasField("history"):
            items = record.history.item
            numbers.append(
                {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in items
                }
            )
    return OfflineRun(run_id, config, numbers)


def _records(content: bytes) -> Iterator[bytes]:
    position, parts = HEADER.size, b""  # the file has a header of the same length
    while position + HEADER.size <= len(content):
        left = BLOCK - position % BLOCK
        if left < HEADER.size:
            position += left
            continue
        _, length, kind = HEADER.unpack_from(content, position)
        position += HEADER.size
        parts += content[position : position + length]
        position += length
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""
