"""Tool calls whose name stands in or after a tag, with arguments as JSON or in tags of their own.

Models of these families write them if their server has no parser for them: Qwen3-Coder, Nemotron
and Seed (`<function=NAME>`), MiniMax and DeepSeek-V3.2 (`<invoke name="NAME">`), GLM (`<arg_key>`),
Mistral (`[TOOL_CALLS]NAME[ARGS]`), Kimi, DeepSeek and gpt-oss (control tokens).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from collect.store.messages import BROKEN

Written = tuple[str, str]
"""A call's name and the text of its arguments."""
Found = tuple[int, int, list[Written]]
"""Where calls begin and end in a text, with the tags around them."""
Schemas = Mapping[str, Mapping[str, Any]]
"""The schemas of the arguments, by the tools' names."""
DECODER = json.JSONDecoder()
_BAR, _GAP = "\uff5c", "\u2581"
"""DeepSeek's bar and space."""
_NAMED = re.compile(
    rf"""
    (?:<(?:\w+:)?tool_call>\s*)?
        <function(?:=|\ name=)"?(?P<function>[^\s"<>=]{{1,100}})"?\s*>
    | (?:<(?:{_BAR}DSML{_BAR}|\w+:)?(?:function_calls|tool_calls?)>\s*)?
        <(?:{_BAR}DSML{_BAR}|\w+:)?invoke\ name="(?P<invoke>[^"<>]{{1,100}})"\s*>
    | <tool_call>\s*(?P<glm>[\w.-]{{1,100}})\s*(?=<arg_key>|</tool_call>)
    | \[TOOL_CALLS\]\s*(?P<mistral>[\w.-]{{1,100}})(?:\[CALL_ID\]\w{{1,40}})?(?:\[ARGS\])?
        (?=\s*\{{)
    | (?:<\|tool_calls_section_begin\|>\s*)?<\|tool_call_begin\|>\s*
        (?:functions\.)?(?P<kimi>[\w.-]{{1,100}})(?::\d+)?\s*<\|tool_call_argument_begin\|>
    | (?:<{_BAR}tool{_GAP}calls{_GAP}begin{_BAR}>\s*)?<{_BAR}tool{_GAP}call{_GAP}begin{_BAR}>
        (?:function<{_BAR}tool{_GAP}sep{_BAR}>)?(?P<deepseek>[\w.-]{{1,100}})
        (?:<{_BAR}tool{_GAP}sep{_BAR}>)?
    | (?:<\|start\|>assistant\s{{0,3}})?(?:<\|channel\|>(?:commentary|analysis)\s{{1,3}})?
        to=functions\.(?P<harmony>[\w.-]{{1,100}})
        (?:<\|channel\|>\w{{1,20}})?\s{{0,3}}(?:<\|constrain\|>)?\s?\w{{0,10}}<\|message\|>
    """,
    re.VERBOSE,
)
_PARAMETER = re.compile(
    rf"""
    \s*(?:<(?:{_BAR}DSML{_BAR}|\w+:)?parameter(?:=|\ name=)"?(?P<name>[^\s"<>=]{{1,100}})"?
        (?:\ string="(?P<string>true|false)")?\s*>
    | <arg_key>\s*(?P<key>[^<>]{{1,100}}?)\s*</arg_key>\s*<arg_value>)
    """,
    re.VERBOSE,
)
_END = re.compile(
    rf"</(?:{_BAR}DSML{_BAR}|\w+:)?(?:parameter|arg_value)>"
    rf"(?=\s*(?:</?(?:{_BAR}DSML{_BAR}|\w+:)?(?:parameter|function|invoke|tool_call|arg_key)|$))"
    r"|(?=</(?:function|invoke|tool_call)>)"
)
"""The end of a value, which may hold the tag itself, or the end of the call if it has none."""
_AFTER = re.compile(
    rf"""
    \s*(?:```
    | </(?:{_BAR}DSML{_BAR}|\w+:)?(?:function|invoke|tool_calls?|function_calls)>
    | <\|(?:tool_call_end|tool_calls_section_end|call|im_end|eot_id)\|>
    | <{_BAR}tool{_GAP}calls?{_GAP}end{_BAR}>)
    """,
    re.VERBOSE,
)


def named_calls(text: str, position: int, schemas: Schemas) -> Iterator[Found]:
    """The calls from here on, each with its tags."""
    while opening := _NAMED.search(text, position):
        name = next(filter(None, opening.groups()))
        arguments, position = _arguments(text, opening.end(), schemas.get(name, {}))
        if opening["glm"] and position == opening.end() and name not in schemas:
            continue  # a word in a tag
        while closing := _AFTER.match(text, position):
            position = closing.end()
        yield opening.start(), position, [(name, arguments)]


def _arguments(text: str, position: int, schema: Mapping[str, Any]) -> tuple[str, int]:
    """The arguments that begin here, and their end. JSON that is broken is taken as it is."""
    start = skip_space(text, position)
    if text.startswith("```", start):
        start = skip_space(text, (text.find("\n", start) + 1) or start)
    if text.startswith("{", start):
        try:
            end = DECODER.raw_decode(text, start)[1]
        except BROKEN:
            ending = re.compile("```|</(?:function|invoke|tool_call)>|<\\||$").search(text, start)
            end = ending.start() if ending else len(text)
        return text[start:end].strip(), end
    given: dict[str, Any] = {}
    end = position
    while parameter := _PARAMETER.match(text, end):
        ending = _END.search(text, parameter.end())
        stop, end = ending.span() if ending else (len(text), len(text))
        name = str(parameter["name"] or parameter["key"])
        is_text = parameter["string"] == "true"
        value = text[parameter.end() : stop].removeprefix("\n").removesuffix("\n")
        given[name] = value if is_text else typed(value, schema.get("properties", {}).get(name))
    return json.dumps(given, ensure_ascii=False), end


def typed(text: str, schema: Any) -> Any:
    """The value that a text in a tag is: JSON, unless the schema has a text there."""
    alternatives = [schema, *schema.get("anyOf", ())] if isinstance(schema, dict) else []
    kinds = {part.get("type") for part in alternatives if isinstance(part, dict)}
    if "string" in kinds and not ("null" in kinds and text == "null"):
        return text
    try:
        return json.loads(text.lower() if "boolean" in kinds else text)
    except BROKEN:
        return text


def raw_members(text: str) -> dict[str, str]:
    """The members of a JSON object, with values as raw text. Raises ValueError otherwise."""
    if not isinstance(json.loads(text), dict):
        raise ValueError("not a JSON object")
    members: dict[str, str] = {}
    position = skip_space(text, 1)
    while text[position] != "}":
        key, position = DECODER.raw_decode(text, position)
        start = skip_space(text, skip_space(text, position) + 1)
        _, end = DECODER.raw_decode(text, start)
        members[key] = text[start:end]
        position = skip_space(text, end)
        if text[position] == ",":
            position = skip_space(text, position + 1)
    return members


def skip_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position
