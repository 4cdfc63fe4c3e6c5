"""The columns of a row, and their Arrow types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from collect.questions.grounding.records import Support


class Kind(StrEnum):
    """The type of a column's values, all nullable."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    TEXTS = "texts"
    FLAGS = "flags"
    CLAIMS = "claims"
    """An integer for each kind of evidence."""
    OBJECTS = "objects"
    """A list of JSON objects, each stored unchanged."""


@dataclass(frozen=True)
class Column:
    """One column."""

    what: str
    kind: Kind = Kind.TEXT


def features(columns: dict[str, Column]) -> Any:
    """The columns as `datasets` features."""
    from datasets import Features, Json, List, Value

    kinds = {
        Kind.TEXT: Value("string"),
        Kind.INTEGER: Value("int64"),
        Kind.NUMBER: Value("float64"),
        Kind.FLAG: Value("bool"),
        Kind.TEXTS: List(Value("string")),
        Kind.FLAGS: List(Value("bool")),
        Kind.CLAIMS: {each.value: Value("int64") for each in Support},
        Kind.OBJECTS: List(Json()),
    }
    return Features({name: kinds[column.kind] for name, column in columns.items()})
