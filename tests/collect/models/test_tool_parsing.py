"""Tool calls in text: what is read from what a small model writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.models.tool_parsing import parse_hermes, parse_written
from collect.store.messages import ToolCall, arguments_object


def calls_of(text: str) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in parse_hermes(text, "call_")[1]]


def test_text_without_a_call_is_unchanged() -> None:
    assert parse_hermes("  Done.\n", "call_") == ("  Done.\n", ())


def test_arguments_keep_their_own_text() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"a" :1.0,  "b": "\\u00e9"}}\n</tool_call>'
    assert parse_hermes(text, "call_3_") == (
        "",
        (ToolCall("call_3_0", "f", '{"a" :1.0,  "b": "\\u00e9"}'),),
    )


def test_several_calls_and_the_text_around_them() -> None:
    text = (
        'Look.\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n'
        'And <tool_call>{"arguments": {"x": [1, {"y": 2}]}, "name": "g"}</tool_call> done'
    )
    content, calls = parse_hermes(text, "c")
    assert content == "Look.\n\nAnd  done"
    assert calls == (ToolCall("c0", "f", "{}"), ToolCall("c1", "g", '{"x": [1, {"y": 2}]}'))


def test_tags_within_a_string_belong_to_the_string() -> None:
    arguments = '{"code": "print(\'</tool_call><tool_call>{}\')"}'
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>tail'
    assert parse_hermes(text, "c") == ("tail", (ToolCall("c0", "f", arguments),))


def test_a_missing_closing_tag_ends_at_the_next_call_or_the_end() -> None:
    text = (
        '<tool_call>{"name": "f", "arguments": {"a": 1}}\n'
        '<tool_call>{"name": "g", "arguments": {"b": 2}}'
    )
    assert calls_of(text) == [("f", '{"a": 1}'), ("g", '{"b": 2}')]


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {"a": 1}',
        '{"name": "f", "arguments": {"a": 1}}}',
        '{"name": "f", "arguments": {\'a\': 1}}',
        '{"name": "f", "arguments": {"a": "x',
        '{"name": "f", "arguments": }',
        '{"name": "f", "arguments": {"a": "two\nlines"}}',
        '{"name": "f", "arguments": ' + "[" * 100_000,
    ],
)
def test_a_call_with_broken_json_keeps_its_body_as_arguments(body: str) -> None:
    assert calls_of(f"<tool_call>\n{body}\n</tool_call>") == [("f", body)]
    assert arguments_object(body) == {"malformed_arguments": body}


def test_a_broken_call_does_not_hide_the_next() -> None:
    text = (
        '<tool_call>{"name": "f", "arguments": {</tool_call>\n'
        '<tool_call>{"name": "g", "arguments": {}}</tool_call>'
    )
    assert calls_of(text) == [("f", '{"name": "f", "arguments": {'), ("g", "{}")]


@pytest.mark.parametrize(
    "body", ["", "[]", "[1", "{}", '{"name": 3, "arguments": {}}', '{"name": ""}', "hello", "{"]
)
def test_a_call_without_a_name_is_content(body: str) -> None:
    text = f"a <tool_call>{body}</tool_call> b"
    assert parse_hermes(text, "c") == (text, ())


@pytest.mark.parametrize(
    ("value", "raw"),
    [('"{\\"a\\": 1}"', '"{\\"a\\": 1}"'), ("null", "null"), ("[1, 2]", "[1, 2]"), ("3", "3")],
)
def test_arguments_of_another_type_are_kept(value: str, raw: str) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {value}}}</tool_call>'
    assert calls_of(text) == [("f", raw)]


def test_a_call_without_arguments_has_none() -> None:
    assert calls_of('<tool_call>{"name": "f"}</tool_call>') == [("f", "{}")]


def test_arguments_object_leaves_objects_alone() -> None:
    assert arguments_object('{"a": {"b": []}}') == {"a": {"b": []}}
    assert arguments_object("") == {}
    assert arguments_object("[1]") == {"malformed_arguments": "[1]"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_whatever_was_written_is_read(
    arguments: list[dict[str, object]], ascii_only: bool, indent: int | None
) -> None:
    raws = [json.dumps(value, ensure_ascii=ascii_only, indent=indent) for value in arguments]
    text = "\n".join(
        f'<tool_call>\n{{"name": "tool", "arguments": {raw}}}\n</tool_call>' for raw in raws
    )
    assert calls_of(text) == [("tool", raw) for raw in raws]


@given(st.lists(st.sampled_from(["<tool_call>", "</tool_call>", '{"name": "f"', '"', "}", " x"])))
def test_any_text_is_read_without_an_error(pieces: list[str]) -> None:
    parse_hermes("".join(pieces), "c")


NAMES = {"bash", "read_file"}
CALL = '{"name": "bash", "arguments": {"command": "ls"}}'
LS = ToolCall("call_0", "bash", '{"command": "ls"}')


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (CALL, "", (LS,)),
        (f"I look.\n```json\n{CALL}\n```\n", "I look.", (LS,)),
        (f"```\n{CALL}\n```\nand wait", "and wait", (LS,)),
        (f"<tool_call>\n{CALL}\n</tool_call>", "", (LS,)),
        (f"[{CALL}]", "", (LS,)),
        ('{"name": "bash", "parameters": {"command": "ls"}}', "", (LS,)),
        (f"{CALL}\n{CALL}", "", (LS, ToolCall("call_1", "bash", LS.arguments))),
        (
            '{"name": "bash", "arguments": "not JSON"}',
            "",
            (ToolCall("call_0", "bash", "not JSON"),),
        ),
        ('{"name": "rm", "arguments": {}}', None, ()),
        ('```json\n{"total": 3}\n```', None, ()),
        ("```python\nprint(1)\n```", None, ()),
        (f"For example {CALL}", None, ()),
        ('```json\n{"name": "bash", "arg\n```', None, ()),
        ("[" * 100_000, None, ()),
        ("", None, ()),
    ],
)
def test_calls_that_a_model_writes_are_read(
    text: str, content: str | None, calls: tuple[ToolCall, ...]
) -> None:
    assert parse_written(text, NAMES, "call_") == (text if content is None else content, calls)
