"""The records of SWE-bench and SWE-bench-Live, from a file or from the hub.

There are four generations of the schema: SWE-bench's first (repository and version determine the
test command) and fifth (the record has its own script, parser and image), SWE-bench-Live (commands
and a parser's name) and SWE-bench-Live/MultiLang (more commands, and the parser as Python source).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from collect.benchmarks import row_files
from collect.code.unified import renamed_files

LIVE_HUB_ID = "SWE-bench-Live/SWE-bench-Live"
LIVE_SPLIT = "lite"
SPLIT = "test"
SETTING = "benchmark.path"
ID = r"^[A-Za-z0-9][\w.-]*$"
"""Pattern of an instance id, which becomes part of an image name."""


def _strings(value: object) -> object:
    """A list; some data sets have JSON in a string, or a single string."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return ()
    return json.loads(value) if value.lstrip().startswith("[") else (value,)


Strings = Annotated[tuple[str, ...], BeforeValidator(_strings)]


class Record(BaseModel):
    """Only the upstream columns that we use."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    instance_id: str = Field(pattern=ID)
    repo: str
    base_commit: str = Field(pattern=r"^[0-9a-f]{7,64}$")
    patch: str
    test_patch: str
    problem_statement: str
    fail_to_pass: Strings = Field(validation_alias="FAIL_TO_PASS")
    pass_to_pass: Strings = Field(validation_alias="PASS_TO_PASS")
    version: str = ""
    image: str | None = Field(None, validation_alias=AliasChoices("image", "docker_image"))
    eval_script: str = ""
    """The whole script of a test run, with two markers around the test output."""
    rebuild_cmds: Strings = ()
    test_cmds: Strings = ()
    print_cmds: Strings = ()
    """Commands that print the log if `test_cmds` do not."""
    log_parser: str = Field("", validation_alias=AliasChoices("log_parser", "parser"))
    """A parser's name, or its source."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, row: Any) -> Any:
        """In data sets where only some rows have a column, it is null in the others."""
        if not isinstance(row, dict):
            return row
        return {name: value for name, value in row.items() if value is not None}

    @property
    def is_live(self) -> bool:
        """Whether the record is from SWE-bench-Live."""
        return bool(self.test_cmds)

    @property
    def image_name(self) -> str:
        """The record's own image, or the one that upstream publishes for the instance's id."""
        if self.image:
            return self.image
        publisher = "starryzhang" if self.is_live else "swebench"
        name = self.instance_id.lower().replace("__", "_1776_")
        return f"{publisher}/sweb.eval.x86_64.{name}:latest"

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files that the test patch changes, by old and new name."""
        pairs = renamed_files(self.test_patch)
        return tuple(dict.fromkeys(path for pair in pairs for path in pair))

    @property
    def digest(self) -> str:
        """16 hex digits over all columns that we use."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def read_records(path: Path | None, hub_id: str | None, split: str | None) -> dict[str, Record]:
    """The records of a local file, or else of a split on the hub, by id. Raises ConfigError."""
    hub_id = hub_id or LIVE_HUB_ID
    default = LIVE_SPLIT if hub_id == LIVE_HUB_ID else SPLIT
    files = None if path is None else [path]
    rows = row_files.open_rows(files, hub_id, SETTING, split=split or default)
    published = "SWE-bench or SWE-bench-Live"
    return row_files.checked_by_id(rows, Record, published, lambda record: record.instance_id)
