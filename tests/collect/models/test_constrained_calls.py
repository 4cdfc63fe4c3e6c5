"""Replies that can hold no invalid call, whatever the model would say."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llguidance", reason="needs the extra train")

from transformers import AddedToken, AutoTokenizer

import collect.agents.inspectcoder.inspector  # noqa: F401
from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import subagent_schemas
from collect.agents.debug_tools import (
    Control,
    DefaultStartArguments,
    Inspect,
    RunCode,
    SetBreakpoint,
    StartSession,
    breakpoint_request,
)
from collect.agents.file_tools import Grep, ListFiles, ReadFile
from collect.agents.tools import Arguments
from collect.errors import LocalModelFailed
from collect.live.environment import EnvironmentArguments
from collect.models.constrained_calls import ConstrainedCalls
from collect.models.tool_parsing import CLOSE, OPEN, hermes_call, parse_calls
from collect.store.messages import LEFT_OUT, Message, ToolCall, ToolSchema
from sandbox.debugger import ALLOWED, State
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

STOP = "Paused at shop/cart.py:12 in Cart.total ({reason})\n->      12      total = price(item)"
TASK = Message(
    "user",
    "Question: what is `total`?\nTest: tests/test_cart.py::test_total[1 a]\n\n"
    "Start of the debug session:\n" + STOP.format(reason="breakpoint 1"),
)
POST_MORTEM = STOP.format(reason="post mortem: an exception ended the run")
ANSWERS = {
    State.START: "The debug session is closed.",
    State.RUNTIME: STOP.format(reason="step"),
    State.POST_MORTEM: POST_MORTEM,
    State.DONE: "Program ended with exit code 0",
}
"""What a conversation last said, by the state that the session then has."""


def conversation(state: State) -> list[Message]:
    said = Message("assistant", "I saw lib/unseen.py:3.")
    return [TASK, said, Message("tool", ANSWERS[state], name="debug_control")]


def debug_schemas(form: Literal["compact", "full"], files: bool = True) -> list[ToolSchema]:
    config = AgentsConfig(sub_file_tools=files, debug_run_code=True, subagent_form=form)
    return subagent_schemas("python", config)


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
    content, calls = parse_calls(model.reply(tools, seed, said, [TASK]), [], "c")
    assert OPEN not in content
    assert bool(calls) >= bool(said)
    for call in calls:
        jsonschema.validate(json.loads(call.arguments), by_name[call.name])


def all_arguments(base: type[Arguments] = Arguments) -> Iterator[type[Arguments]]:
    """The arguments of every tool of a model's; the environment's is for MCP clients."""
    for each in base.__subclasses__():
        if each is EnvironmentArguments:
            continue
        yield each
        yield from all_arguments(each)


@pytest.mark.parametrize("arguments", list(all_arguments()), ids=lambda each: each.__name__)
def test_every_tool_takes_what_a_random_model_gives(
    model: RandomModel, arguments: type[Arguments]
) -> None:
    tools = [tool("it", arguments.model_json_schema()), READ]
    for seed in range(12):
        reply = model.reply(tools, seed, f'{OPEN}\n{{"name": "it"')
        call = parse_calls(reply, [], "c")[1][0]
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
    assert parse_calls(text, [], "c")[1] == (ToolCall("c0", "read", '{"path": "a.py"}'),)[
        :calls
    ] + ((ToolCall("c1", "read", '{"path": "a.py"}'),) if calls == 2 else ())


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


ARGUMENTS: dict[str, type[Arguments]] = {
    StartSession.name: DefaultStartArguments,
    **{
        each.name: each.arguments
        for each in (Inspect, Control, SetBreakpoint, RunCode, Grep, ListFiles, ReadFile)
    },
}


def action_of(call: ToolCall) -> str:
    """The debugger's action that a call of a debug tool leads to."""
    what = call.text("what") or call.text("action")
    breakpoints = {each: f"{each}_breakpoint" for each in ("set", "remove")}
    own = {**breakpoints, "list": "list_breakpoints", "terminate": "close", "collect": "continue"}
    unnamed = {"debug_start_session": "start", "debug_run_code": "run_code"}
    return unnamed.get(call.name) or own.get(what, what)


def check_place(location: str, shown: str) -> None:
    request = breakpoint_request(location)
    if request.file is not None:
        assert request.file in ("shop/cart.py", "tests/test_cart.py")
    elif request.exception is None:
        assert request.function
        for name in re.findall(r"[^.<>$]+", request.function):
            assert re.search(rf"\b{name}\b", shown) or f"<{name}>" in request.function


@pytest.mark.parametrize("form", ["compact", "full"])
@pytest.mark.parametrize("state", ANSWERS)
def test_a_random_model_calls_debug_tools_rightly(
    model: RandomModel, state: State, form: Literal["compact", "full"]
) -> None:
    messages, tools = conversation(state), debug_schemas(form)
    shown = "\n".join(each.content for each in messages if each.role != "assistant")
    for seed in range(4):
        ran, calls = False, parse_calls(model.reply(tools, seed, OPEN, messages), [], "c")[1]
        assert calls
        for call in calls:
            given: Any = ARGUMENTS[call.name].model_validate_json(call.arguments)
            if call.name.startswith("debug_") and not ran:
                assert action_of(call) in ALLOWED[state]
            ran |= call.name in ("debug_start_session", "debug_control")
            what = call.text("what") or call.text("action")
            if what in ("evaluate", "fields"):
                assert given.expression
            if what == "remove":
                assert given.number is not None
            if what in ("set", "collect"):
                check_place(given.location or "", shown)
            for location in getattr(given, "breakpoints", ()):
                check_place(location, shown)


def hermes(name: str, **arguments: object) -> str:
    return hermes_call(f"debug_{name}", json.dumps(arguments))


EVALUATE = hermes("inspect", what="evaluate", expression="total")
CONTINUE, RESTART = hermes("control", action="continue"), hermes("control", action="restart")


@pytest.mark.parametrize("form", ["compact", "full"])
@pytest.mark.parametrize(
    ("state", "right", "wrong"),
    [
        (
            State.RUNTIME,
            [
                EVALUATE,
                f"I go on.\n{CONTINUE}\n{EVALUATE}",
                hermes("breakpoint", action="set", location="shop/cart.py:14 if total > 3"),
                hermes("breakpoint", action="collect", location="Cart.price", watch=["a"]),
                hermes("breakpoint", action="set", location="uncaught exception KeyError"),
                hermes("breakpoint", action="remove", number=1),
                hermes("start_session", breakpoints=["total", "tests/test_cart.py:3"]),
                hermes("start_session", test="tests/test_cart.py::test_total[1 a]"),
                hermes_call("read_file", '{"path": "lib/imported.py"}'),
                hermes_call("grep", '{"pattern": "x", "path": "lib/unseen.py"}'),
                hermes("breakpoint", action="set", location="cart.py:14"),
                "It is at cart.py:3. I tested it.",
                "It is 3/4 (shop/cart.py:12). See shop/cart.py, and shop/: cart.py. Or N/A.",
            ],
            [
                hermes("inspect", what="evaluate"),
                hermes("inspect", what="fields", expression=""),
                hermes("breakpoint", action="set"),
                hermes("breakpoint", action="set", location=""),
                hermes("breakpoint", action="set", location=None),
                hermes("breakpoint", action="remove"),
                hermes("breakpoint", action="set", location="lib/unseen.py:3"),
                hermes("breakpoint", action="set", location="Cart.prices"),
                hermes("start_session", breakpoints=["cart/shop.py:3"]),
                "It is in lib/",
                "It is in shop/car_",
                "It is in tests/test_car.",
                "It is in shop/carts.py",
                "It is in shop.cart.py",
                hermes("breakpoint", action="set", location="shop.cart.py"),
                "It is at xshop/cart.py:12.",
                f"I stop at cart/shop.py:12.\n{CONTINUE}",
            ],
        ),
        (State.POST_MORTEM, [EVALUATE, f"{EVALUATE}\n{RESTART}\n{CONTINUE}"], [CONTINUE]),
        (
            State.DONE,
            [RESTART, hermes("breakpoint", action="list")],
            [EVALUATE, CONTINUE, hermes("breakpoint", action="collect", location="total")],
        ),
        (State.START, [f"{hermes('start_session')}\n{EVALUATE}"], [RESTART, EVALUATE]),
    ],
)
def test_replies_follow_the_conversation(
    model: RandomModel,
    state: State,
    right: list[str],
    wrong: list[str],
    form: Literal["compact", "full"],
) -> None:
    messages, tools = conversation(state), debug_schemas(form)
    assert [each for each in right if not model.takes(tools, each, messages)] == []
    assert [each for each in wrong if model.takes(tools, each, messages)] == []


def test_a_folder_is_not_broken_off(model: RandomModel) -> None:
    tools, asked = debug_schemas("compact"), Message("user", "Why? See boltons/cache.py:3")
    for text in ("It is bolton", "It is boltons.", "I bolted it.", "It is in boltons/cache"):
        assert model.takes(tools, text, [asked])
    for text in ("It is bolton ", "It is in bolton_cache", "It is in boltons/cash"):
        assert not model.takes(tools, text, [asked])
    said = Message("system", "A bolton is a tool.")
    assert model.takes(tools, "It is a bolton.", [said, asked])


def test_what_can_not_be_seen_is_left_open(model: RandomModel) -> None:
    tools = debug_schemas("compact")
    left_out = Message("tool", LEFT_OUT.format(count=900), name="debug_control")
    assert model.takes(tools, EVALUATE, [Message("user", "Why?"), left_out])
    assert model.takes(tools, "It was lib/unseen.py:3.", [TASK, left_out])
    printed = Message("tool", "Killed: 3 of 4 monsters", name="debug_run_code")
    assert model.takes(tools, EVALUATE, [TASK, printed])
    asked = replace(TASK, content=f"Program ended early. Why?\n{TASK.content}")
    assert model.takes(tools, EVALUATE, [asked])
    failed = Message("tool", "Error (launch_failed): no place", name="debug_breakpoint")
    assert model.takes(tools, RESTART, [*conversation(State.DONE), failed])
    start = hermes("start_session", test="a.py::b", breakpoints=["a.py:3"])
    assert model.takes(tools, start, [Message("user", "Why?")])
    for folder, count in (("a", 999), ("a" * 200, 100)):
        many = Message("user", " ".join(f"{folder}/b{number}.py" for number in range(count)))
        assert model.takes(tools, start, [many])
    words = Message("user", "shop/cart.py " + " ".join(f"word{number}" for number in range(999)))
    for location, possible in (("any.name", True), ("shop/cart.py:3", True), ("b.py:3", False)):
        start = hermes("start_session", breakpoints=[location])
        assert model.takes(tools, start, [words]) is possible
    bash = tool("bash", {"type": "object", "properties": {"command": {"type": "string"}}})
    assert model.takes([*tools, bash], "It is at lib/unseen.py:3.", conversation(State.DONE))
    found = hermes("start_session", test="tests/test_cart.py::test_of_grep")
    for searches in (True, False):
        offered = debug_schemas("compact", files=searches)
        assert model.takes(offered, found, [TASK]) is searches


@pytest.mark.parametrize(
    ("place", "location"),
    [
        ("my (odd) [dir]/it's.py:3 in run", "my (odd) [dir]/it's.py:3"),
        ("añb/c+d#$&~.py:3 in run", "añb/c+d#$&~.py:4 if x == 'ñ'"),
        ("src/Cart.java:3 in Cart$1.lambda$total$0", "Cart$1.lambda$total$0"),
        ("cart.py:3 in outer.<locals>.<lambda>", "outer.<locals>.<lambda>"),
    ],
)
def test_places_can_have_odd_names(model: RandomModel, place: str, location: str) -> None:
    stopped = Message("tool", f"Paused at {place} (step)", name="debug_control")
    said = f"It is at {place.partition(' in ')[0]}.\n"
    call = hermes_call("debug_breakpoint", f'{{"action": "set", "location": "{location}"}}')
    assert model.takes(debug_schemas("full"), said + call, [TASK, stopped])


@pytest.mark.parametrize("name", ["a.py::test_a[b[0]-(1, 2)]", "a b/test_c.py::T::test_d", "ñ c"])
def test_tests_can_have_odd_names(model: RandomModel, name: str) -> None:
    tools = debug_schemas("full", files=False)
    start = hermes_call("debug_start_session", f'{{"test": "{name}"}}')
    assert model.takes(tools, start, [Message("user", f"Question: why?\nTest: {name}")])
    failed = Message("tool", f"FAILED {name}, later", name="debug_start_session")
    if " " not in name.partition("[")[0]:
        assert model.takes(tools, start, [TASK, failed])
