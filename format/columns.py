"""What the columns of a row hold, and their Arrow types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from collect.questions.grounding.records import Support


class Kind(StrEnum):
    """The type of a column's values; any of them may be null."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    TEXTS = "texts"
    FLAGS = "flags"
    CLAIMS = "claims"
    """A whole number for each kind of support."""
    OBJECTS = "objects"
    """A list of JSON objects, each kept as it is."""


@dataclass(frozen=True)
class Column:
    """One column."""

    what: str
    kind: Kind = Kind.TEXT


def features(columns: dict[str, Column]) -> Any:
    """The columns as `datasets` knows them."""
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
