"""How a model's call becomes an action, or an error that it can learn from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field

from collect.agents.tools import Arguments, Toolbox, ToolReply
from collect.store.messages import ToolCall
from collect.store.records import ToolOutcome
from sandbox.errors import SandboxFileError


class RepeatArguments(Arguments):
    text: Annotated[str, Field(description="What to say.")]
    times: int = 1


@dataclass(frozen=True)
class Repeat:
    """Says something some times; cannot say nothing."""

    name: str = "repeat"
    description: str = "Say something."
    arguments: type[Arguments] = RepeatArguments

    def call(self, arguments: RepeatArguments, call_id: str) -> ToolReply:
        if not arguments.text:
            raise SandboxFileError("there is nothing to say")
        return ToolReply(arguments.text * arguments.times)


def call(arguments: str, name: str = "repeat") -> ToolReply:
    return Toolbox([Repeat()]).call(ToolCall("1", name, arguments))


def test_a_good_call() -> None:
    assert call('{"text": "ab", "times": 2}') == ToolReply("abab")
    assert call('{"text": "\\ud83d\\udc1b"}') == ToolReply("\U0001f41b")


@pytest.mark.parametrize(
    ("arguments", "name", "told"),
    [
        ('{"text": ', "repeat", "not valid JSON"),
        ('{"text": "a"}', "shout", "no tool named 'shout'. The tools are: repeat"),
        ('{"text": "a", "times": "many"}', "repeat", "times: Input should be a valid integer"),
        ("{}", "repeat", "text: Field required"),
        ('{"text": "a", "loud": true}', "repeat", "loud: Extra inputs are not permitted"),
        ('["a"]', "repeat", "should be an object"),
        ("", "repeat", "text: Field required"),
        ('{"text": "a\\ud83d"}', "repeat", r"hold '\ud83d', half a character"),
        ('{"loud\\udc00": {"a": ["b"]}}', "repeat", r"hold '\udc00', half a character"),
    ],
)
def test_malformed_calls_are_answered(arguments: str, name: str, told: str) -> None:
    reply = call(arguments, name)
    assert reply.outcome is ToolOutcome.INVALID
    assert told in reply.text


@pytest.mark.parametrize("arguments", ["{}", '{"%s": 1}' % ("x" * 100_000)])
def test_an_error_quotes_no_long_name(arguments: str) -> None:
    for name in ("repeat", "y" * 100_000):
        reply = call(arguments, name)
        assert reply.outcome is ToolOutcome.INVALID
        assert len(reply.text) < 3_000
    assert reply.text.endswith("The tools are: repeat.")


def test_a_bad_path_is_an_error_of_the_call() -> None:
    assert call('{"text": ""}') == ToolReply("Error: there is nothing to say", ToolOutcome.ERROR)


def test_schema_is_what_servers_take() -> None:
    [schema] = Toolbox([Repeat()]).schemas()
    assert schema["function"]["name"] == "repeat"
    parameters = schema["function"]["parameters"]
    assert parameters["required"] == ["text"]
    assert parameters["additionalProperties"] is False
    assert "title" not in json.dumps(schema)
