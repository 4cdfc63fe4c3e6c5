"""Tool calls in a model's text: in the Hermes form, and as models write them unasked.

The Hermes form, `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, is used by the templates
of Qwen, Hermes and SmolLM3, and by vLLM's `hermes` parser. Unlike that one, a call with broken JSON
stays a call, so that the agent can answer it with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from collect.store.messages import BROKEN, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_TAG = re.compile(f"{OPEN}|{CLOSE}")
_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)+)"')
_DECODER = json.JSONDecoder()


def hermes_call(name: str, arguments: str) -> str:
    """A call in the Hermes form, spaced as chat templates do; the arguments are JSON."""
    return f'{OPEN}\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n{CLOSE}'


def broken_hermes_call(call: ToolCall) -> str:
    """A call with broken JSON, as `parse_hermes` has read it."""
    if _NAME.search(call.arguments):
        return f"{OPEN}\n{call.arguments}\n{CLOSE}"
    return hermes_call(call.name, call.arguments)


def parse_hermes(text: str, id_prefix: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a reply into its content and its tool calls, with arguments as raw text.

    A call with broken JSON has its whole body as arguments if its name can be read; otherwise it
    stays in the content. Without calls the content is the unchanged reply.
    """
    content, position = "", 0
    calls: list[ToolCall] = []
    while (start := text.find(OPEN, position)) >= 0:
        content += text[position:start]
        position = _call_end(text, start + len(OPEN))
        piece = text[start:position]
        body = piece.removeprefix(OPEN).removesuffix(CLOSE).strip()
        try:
            members = _raw_members(body)
            name, arguments = json.loads(members.get("name", "null")), members.get("arguments")
        except BROKEN:
            found = _NAME.search(body)
            name, arguments = (found[1] if found else None), body
        if isinstance(name, str) and name:
            calls.append(ToolCall(f"{id_prefix}{len(calls)}", name, arguments or "{}"))
        else:
            content += piece
    content += text[position:]
    return (content.strip() if calls else content), tuple(calls)


def _call_end(text: str, start: int) -> int:
    """The end of the call whose body starts here, including its closing tag.

    Valid JSON is skipped first, since its strings may contain tags.
    """
    try:
        _, body = _DECODER.raw_decode(text, _skip_space(text, start))
    except BROKEN:
        body = start
    tag = _TAG.search(text, body)
    if tag is None:
        return len(text)
    return tag.end() if tag[0] == CLOSE else tag.start()


def _raw_members(text: str) -> dict[str, str]:
    """The members of a JSON object, with values as raw text. Raises ValueError otherwise."""
    if not isinstance(json.loads(text), dict):
        raise ValueError("not a JSON object")
    members: dict[str, str] = {}
    position = _skip_space(text, 1)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        start = _skip_space(text, _skip_space(text, position) + 1)
        _, end = _DECODER.raw_decode(text, start)
        members[key] = text[start:end]
        position = _skip_space(text, end)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
    return members


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position


_OPENING = re.compile(rf"(?P<tag>{OPEN})|(?P<fence>^```[\w-]*[ \t]*\n)", re.MULTILINE)
_CLOSING = {"tag": re.compile(CLOSE), "fence": re.compile(r"^```[ \t]*$", re.MULTILINE)}


def parse_written(
    text: str, names: Collection[str], id_prefix: str
) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a reply into its content and the calls of these tools that are written in it as JSON:
    between tags, in fenced blocks, or as the whole reply.

    JSON that is no call of a known tool stays in the content.
    """
    found = list(_blocks(text))
    content, position = "", 0
    calls: list[ToolCall] = []
    for (start, end), body in found or [((0, len(text)), text)]:
        written = _written(body.strip(), names)
        if written:
            content, position = content + text[position:start], end
        for name, arguments in written:
            calls.append(ToolCall(f"{id_prefix}{len(calls)}", name, arguments))
    content += text[position:]
    return (content.strip() if calls else content), tuple(calls)


def _blocks(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """The blocks between tags or fences, and what is in them."""
    position, unclosed = 0, set[str]()
    for opening in _OPENING.finditer(text):
        kind = str(opening.lastgroup)
        if opening.start() < position or kind in unclosed:
            continue
        closing = _CLOSING[kind].search(text, opening.end())
        if closing is None:
            unclosed.add(kind)
        else:
            position = closing.end()
            yield (opening.start(), position), text[opening.end() : closing.start()]


def _written(text: str, names: Collection[str]) -> list[tuple[str, str]]:
    """The calls in a text that consists of them; none if there is anything else in it."""
    calls = []
    position = 0
    try:
        while position < len(text):
            value, end = _DECODER.raw_decode(text, position)
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, dict) or each.get("name") not in names:
                    return []
                given = each.get("arguments", each.get("parameters", {}))
                arguments = given if isinstance(given, str) else json.dumps(given)
                calls.append((each["name"], arguments))
            position = _skip_space(text, end)
    except (*BROKEN, TypeError):
        return []
    return calls
