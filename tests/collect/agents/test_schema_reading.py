"""Arguments that break a tool's schema are read by it, or refused: none is carried out otherwise
than the schema allows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from collect.agents.tools import Arguments, Toolbox, ToolReply
from collect.store.messages import ToolCall
from collect.store.records import ToolOutcome


class CountArguments(Arguments):
    what: Literal["lines", "words"]
    start: int = Field(default=0, ge=0)
    end: int | None = None
    share: float | None = Field(default=None, gt=0)
    deep: bool = False
    names: tuple[str, ...] = ()
    rows: tuple[int, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class Count:
    """Shows what it was given."""

    name: str = "count"
    description: str = "Count something."
    arguments: type[Arguments] = CountArguments

    def call(self, arguments: CountArguments, call_id: str) -> ToolReply:
        return ToolReply(json.dumps(arguments.model_dump(exclude_unset=True)))


def call(given: dict[str, Any], compact: bool = False) -> ToolReply:
    arguments = json.dumps({"what": "lines", **given})
    return Toolbox([Count()], compact=compact).call(ToolCall("1", "count", arguments))


@pytest.mark.parametrize(
    ("name", "said", "meant"),
    [
        ("start", "4", 4),
        ("start", "4.0", 4),
        ("start", 4.0, 4),
        ("start", " 4\n", 4),
        ("end", "null", None),
        ("end", "None", None),
        ("end", "", None),
        ("end", "7", 7),
        ("share", "0.5", 0.5),
        ("share", "2", 2),
        ("deep", "true", True),
        ("deep", "False", False),
        ("deep", 1, True),
        ("names", '["a", "b"]', ["a", "b"]),
        ("names", "['a', 'b']", ["a", "b"]),
        ("names", "[]", []),
        ("names", [404], ["404"]),
        ("rows", "[3, 4]", [3, 4]),
        ("rows", '["3", 4.0]', [3, 4]),
        ("rows", ["3", "4"], [3, 4]),
        ("pattern", 404, "404"),
    ],
)
def test_what_can_be_read_in_one_way_is_carried_out(name: str, said: Any, meant: Any) -> None:
    reply = call({name: said})
    assert reply.outcome is ToolOutcome.OK
    assert json.loads(reply.carried_out or "") == {"what": "lines", name: meant}
    assert json.loads(reply.text)[name] == meant


@pytest.mark.parametrize("name", ["start", "names", "deep"])
@pytest.mark.parametrize("null", [None, "null"])
def test_a_null_that_can_not_be_is_left_out(name: str, null: str | None) -> None:
    reply = call({name: null})
    assert reply.outcome is ToolOutcome.OK
    assert reply.carried_out == '{"what": "lines"}'


def test_a_schema_without_null_has_none_carried_out() -> None:
    """Compact schemas leave it out, so that a row with it would break its own tools."""
    assert call({"pattern": None}).carried_out is None
    assert call({"pattern": None}, compact=True).carried_out == '{"what": "lines"}'


@pytest.mark.parametrize(
    "given",
    [
        {"what": None},
        {"start": "many"},
        {"start": 1.5},
        {"start": "-1"},
        {"start": "nan"},
        {"share": "inf"},
        {"share": "1e999"},
        {"names": "a"},
        {"names": "a, b"},
        {"names": '{"a": 1}'},
        {"rows": '["x"]'},
        {"rows": "[b'3']"},
        {"rows": "[" * 5_000},
        {"pattern": ["x"]},
        {"pattern": True},
        {"pattern": 1.10},
        {"deep": "perhaps"},
        {"other": "1"},
    ],
)
def test_anything_else_is_invalid(given: dict[str, Any]) -> None:
    reply = call(given)
    assert (reply.outcome, reply.carried_out) == (ToolOutcome.INVALID, None)


def test_text_stays_text() -> None:
    for text in ("null", "5", "[1]", "true", ""):
        reply = call({"pattern": text, "names": [text]})
        assert reply.carried_out is None
        assert json.loads(reply.text)["pattern"] == text


TEXTS = ["1", "-1", "0x10", "1_0", "null", "None", "true", "no", "[1]", "['a']", "{}", "NaN", ""]
ITEMS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TEXTS) | st.text()
VALUES = ITEMS | st.lists(ITEMS, max_size=3) | st.dictionaries(st.text(max_size=3), ITEMS)
NAMES = ["what", "start", "end", "share", "deep", "names", "rows", "pattern"]


@pytest.mark.parametrize("compact", [False, True])
@settings(deadline=None, max_examples=300)
@given(given=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_what_is_carried_out_fits_the_schema_that_was_sent(
    compact: bool, given: dict[str, Any]
) -> None:
    toolbox, said = Toolbox([Count()], compact=compact), json.dumps({"what": "words", **given})
    reply = toolbox.call(ToolCall("1", "count", said))
    if reply.outcome is not ToolOutcome.INVALID:
        [schema] = toolbox.schemas()
        done = json.loads(reply.carried_out or said)
        jsonschema.validate(done, schema["function"]["parameters"])
        again = toolbox.call(ToolCall("1", "count", json.dumps(done)))
        assert (again.text, again.carried_out) == (reply.text, None)
