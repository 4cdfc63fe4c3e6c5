"""The validated rows of HumanEvalFix, from a file or from the hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collect.benchmarks import row_files
from collect.benchmarks.base import Language
from collect.errors import ConfigError

HUB_ID = "bigcode/humanevalpack"
SETTING = "benchmark.path"


class Row(BaseModel):
    """Only the upstream columns that we use."""

    model_config = ConfigDict(extra="ignore", strict=True)

    task_id: str
    prompt: str
    canonical_solution: str
    buggy_solution: str
    test: str
    entry_point: str
    docstring: str
    bug_type: str

    @property
    def language(self) -> str:
        """The first half of the task's id (`Java/17`), in lower case."""
        return self.task_id.partition("/")[0].lower()

    @property
    def number(self) -> str:
        """The second half of the task's id: the problem's number, the same in every language."""
        return self.task_id.partition("/")[2]


def file_rows(path: Path, languages: Sequence[Language]) -> Iterator[tuple[str, Row]]:
    """Each row of a .jsonl, .jsonl.gz or .parquet file, with its location.

    Raises ConfigError if the file or a row is invalid, or of another language.
    """
    for where, row in row_files.file_rows(path, SETTING):
        yield where, _validated(where, row, languages)


def hub_rows(hub_id: str, languages: Sequence[Language]) -> Iterator[tuple[str, Row]]:
    """Each row of the data set on the hub, with its location. Raises ConfigError."""
    for language in languages:
        for where, row in row_files.hub_rows(hub_id, SETTING, split="test", name=language):
            yield where, _validated(where, row, languages)


def _validated(where: str, row: object, languages: Sequence[Language]) -> Row:
    task = row_files.checked(where, row, Row, HUB_ID)
    if task.language not in languages:
        wanted = " or ".join(language.capitalize() for language in languages)
        raise ConfigError(
            f"{where}: column task_id: {task.task_id} is not a {wanted} task; give the file of "
            "that language, or set benchmark.language"
        )
    return task
