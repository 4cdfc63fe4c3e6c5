"""Replies that can hold no invalid call, whatever the model would say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llguidance", reason="needs the extra train")

from transformers import AddedToken, AutoTokenizer

import collect.agents.debug2fix
import collect.agents.inspectcoder.inspector  # noqa: F401
from collect.agents.tools import Arguments
from collect.errors import LocalModelFailed
from collect.models.constrained_calls import ConstrainedCalls
from collect.models.tool_parsing import CLOSE, OPEN, hermes_call, parse_hermes
from collect.store.messages import Message, ToolCall, ToolSchema
from tests.tiny_model import build_tiny_model

SPARE = 5
"""Scores of a model for which there is no token."""
TAGS = (OPEN, CLOSE, "<think>", "</think>")


class RandomModel:
    """A constrained model whose scores are random; after some tokens it likes those that end."""

    def __init__(self, folder: Path, own_tags: bool) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        if own_tags:
            self.tokenizer.add_tokens([AddedToken(tag, special=False) for tag in TAGS])
        self.end = self.tokenizer.eos_token_id
        vocabulary = len(self.tokenizer) + SPARE
        self.constrained = ConstrainedCalls(self.tokenizer, vocabulary, [self.end, 0])
        ends = [number for text, number in self.tokenizer.get_vocab().items() if text in '"}]']
        self._ends = [self.end, 0, *ends]

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def reply(
        self,
        tools: Sequence[ToolSchema],
        seed: int,
        said: str = "",
        messages: Sequence[Message] = (),
    ) -> str:
        """A whole reply to messages that begins with a text."""
        rng, constraint = random.Random(seed), self.constrained.begin(tools, messages)
        reply = self.ids(said)
        assert constraint.consume_tokens(reply), constraint.get_error()
        tokens = rng.randrange(80)
        while True:
            bias = constraint.compute_logit_bias()
            assert len(bias) == len(self.tokenizer) + SPARE
            allowed = [number for number, each in enumerate(bias) if each]
            liked = [number for number in self._ends if bias[number]] if tokens < 0 else []
            chosen = rng.choice(liked or allowed)
            if chosen in (self.end, 0):
                return str(self.tokenizer.decode(reply, skip_special_tokens=False))
            reply.append(chosen)
            tokens -= 1
            assert constraint.consume_token(chosen), constraint.get_error()

    def takes(
        self, tools: Sequence[ToolSchema], text: str, messages: Sequence[Message] = ()
    ) -> bool:
        """Whether a whole reply to messages can be this text."""
        constraint, ids = self.constrained.begin(tools, messages), self.ids(text)
        return constraint.try_consume_tokens(ids) == len(ids) and constraint.is_accepting()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module", params=[False, True], ids=["tags as text", "tags as tokens"])
def model(request: pytest.FixtureRequest, folder: Path) -> RandomModel:
    return RandomModel(folder, request.param)


def tool(name: str, parameters: dict[str, Any]) -> ToolSchema:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


READ = tool("read", {"type": "object", "properties": {"path": {"type": "string"}}})

names = st.text(st.sampled_from('abz_09 "\\é'), min_size=1, max_size=8)
strings = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={"minLength": st.integers(0, 3), "description": st.text(max_size=5)},
)
numbers = st.fixed_dictionaries(
    {"type": st.just("integer")},
    optional={"minimum": st.integers(-5, 5), "maximum": st.integers(6, 9_999)},
)
choices = st.lists(names, min_size=1, max_size=4, unique=True).map(
    lambda values: {"type": "string", "enum": values}
)
scalars = st.one_of(strings, numbers, choices, st.just({"type": "boolean"}))
lists = scalars.map(lambda items: {"type": "array", "items": items})
values = st.one_of(
    scalars,
    lists,
    st.one_of(scalars, lists).map(lambda each: {"anyOf": [each, {"type": "null"}]}),
)


@st.composite
def schemas(draw: st.DrawFn) -> ToolSchema:
    """The schema of a tool, of the kinds that pydantic makes for ours."""
    properties = draw(st.dictionaries(names, values, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
    }
    if draw(st.booleans()):
        parameters["additionalProperties"] = False
    return tool(draw(names), parameters)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    tools=st.lists(
        schemas(), min_size=1, max_size=4, unique_by=lambda each: each["function"]["name"]
    ),
    seed=st.integers(0, 10**6),
    said=st.sampled_from(["", OPEN, f"I look.\n{OPEN}"]),
)
def test_a_random_model_makes_only_valid_calls(
    model: RandomModel, tools: list[ToolSchema], seed: int, said: str
) -> None:
    by_name = {each["function"]["name"]: each["function"]["parameters"] for each in tools}
    content, calls = parse_hermes(model.reply(tools, seed, said), "c")
    assert OPEN not in content
    assert bool(calls) >= bool(said)
    for call in calls:
        jsonschema.validate(json.loads(call.arguments), by_name[call.name])


def all_arguments(base: type[Arguments] = Arguments) -> Iterator[type[Arguments]]:
    """The arguments of every tool."""
    for each in base.__subclasses__():
        yield each
        yield from all_arguments(each)


@pytest.mark.parametrize("arguments", list(all_arguments()), ids=lambda each: each.__name__)
def test_every_tool_takes_what_a_random_model_gives(
    model: RandomModel, arguments: type[Arguments]
) -> None:
    tools = [tool("it", arguments.model_json_schema()), READ]
    for seed in range(12):
        reply = model.reply(tools, seed, f'{OPEN}\n{{"name": "it"')
        call = parse_hermes(reply, "c")[1][0]
        assert call.name == "it"
        arguments.model_validate_json(call.arguments)


CALL = hermes_call("read", '{"path": "a.py"}')


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("It is 3.\n<debug_answer>\n**Answer**: 3 <tool\n</debug_answer>", 0),
        ("<think>\nHm.\n</think>\n\nIt is 3.", 0),
        (f"<think>\nHm.\n</think>\n\nI look.\n{CALL}", 1),
        (CALL, 1),
        (f"I look at both, é.\n{CALL}\n{CALL}", 2),
    ],
)
def test_what_a_model_rightly_says_stays_possible(
    model: RandomModel, text: str, calls: int
) -> None:
    assert model.takes([READ], text)
    # Without tools, as in a forced answer, it is only text.
    assert model.takes([], text) is (calls == 0)
    assert parse_hermes(text, "c")[1] == (ToolCall("c0", "read", '{"path": "a.py"}'),)[:calls] + (
        (ToolCall("c1", "read", '{"path": "a.py"}'),) if calls == 2 else ()
    )


@pytest.mark.parametrize(
    "text",
    [
        f"I look.\n{OPEN}",
        CALL.removesuffix(CLOSE),
        CALL.replace("read", "write"),
        CALL.replace("path", "paths", 1).replace("}}", ', "path": 1}}'),
        CALL.replace('"a.py"', '"\\ud83d"'),
        f"{CALL}\nand then?",
    ],
)
def test_an_invalid_call_is_impossible(model: RandomModel, text: str) -> None:
    assert not model.takes([READ], text)


def test_a_schema_that_cannot_be_followed_is_named(model: RandomModel) -> None:
    odd = tool("odd", {"type": "object", "properties": {"a": {"not": {"type": "string"}}}})
    with pytest.raises(LocalModelFailed, match=r"held to the tools' schemas.*constrain_calls"):
        model.constrained.begin([odd], [])
