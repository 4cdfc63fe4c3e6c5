"""Tool calls in text: what is read from what a small model writes."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.models.tool_parsing import parse_calls
from collect.store.messages import ToolCall, ToolSchema, arguments_object


def calls_of(text: str) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in parse_calls(text, [], "call_")[1]]


def test_text_without_a_call_is_unchanged() -> None:
    assert parse_calls("  Done.\n", [], "call_") == ("  Done.\n", ())


def test_arguments_keep_their_own_text() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"a" :1.0,  "b": "\\u00e9"}}\n</tool_call>'
    assert parse_calls(text, [], "call_3_") == (
        "",
        (ToolCall("call_3_0", "f", '{"a" :1.0,  "b": "\\u00e9"}'),),
    )


def test_several_calls_and_the_text_around_them() -> None:
    text = (
        'Look.\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n'
        'And <tool_call>{"arguments": {"x": [1, {"y": 2}]}, "name": "g"}</tool_call> done'
    )
    content, calls = parse_calls(text, [], "c")
    assert content == "Look.\n\nAnd  done"
    assert calls == (ToolCall("c0", "f", "{}"), ToolCall("c1", "g", '{"x": [1, {"y": 2}]}'))


def test_tags_within_a_string_belong_to_the_string() -> None:
    arguments = '{"code": "print(\'</tool_call><tool_call>{}\')"}'
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>tail'
    assert parse_calls(text, [], "c") == ("tail", (ToolCall("c0", "f", arguments),))


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
    assert parse_calls(text, [], "c") == (text, ())


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('"a"', '"a"'),
        ("null", "null"),
        ("[1, 2]", "[1, 2]"),
        ("3", "3"),
    ],
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
    parse_calls("".join(pieces), [], "c")


def tool(name: str, **arguments: object) -> ToolSchema:
    parameters = {"type": "object", "properties": arguments}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    tool("bash", command={"type": "string"}),
    tool(
        "read_file",
        path={"type": "string"},
        first={"type": "integer"},
        whole={"type": "boolean"},
        lines={"anyOf": [{"type": "array"}, {"type": "null"}]},
        of={"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
]
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
            (ToolCall("call_0", "bash", '"not JSON"'),),
        ),
        ('{"name": "rm", "arguments": {}}', None, ()),
        ('```json\n{"total": 3}\n```', None, ()),
        ("```python\nprint(1)\n```", None, ()),
        (f"For example {CALL}", None, ()),
        ('```json\n{"name": "bash", "arg\n```', None, ()),
        (f"```json\n{CALL}", "", (LS,)),
        (f"{CALL}\n</tool_call>", "", (LS,)),
        ("[" * 100_000, None, ()),
        ("", None, ()),
    ],
)
def test_calls_that_a_model_writes_are_read(
    text: str, content: str | None, calls: tuple[ToolCall, ...]
) -> None:
    assert parse_calls(text, TOOLS, "call_") == (text if content is None else content, calls)


LIST = '{"command": "ls"}'


def deepseek(text: str) -> str:
    """The text with DeepSeek's bars and spaces."""
    return text.replace("|", "\uff5c").replace("~", "\u2581")


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{CALL}",
        f"<think>\nI do.\n</think>\n\n{CALL}",
        f"I do.\n</think>\n\n<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>[{CALL}]</tool_call>",
        "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=bash>\n<parameter=command>\nls",
        "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</function>\n</tool_call>",
        '<function name="bash"><parameter name="command">ls</parameter></function>',
        f"<function=bash>{LIST}</function>",
        f"[TOOL_CALLS][{CALL}]",
        f"[TOOL_CALLS] [{CALL}]</s>",
        f"[TOOL_CALLS]bash[ARGS]{LIST}",
        f"[TOOL_CALLS]bash[CALL_ID]abc123DEF[ARGS]{LIST}",
        f"[TOOL_CALLS]bash{LIST}",
        '<|python_tag|>{"name": "bash", "parameters": {"command": "ls"}}<|eom_id|>',
        '<|python_tag|>bash(command="ls")',
        '[bash(command="ls")]',
        '<|tool_call_start|>[bash(command="ls")]<|tool_call_end|>',
        '```tool_code\nbash(command="ls")\n```',
        f"<|tool_call|>[{CALL}]<|/tool_call|>",
        f"functools[{CALL}]",
        f"<TOOLCALL>[{CALL}]</TOOLCALL>",
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "bash", '
        '"parameters": {"command": "ls"}}]<|END_ACTION|>',
        '{"type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}',
        '{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}',
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
        '<minimax:tool_call>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
        '<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n'
        "</invoke>\n</function_calls>",
        deepseek(
            '<|DSML|function_calls>\n<|DSML|invoke name="bash">\n'
            '<|DSML|parameter name="command" string="true">ls</|DSML|parameter>\n'
            "</|DSML|invoke>\n</|DSML|function_calls>"
        ),
        deepseek(
            "<|tool~calls~begin|><|tool~call~begin|>function<|tool~sep|>bash\n```json\n"
            f"{LIST}\n```<|tool~call~end|><|tool~calls~end|>"
        ),
        deepseek(f"<|tool~call~begin|>bash<|tool~sep|>{LIST}<|tool~call~end|>"),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
        f"{LIST}<|tool_call_end|><|tool_calls_section_end|>",
        f"<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{LIST}<|call|>",
        f"<|start|>assistant to=functions.bash<|channel|>commentary json<|message|>{LIST}",
    ],
)
def test_the_forms_of_all_families_are_read(text: str) -> None:
    content, calls = parse_calls(text, TOOLS, "call_")
    assert [(call.name, call.arguments) for call in calls] == [("bash", LIST)]
    thought = text.partition("</think>")[0] + "</think>" if "</think>" in text else ""
    assert content == thought.strip()


def test_values_in_tags_are_what_the_schema_says() -> None:
    given = {"path": "1", "first": "7", "whole": "True", "lines": "[1, 2]", "of": "null", "x": "a"}
    texts = "".join(f"<parameter={key}>\n{each}\n</parameter>\n" for key, each in given.items())
    call = f"<tool_call>\n<function=read_file>\n{texts}</function>\n</tool_call>"
    (found,) = parse_calls(f"I read.\n{call}\nNow.", TOOLS, "c")[1]
    assert json.loads(found.arguments) == {
        **{"path": "1", "first": 7, "whole": True, "lines": [1, 2], "of": None, "x": "a"}
    }


def test_a_value_in_a_tag_can_hold_the_tag() -> None:
    value = "s.replace('</parameter>', '<function=x>')\n\n"
    call = f"<function=bash>\n<parameter=command>\n{value}\n</parameter>\n</function>"
    content, (found,) = (
        parse_calls(f"I do.\n\n{call}\n{call}", TOOLS, "c")[0],
        parse_calls(call, TOOLS, "c")[1],
    )
    assert (content, json.loads(found.arguments)) == ("I do.", {"command": value})


def test_several_calls_of_a_family() -> None:
    text = f"Both.[TOOL_CALLS]bash[ARGS]{LIST}[TOOL_CALLS]read_file[ARGS]{{}}\n\nI wait."
    content, calls = parse_calls(text, TOOLS, "c")
    assert (content, [call.name for call in calls]) == ("Both.\n\nI wait.", ["bash", "read_file"])


@pytest.mark.parametrize(
    "text",
    [
        f"<think>I could <tool_call>{CALL}</tool_call> but I don't.</think>\nDone.",
        f"I could call {CALL} here.",
        "print(bash(command='ls'))",
        "bash('ls')",
        "rm(path='a')",
        "Use `[TOOL_CALLS]` before a call.",
        "<tool_call>word</tool_call>",
        "```python\nbash = 3\n```",
    ],
)
def test_what_is_no_call_is_content(text: str) -> None:
    assert parse_calls(text, TOOLS, "c") == (text, ())


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("<function=bash>{'command': 'ls'}</function>", "{'command': 'ls'}"),
        ('[TOOL_CALLS][{"name": "bash", "arguments": {"command": "l', None),
        ('[TOOL_CALLS]bash[ARGS]{"command": "l', '{"command": "l'),
        ('<|python_tag|>{"name": "bash", "parameters": {"command": "l', None),
    ],
)
def test_a_broken_call_between_tags_is_answered(text: str, arguments: str | None) -> None:
    (call,) = parse_calls(text, TOOLS, "c")[1]
    assert (call.name, call.is_valid) == ("bash", False)
    assert call.arguments == (arguments or text[text.index("[{" if "[{" in text else "{") :])


pieces = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<function=f>", "<parameter=a>", "</parameter>", "[ARGS]"),
        *("[TOOL_CALLS]", "<|python_tag|>", "f(", "a=1)", "[", "]", "{", "}", '"', "```\n", " x"),
        *(
            '{"name": "f"}',
            '<invoke name="f">',
            "<arg_key>",
            "<think>",
            "</think>",
            "\\",
            "(" * 300,
        ),
    ]
)


@given(st.lists(pieces))
def test_any_text_of_any_family_is_read_without_an_error(some: list[str]) -> None:
    content, calls = parse_calls("".join(some), [tool("f")], "c")
    assert calls or content == "".join(some)


def test_deeply_nested_lists_take_no_hours() -> None:
    """With a decoding of each list's content anew, this would be 300 megabytes of JSON."""
    call = f'{{"name": "read", "arguments": {{"lines": [{"1," * 500_000}1]}}}}'
    text = f"{'[' * 300}{call}{']' * 300}"
    began = time.process_time()
    read = {"type": "function", "function": {"name": "read"}}
    assert parse_calls(text, [read], "c") == (text, ())
    assert time.process_time() - began < 5
