"""Tool calls in a model's text, in the forms that models are trained to write or write unasked.

A call between tags is a call whatever it names or lacks, so that the agent can answer it with an
error; without tags it is one only if it names a tool that the model has. The Hermes form,
`<tool_call>{"name": ..., "arguments": ...}</tool_call>`, is used by the templates of Qwen, Hermes
and SmolLM3, and by vLLM's `hermes` parser. `tagged_calls` has the forms of other families.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress

from collect.models.tagged_calls import (
    DECODER,
    Found,
    Schemas,
    Written,
    named_calls,
    raw_members,
    skip_space,
)
from collect.store.messages import BROKEN, ToolCall, ToolSchema

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_TAG = re.compile(f"{OPEN}|{CLOSE}")
_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)+)"')
_LISTED = re.compile(
    r"\[TOOL_CALLS\]|<\|python_tag\|>|<\|python_start\|>|<\|tool_call\|>|<\|tool_call_start\|>"
    r"|<\|START_ACTION\|>|<TOOLCALL>|<tool_calls>|<toolcall>|\bfunctools(?=\[)"
)
"""What precedes JSON, or calls in the form of Python's, in other families' replies."""
_UNLISTED = re.compile(
    r"\s*(?:<\|(?:eom_id|eot_id|python_end|/tool_call|tool_call_end|END_ACTION|im_end)\|>"
    r"|</(?:TOOLCALL|tool_calls|toolcall|s)>)*"
)
THINK, THOUGHT = "<think>", "</think>"
ARGUMENTS = ("arguments", "parameters", "input")
_BEGUN = re.compile(r"\[?\s{0,9}\{")
NEAR = 1_000
"""Characters in which the name of a broken call is looked for."""
_PYTHON = re.compile(r"\s*\[?\s*([A-Za-z_]\w{0,99})\(")
_PYTHON_END = re.compile(r"<\|(?:tool_call_end|python_end|eom_id|eot_id)\|>|\Z")
MAX_PYTHON = 20_000
"""Characters of calls in the form of Python's, which its parser reads slowly."""


def hermes_call(name: str, arguments: str) -> str:
    """A call in the Hermes form, spaced as chat templates do; the arguments are JSON."""
    return f'{OPEN}\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n{CLOSE}'


def broken_hermes_call(call: ToolCall) -> str:
    """A call with broken JSON, as `parse_calls` has read it."""
    if _NAME.search(call.arguments):
        return f"{OPEN}\n{call.arguments}\n{CLOSE}"
    return hermes_call(call.name, call.arguments)


def parse_calls(
    text: str, tools: Sequence[ToolSchema], id_prefix: str
) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a reply into its content and its tool calls, with arguments as raw text.

    A call with broken JSON has its whole body as arguments if its name can be read; otherwise it
    stays in the content. Without calls the content is the unchanged reply. What a model only
    thought of calling is content.
    """
    functions = [tool["function"] for tool in tools]
    schemas = {function["name"]: function.get("parameters", {}) for function in functions}
    position = _thought(text)
    found = list(_tagged(text, position, schemas)) or list(_untagged(text, position, schemas))
    content = text[:position]
    calls: list[ToolCall] = []
    for start, end, written in found:
        content, position = content + text[position:start], end
        for name, arguments in written:
            calls.append(ToolCall(f"{id_prefix}{len(calls)}", name, arguments))
    content += text[position:]
    return (content.strip() if calls else content), tuple(calls)


def _thought(text: str) -> int:
    """Where the reasoning that a reply begins with ends; 0 if it begins with none."""
    end = text.find(THOUGHT)
    if end < 0:
        return 0
    # A chat template can have opened it.
    opened = text.lstrip().startswith(THINK) or next(_tagged(text[:end], 0, {}), None) is None
    return end + len(THOUGHT) if opened else 0


def _tagged(text: str, position: int, schemas: Schemas) -> Iterator[Found]:
    """The calls between tags: in each of the families' forms, from the first that is there on."""
    named, listed = named_calls(text, position, schemas), _listed(text, position, schemas)
    hermes = _hermes(text, position)
    # Of two that begin at one place the named one is read wholly.
    starts = {found[0]: found for form in (hermes, listed, named) for found in form}
    end = position
    for start in sorted(starts):
        if start >= end:
            yield starts[start]
            end = starts[start][1]


def _hermes(text: str, position: int) -> Iterator[Found]:
    while (start := text.find(OPEN, position)) >= 0:
        position = _call_end(text, start + len(OPEN))
        body = text[start:position].removeprefix(OPEN).removesuffix(CLOSE).strip()
        written = _all_json(body)
        if written is None:
            name = _NAME.search(body)
            written = [(name[1], body)] if name else []
        if written:
            yield start, position, written


def _call_end(text: str, start: int) -> int:
    """The end of the call whose body starts here, including its closing tag.

    Valid JSON is skipped first, since its strings may contain tags.
    """
    body = skip_space(text, start)
    if text.startswith(("{", "["), body):
        with suppress(*BROKEN):
            _, body = DECODER.raw_decode(text, body)
    tag = _TAG.search(text, body)
    if tag is None:
        return len(text)
    return tag.end() if tag[0] == CLOSE else tag.start()


def _listed(text: str, position: int, schemas: Schemas) -> Iterator[Found]:
    """Calls after a mark, as JSON, one or a list, or in the form of Python's."""
    is_python = True
    for mark in _LISTED.finditer(text, position):
        if mark.start() < position:
            continue
        start = skip_space(text, mark.end())
        end, written = _json_at(text, start)
        if not written and _BEGUN.match(text, start):
            end = len(text)
            name = _NAME.search(text, start, start + NEAR)
            written = [(name[1], text[start:].strip())] if name else []
        elif not written and is_python and _PYTHON.match(text, start):
            ending = _PYTHON_END.search(text, start, start + MAX_PYTHON + 1)
            end = ending.start() if ending else start
            written = _python(text[start:end], schemas)
            is_python = bool(written)  # to try it at each mark would take too long
        if written:
            closing = _UNLISTED.match(text, end)
            position = closing.end() if closing else end
            yield mark.start(), position, written


def _json_at(text: str, position: int) -> tuple[int, list[Written]]:
    """The calls that begin here, as JSON, and their end."""
    calls: list[Written] = []
    end = position
    with suppress(*BROKEN):
        while text.startswith(("{", "["), position):
            _, end_of_value = DECODER.raw_decode(text, position)
            calls += _calls_of(text[position:end_of_value])
            end = end_of_value
            position = skip_space(text, end)
            if text.startswith((";", ","), position):
                position = skip_space(text, position + 1)
    return end, calls


def _all_json(text: str) -> list[Written] | None:
    """The calls of a text that consists of them; None if there is anything else in it."""
    end, calls = _json_at(text, 0)
    return calls if calls and not text[end:].strip() else None


def _calls_of(value: str) -> list[Written]:
    """The calls that a JSON object, or a list of objects, is. Raises ValueError if it is anything
    else.
    """
    if not value.startswith("["):
        return [_call_of(value)]
    calls = list[Written]()
    position = skip_space(value, 1)
    while value[position] != "]":
        _, end = DECODER.raw_decode(value, position)
        calls.append(_call_of(value[position:end]))
        position = skip_space(value, end)
        if value[position] == ",":
            position = skip_space(value, position + 1)
    return calls


def _call_of(value: str) -> Written:
    members = raw_members(value)
    if members.get("function", "").startswith("{"):
        members = raw_members(members["function"])
    name = json.loads(members.get("name") or members.get("tool_name") or "null")
    if not isinstance(name, str) or not name:
        raise ValueError("no call")
    given = next((members[key] for key in ARGUMENTS if key in members), "{}")
    if given.startswith('"'):  # some write the object into a text
        text = str(json.loads(given))
        if ToolCall("", name, text).is_valid:
            given = text
    return name, given


def _python(text: str, schemas: Schemas) -> list[Written]:
    """The calls of known tools, with keywords, that a text is in the form of Python's."""
    first = _PYTHON.match(text)
    if first is None or first[1] not in schemas or len(text) > MAX_PYTHON:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that are none
            (expression,) = ast.parse(text.strip()).body
        assert isinstance(expression, ast.Expr)
        value = expression.value
        made = value.elts if isinstance(value, ast.List) else [value]
        return [_python_call(node, schemas) for node in made]
    except (*BROKEN, SyntaxError, TypeError, AssertionError, MemoryError):
        return []


def _python_call(node: ast.expr, schemas: Schemas) -> Written:
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    assert node.func.id in schemas
    assert not node.args
    given = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return node.func.id, json.dumps(given, ensure_ascii=False)


_FENCE = re.compile(r"^```[\w-]*[ \t]*\n", re.M)
_FENCE_END = re.compile(r"^```[ \t]*$", re.M)


def _untagged(text: str, position: int, schemas: Schemas) -> Iterator[Found]:
    """Calls of known tools that are all of a fenced block, or of the reply."""
    blocks = list(_fenced(text, position)) or [(position, len(text), text[position:])]
    for start, end, body in blocks:
        written = _known(body.strip().removesuffix(CLOSE).strip(), schemas)
        if written:
            yield start, end, written


def _fenced(text: str, position: int) -> Iterator[tuple[int, int, str]]:
    for opening in _FENCE.finditer(text, position):
        if opening.start() < position:
            continue
        closing = _FENCE_END.search(text, opening.end())
        body_end, position = closing.span() if closing else (len(text), len(text))
        yield opening.start(), position, text[opening.end() : body_end]


def _known(text: str, schemas: Schemas) -> list[Written]:
    calls = _all_json(text) or _python(text, schemas)
    return calls if all(name in schemas for name, _ in calls) else []
