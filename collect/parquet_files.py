"""Parquet files that are read piece by piece."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq


def open_parquet(path: Path) -> pq.ParquetFile:
    """A file to be read in batches, of which no more than a row group is held at once.

    pyarrow reads ahead otherwise, and keeps all that it has read of the file.
    """
    return pq.ParquetFile(path, pre_buffer=False)
