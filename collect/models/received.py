"""Replies of models, so that they can be sent back: to the server that gave them, and to any other.

A server can refuse what it, or another one, gave: ids that occur twice, names with control tokens,
empty texts. Then each later request of the conversation would fail. What is received gets valid ids
and names once, before it is stored; the row has what was said beside them. What only its server can
read (signatures, encrypted reasoning, fields of its own) is kept as it came.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collect.store.messages import BROKEN, Message, ToolCall, arguments_object
from sandbox.text import storable

MAX_ID = 40
"""Characters of a call's id that OpenAI takes, which has the lowest limit."""
SENDABLE_ID = re.compile(rf"[A-Za-z0-9_.:-]{{1,{MAX_ID}}}")
PORTABLE_ID = re.compile(r"[A-Za-z0-9]{9}")
"""What every server takes: Mistral's take no other ids."""
MAX_DIGITS = 10
"""Of the number at an id's end, which counts up from nine at most."""
COUNTED = re.compile(rf"[0-9]{{0,{MAX_DIGITS - 1}}}$")
MAX_NAME = 64
SENDABLE_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME - 1}}}")
NO_TEXT = "(no text)"
"""Stands in requests for a reply without text or calls, which many servers would not take back."""
UNSIGNED = "skip_thought_signature_validator"
"""What Gemini takes in place of the signature of a call that is not its own."""


def received(reply: Message, used: Collection[str]) -> Message:
    """The reply with valid names, and with valid ids that are not among the `used` ones of earlier
    calls. A reply that has been through this is left as it is.
    """
    ids = _Ids(used)
    calls = [_with_valid_id(_with_valid_name(call), ids) for call in reply.tool_calls]
    return replace(reply, tool_calls=tuple(calls))


def _with_valid_id(call: ToolCall, ids: _Ids) -> ToolCall:
    valid = ids.unused(_valid_id(call.id))
    if valid == call.id:
        return call
    return replace(call, id=valid, said_id=call.said_id or call.id)


def _with_valid_name(call: ToolCall) -> ToolCall:
    valid = _valid_name(call.name)
    if valid == call.name:
        return call
    return replace(call, name=valid, said_name=call.name)


def _valid_id(said: str) -> str:
    if SENDABLE_ID.fullmatch(said):
        return said
    return re.sub(r"[^A-Za-z0-9_.:-]+", "_", said)[:MAX_ID].strip("_") or "call"


class _Ids:
    """The ids of a conversation's calls."""

    def __init__(self, used: Collection[str]) -> None:
        self._taken = set(used)
        self._reached: dict[str, int] = {}
        """The last number that was given to ids that begin so. Without it a reply with a hundred
        thousand equal ids would take hours."""

    def unused(self, wanted: str) -> str:
        """The id, with the number at its end counted up as far as needed: some models' chat
        templates want ids that end in a number. The result is used then.
        """
        digits = COUNTED.search(wanted)
        assert digits is not None, "it matches the end"
        stem = wanted[: digits.start()]
        number = int(digits[0] or 0)
        unused = wanted
        begin = stem[: MAX_ID - MAX_DIGITS]
        if wanted in self._taken:
            number = max(number, self._reached.get(begin, 0))
        while unused in self._taken:
            number += 1
            unused = f"{stem[: MAX_ID - len(str(number))]}{number}"
            self._reached[begin] = number
        self._taken.add(unused)
        return unused


def _valid_name(said: str) -> str:
    if SENDABLE_NAME.fullmatch(said):
        return said
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", said[: 4 * MAX_NAME]).strip("_-")
    if not name:
        return "unnamed"
    return (name if re.match("[A-Za-z_]", name) else f"_{name}")[:MAX_NAME]


# What a server wants back as it came.


def kept(api: str, items: Any) -> str:
    """The value of `Message.provider_items` for what an API gave."""
    return json.dumps({api: items}, ensure_ascii=False)


def own_items(
    message: Message, api: str, written: Callable[[ToolCall], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The items of a reply as its API gave them; empty if none were kept. Calls have the ids, names
    and arguments that can be sent back, which is what `written` gives.
    """
    calls = [written(call) for call in message.tool_calls]
    items = []
    for item in _objects(_own(message, api)):
        if calls and item.get("type") == calls[0]["type"]:
            items.append(item | calls.pop(0))
        else:
            items.append(item)
    return items


def _own(message: Message, api: str) -> Any:
    """What an API gave; None if it gave nothing. No request can hold NaN or infinity, which are
    null here.
    """
    try:
        by_api = json.loads(message.provider_items or "{}", parse_constant=lambda _: None)
    except BROKEN:
        return None
    return by_api.get(api) if isinstance(by_api, dict) else None


def _objects(items: Any) -> list[dict[str, Any]]:
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def chat_fields(message: Message) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The fields that a chat server added to a reply, and those that it added to each call."""
    own = _own(message, "chat")
    if not isinstance(own, dict):
        return {}, []
    given = own.get("message")
    return given if isinstance(given, dict) else {}, _objects(own.get("calls"))


def without_empty(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields of a server's own that say something."""
    return {
        name: value
        for name, value in fields.items()
        if name not in known and value not in (None, "", [], {})
    }


# Sending earlier replies.


@dataclass(frozen=True)
class Form:
    """How earlier replies are sent. It changes only if a server refuses the form that it is in."""

    portable: bool = False
    """Without what only the server that gave a reply can read, and with ids that every server
    takes."""
    reasoning_field: str | None = None
    """The name under which the server wants reasoning back, beside the one in the config."""
    marks_unsigned: bool = False
    """Whether calls of other models are marked as such, as Gemini wants it."""
    thinks: bool = True
    """Whether Anthropic's `thinking` is asked for. It refuses to think on after a call that was
    made without."""

    def after(self, refusal: str) -> Form | None:
        """The form to try after a refusal in these words; None if all were tried."""
        said = refusal.lower()
        if "reasoning_content" in said and self.reasoning_field is None:
            return replace(self, reasoning_field="reasoning_content")
        if re.search("thought.?signature", said) and not self.marks_unsigned:
            return replace(self, marks_unsigned=True)
        if "expected `thinking`" in said and self.thinks:
            return replace(self, thinks=False)
        return None if self.portable else replace(self, portable=True)

    def sent(self, messages: Sequence[Message]) -> Iterator[Message]:
        """The messages in this form, without calls that nobody answered."""
        answered = {message.tool_call_id for message in messages if message.role == "tool"}
        for message in messages:
            whole = _with_calls_in(message, answered)
            given = portable(whole) if self.portable else whole
            yield self._with_fields(given) if given.role == "assistant" else given

    def _with_fields(self, message: Message) -> Message:
        """The reply with the fields that the server asked for."""
        own = chat_fields(message)
        given, calls = own
        if self.reasoning_field is not None:
            given = given | {self.reasoning_field: message.reasoning or ""}
        if self.marks_unsigned and message.tool_calls and "extra_content" not in str(calls):
            # One mark is enough: Gemini signs the first of several calls.
            calls = [{"extra_content": {"google": {"thought_signature": UNSIGNED}}}]
        if (given, calls) == own:
            return message
        return replace(message, provider_items=kept("chat", {"message": given, "calls": calls}))


def _with_calls_in(message: Message, answered: Collection[str | None]) -> Message:
    calls = tuple(call for call in message.tool_calls if call.id in answered)
    if calls == message.tool_calls:
        return message
    return replace(message, tool_calls=calls, provider_items=None)


def portable(message: Message) -> Message:
    """The message for a server that did not give it."""
    calls = tuple(replace(call, id=_portable_id(call.id)) for call in message.tool_calls)
    answers = message.tool_call_id and _portable_id(message.tool_call_id)
    content = "" if calls and not message.content.strip() else message.content
    return replace(
        message, content=content, tool_calls=calls, tool_call_id=answers, provider_items=None
    )


def _portable_id(own: str) -> str:
    return own if PORTABLE_ID.fullmatch(own) else hashlib.sha256(own.encode()).hexdigest()[:9]


def written_arguments(given: Any) -> str:
    """Arguments that a server gives decoded, as text; half a character is escaped."""
    text = json.dumps(given, ensure_ascii=False)
    return text if storable(text) == text else json.dumps(given)


def sent_text(message: Message) -> str:
    """The content of a message that has nothing else to send."""
    return message.content if message.content.strip() else NO_TEXT


def sent_arguments(call: ToolCall) -> str:
    """A call's arguments as servers take them back: the raw text if it is an object, else that text
    in an object.
    """
    if call.arguments and call.is_valid:
        return call.arguments
    return json.dumps(arguments_object(call.arguments))
