"""Replies that come as server-sent events, joined to what their server would have sent at once.

The events of the three APIs differ: pieces of a chat completion, pieces of the blocks of a message,
or the whole response in the last event.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

STARTS = ("data:", "event:", "id:", "retry:", ":")
"""What a line of a stream begins with."""
DONE = "[DONE]"
LAST_EVENT = f"data: {DONE}"
TEXTS = frozenset({
    "content", "reasoning_content", "reasoning", "thinking", "refusal", "arguments", "text",
    "summary",
})  # fmt: skip
"""Fields of chat completions, and of parts of their content, that come in pieces; any other comes
whole."""
ENDS = ("response.completed", "response.incomplete", "response.failed")
PIECES = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""The fields of Anthropic's blocks that come in pieces, by the type of the piece."""
CUT = "the stream ended before the reply did"


def is_stream(body: str) -> bool:
    return body.lstrip("\ufeff \r\n").startswith(STARTS)


def joined(body: str) -> dict[str, Any]:
    """The reply that a stream adds up to, or `{"error": ...}` if the server sends an error in it.

    Raises ValueError if the stream ends before the reply, or has other events; RecursionError.
    """
    events = list(_events(body))
    error = next((event["error"] for event in events if event.get("error")), None)
    if error is not None:
        return {"error": error}
    kinds = {str(event.get("type")) for event in events}
    try:
        if "message_start" in kinds:
            return _joined_blocks(events)
        if any(kind.startswith("response.") for kind in kinds):
            return _last_response(events)
        return _joined_chunks(events, body.rstrip().endswith(DONE))
    except (KeyError, TypeError, AttributeError) as unexpected:
        raise ValueError(f"no stream of a known API: {unexpected!r:.200}") from unexpected


def _events(body: str) -> Iterator[dict[str, Any]]:
    for part in body.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = (line[5:].removeprefix(" ") for line in part.split("\n") if line[:5] == "data:")
        data = "\n".join(lines).strip()
        if data and data != DONE:
            event = json.loads(data)
            if isinstance(event, dict):
                yield event


@dataclass(frozen=True)
class _Text:
    """A text that is not whole yet."""

    pieces: list[str]


def _add(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a piece of a chat completion's message or call to what came of it before."""
    for name, value in piece.items():
        known = whole.get(name)
        if isinstance(value, str) and name in TEXTS:
            whole[name] = _with_text(known, value)
        elif isinstance(value, list) and isinstance(known, list | _Text):
            whole[name] = _with_parts(known, value)
        elif isinstance(value, dict) and isinstance(known, dict):
            _add(known, value)
        elif known not in (None, ""):
            continue
        elif isinstance(value, dict):
            whole[name] = {}
            _add(whole[name], value)
        else:
            whole[name] = value


def _with_text(known: Any, piece: str) -> _Text | list[Any]:
    if isinstance(known, list):  # Mistral's thinking comes in parts, and its text as a text
        return _with_parts(known, [{"type": "text", "text": piece}])
    if isinstance(known, _Text):
        known.pieces.append(piece)
        return known
    return _Text([known, piece] if isinstance(known, str) else [piece])


def _with_parts(known: list[Any] | _Text, parts: list[Any]) -> list[Any]:
    """A list with further parts, the first of which may continue the last one that came before."""
    whole = [{"type": "text", "text": known}] if isinstance(known, _Text) else known
    if whole and parts and _continues(whole[-1], parts[0]):
        _add(whole[-1], parts[0])
        parts = parts[1:]
    whole += parts
    return whole


def _continues(last: Any, part: Any) -> bool:
    """Whether a part of a content or of reasoning belongs to the one before it."""
    if not isinstance(last, dict) or not isinstance(part, dict):
        return False
    if not isinstance(part.get("type"), str) or part["type"] != last.get("type"):
        return False
    facts = (name for name in part.keys() - TEXTS if part[name] not in (None, ""))
    return all(last.get(name) in (None, "", part[name]) for name in facts)


def _whole(value: Any) -> Any:
    """The same with whole texts."""
    if isinstance(value, _Text):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def _joined_chunks(chunks: Sequence[dict[str, Any]], done: bool) -> dict[str, Any]:
    """A chat completion."""
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {"index": 0}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    last_of: dict[Any, dict[str, Any]] = {}
    for chunk in chunks:
        for name in ("model", "usage", "prompt_token_ids"):
            if chunk.get(name) is not None:
                whole[name] = chunk[name]
        for piece in chunk.get("choices") or ():
            if piece.get("index", 0) != 0:
                continue
            _add_facts(choice, piece)
            delta = dict(piece.get("delta") or piece.get("message") or {})
            for call in delta.pop("tool_calls", None) or ():
                number = call.get("index")
                if _is_new(call, last_of.get(number)):
                    last_of[number] = {}
                    calls.append(last_of[number])
                _add(last_of[number], call)
            _add(message, delta)
    if choice.get("finish_reason") is None and not done:
        raise ValueError(CUT)
    if calls:
        message["tool_calls"] = [_whole(call) for call in calls]
    return whole | {"choices": [choice | {"message": _whole(message)}]}


def _is_new(call: dict[str, Any], last: dict[str, Any] | None) -> bool:
    """Whether a call begins with this piece; `last` is the last one with its number. Some servers
    number all calls with 0, or none; some give each piece another id, and the first alone a name.
    """
    if last is None:
        return True
    has_name = bool((call.get("function") or {}).get("name"))
    return has_name and call.get("id") not in (None, "", last.get("id"))


def _add_facts(choice: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add what a piece says about the choice, other than its message."""
    for name in ("finish_reason", "native_finish_reason", "error"):
        if piece.get(name) is not None:
            choice[name] = piece[name]
    if piece.get("token_ids") is not None:
        choice.setdefault("token_ids", []).extend(piece["token_ids"])
    if sampled := (piece.get("logprobs") or {}).get("content"):
        choice.setdefault("logprobs", {"content": []})["content"].extend(sampled)


def _joined_blocks(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A message of Anthropic's API."""
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    texts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for event in events:
        match event.get("type"):
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                delta = event["delta"]
                if name := PIECES.get(delta["type"]):
                    texts[event["index"], name].append(delta[name])
            case "message_delta":
                usage = (message.get("usage") or {}) | (event.get("usage") or {})
                message |= event["delta"] | {"usage": usage}
    if not any(event.get("type") == "message_stop" for event in events):
        raise ValueError(CUT)
    for (index, name), pieces in texts.items():
        text = "".join(pieces)
        if name != "partial_json":
            blocks[index][name] = (blocks[index].get(name) or "") + text
        elif text:  # as the model wrote it, valid or not
            blocks[index]["input"] = text
    return message | {"content": [blocks[index] for index in sorted(blocks)]}


def _last_response(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A response of OpenAI's API. The last event has it whole, with some servers without items."""
    ends = [event["response"] for event in events if event.get("type") in ENDS]
    if not ends:
        raise ValueError(CUT)
    items = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    return dict(ends[-1]) | {"output": ends[-1].get("output") or items}
