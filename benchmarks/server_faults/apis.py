"""The three APIs of models' servers: how a reply is written, and what a strict server refuses."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Plain = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call that the model makes."""

    what: str
    id: str
    name: str = "look"
    arguments: str | None = None
    """None: those that the tool takes."""

    @property
    def text(self) -> str:
        return json.dumps({"what": self.what}) if self.arguments is None else self.arguments


@dataclass(frozen=True)
class Said:
    """A reply of the model, in no API's form."""

    text: str | None = None
    calls: tuple[Call, ...] = ()
    thought: str | None = None
    signature: str | None = None
    """What its API wants back with the calls."""
    ended: str | None = None
    """The server's word; None: the usual one."""
    usage: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    """An error that the server adds to the reply."""


@dataclass(frozen=True)
class Sent:
    """A call or a result in a request."""

    id: str
    name: str = ""
    signature: str | None = None
    thought: str | None = None


@dataclass(frozen=True)
class Request:
    """What a server sees of a request."""

    body: Plain
    calls: Sequence[Sent] = ()
    results: Sequence[Sent] = ()
    problem: str | None = None
    """Why a strict server refuses it."""

    @property
    def chars(self) -> int:
        return len(json.dumps(self.body))

    @property
    def forbids_calls(self) -> bool:
        return self.body.get("tool_choice") in ("none", {"type": "none"})


@dataclass(frozen=True)
class Api:
    """One API."""

    name: str
    path: str

    def reply(self, said: Said, prompt: int) -> Plain:
        """A reply's body; `prompt` is the number of its prompt's tokens."""
        raise NotImplementedError

    def events(self, said: Said, prompt: int) -> Iterator[Plain]:
        """The same as the events of a stream."""
        raise NotImplementedError

    def read(self, body: Plain) -> Request:
        raise NotImplementedError

    def error(self, message: str, **fields: Any) -> Plain:
        return {"error": {"message": message, "type": "invalid_request_error", **fields}}

    def ended(self, said: Said) -> str:
        """Its word for how a reply ended."""
        usual = "tool_calls" if said.calls else "stop"
        return said.ended or usual


def _problem(calls: Sequence[Sent], results: Sequence[Sent]) -> str | None:
    """What every strict server refuses."""
    twice = [each for each, count in Counter(call.id for call in calls).items() if count > 1]
    if twice:
        return f"Duplicate value for 'tool_call_id' of {twice[0]!r}"
    for call in calls:
        if not NAME.fullmatch(call.name):
            return "Invalid name: string does not match pattern '^[a-zA-Z0-9_-]{1,64}$'."
        if not ID.fullmatch(call.id):
            return "Invalid id: string does not match pattern '^[a-zA-Z0-9_-]{1,64}$'."
    if Counter(call.id for call in calls) != Counter(result.id for result in results):
        return "Each call must be followed by its result"
    return None


def _is_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, TypeError):
        return False


class Chat(Api):
    """OpenAI's chat completions, as vLLM and most servers speak them."""

    def reply(self, said: Said, prompt: int) -> Plain:
        message: Plain = {"role": "assistant", "content": said.text}
        if said.calls:
            message["tool_calls"] = [self._call(call, said.signature) for call in said.calls]
        if said.thought is not None:
            message["reasoning_content"] = said.thought
        usage = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
        choice = {"index": 0, "message": message, "finish_reason": self.ended(said)}
        if said.error is not None:
            choice["error"] = said.error
        return {"choices": [choice], "usage": said.usage or usage, "model": "scripted"}

    def _call(self, call: Call, signature: str | None) -> Plain:
        function = {"name": call.name, "arguments": call.text}
        written: Plain = {"id": call.id, "type": "function", "function": function}
        if signature is not None:
            written["extra_content"] = {"google": {"thought_signature": signature}}
        return written

    def events(self, said: Said, prompt: int) -> Iterator[Plain]:
        whole = self.reply(said, prompt)
        message = whole["choices"][0]["message"]
        yield _chunk({"role": "assistant", "content": ""})
        for piece in re.findall(r".{1,3}", message["content"] or ""):
            yield _chunk({"content": piece})
        for index, call in enumerate(message.get("tool_calls", ())):
            text = call["function"]["arguments"]
            begun = call | {"index": index, "function": call["function"] | {"arguments": ""}}
            yield _chunk({"tool_calls": [begun]})
            for piece in re.findall(r".{1,5}", text):
                yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield _chunk({}, self.ended(said))
        yield {"choices": [], "usage": whole["usage"]}

    def read(self, body: Plain) -> Request:
        replies = [each for each in body["messages"] if each["role"] == "assistant"]
        calls, problem = list[Sent](), None
        for message in replies:
            if not message.get("tool_calls") and not (message.get("content") or "").strip():
                problem = "Assistant message must have either content or tool_calls"
            if message.get("tool_calls") and message.get("content") == "":
                problem = "content must be null or text that is not empty"
            for call in message.get("tool_calls") or ():
                if not _is_object(call["function"]["arguments"]):
                    problem = "function.arguments must be a JSON object"
                google = call.get("extra_content", {}).get("google", {})
                thought = message.get("reasoning_content")
                signature = google.get("thought_signature")
                calls.append(Sent(call["id"], call["function"]["name"], signature, thought))
        results = [Sent(m["tool_call_id"]) for m in body["messages"] if m["role"] == "tool"]
        return Request(body, calls, results, problem or _problem(calls, results))


def _chunk(delta: Plain, ended: str | None = None) -> Plain:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": ended}]}


class Messages(Api):
    """Anthropic's."""

    def reply(self, said: Said, prompt: int) -> Plain:
        blocks: list[Plain] = []
        if said.thought is not None:
            thinking = {"type": "thinking", "thinking": said.thought}
            blocks.append(thinking | {"signature": said.signature or "c2ln"})
        if said.text is not None:
            blocks.append({"type": "text", "text": said.text})
        for call in said.calls:
            given = json.loads(call.text)
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
        usage = said.usage or {"input_tokens": prompt, "output_tokens": 10}
        return {
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": blocks,
            "stop_reason": self.ended(said),
            "usage": usage,
        } | ({"error": said.error} if said.error else {})

    def ended(self, said: Said) -> str:
        words = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
        usual = super().ended(said)
        return words.get(usual, usual)

    def events(self, said: Said, prompt: int) -> Iterator[Plain]:
        whole = self.reply(said, prompt)
        begun = whole | {"content": [], "stop_reason": None}
        yield {"type": "message_start", "message": begun}
        for index, block in enumerate(whole["content"]):
            text = block.get("text") or json.dumps(block.get("input"))
            empty: Plain = {"text": ""} if block["type"] == "text" else {"input": {}}
            start = {"type": "content_block_start", "index": index}
            yield start | {"content_block": block | empty}
            kind = ("text_delta", "text")
            if block["type"] == "tool_use":
                kind = ("input_json_delta", "partial_json")
            for piece in re.findall(r".{1,5}", text):
                delta = {"type": kind[0], kind[1]: piece}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        stopped = {"stop_reason": whole["stop_reason"]}
        yield {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 10}}
        yield {"type": "message_stop"}

    def read(self, body: Plain) -> Request:
        calls, results, problem = list[Sent](), list[Sent](), None
        for turn in body["messages"]:
            thinking = None
            for block in turn["content"]:
                if block["type"] == "text" and not block["text"].strip():
                    problem = "messages: text content blocks must be non-empty"
                if block["type"] == "thinking":
                    thinking = block
                if block["type"] == "tool_use":
                    signature = (thinking or {}).get("signature")
                    thought = (thinking or {}).get("thinking")
                    calls.append(Sent(block["id"], block["name"], signature, thought))
                if block["type"] == "tool_result":
                    results.append(Sent(block["tool_use_id"]))
            if not turn["content"] or turn["content"][-1]["type"] == "thinking":
                problem = "messages: the final block in an assistant message cannot be `thinking`"
        return Request(body, calls, results, problem or _problem(calls, results))

    def error(self, message: str, **fields: Any) -> Plain:
        return {"type": "error", **super().error(message, **fields)}


class Responses(Api):
    """OpenAI's newer one."""

    def reply(self, said: Said, prompt: int) -> Plain:
        items: list[Plain] = []
        if said.thought is not None:
            summary = [{"type": "summary_text", "text": said.thought}] if said.thought else []
            signed = {"encrypted_content": said.signature or "c2ln"}
            items.append({"type": "reasoning", "id": "rs_1", "summary": summary, **signed})
        if said.text is not None:
            part = {"type": "output_text", "text": said.text}
            items.append({"type": "message", "id": "m", "role": "assistant", "content": [part]})
        for call in said.calls:
            written = {"call_id": call.id, "name": call.name, "arguments": call.text}
            items.append({"type": "function_call", **written})
        ended, usage = self.ended(said), {"input_tokens": prompt, "output_tokens": 10}
        body: Plain = {"object": "response", "model": "scripted", "output": items}
        body |= {"usage": said.usage or usage, "status": "completed", "error": said.error}
        if ended == "length":
            body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        elif ended not in ("stop", "tool_calls"):
            body["status"] = ended
        return body

    def events(self, said: Said, prompt: int) -> Iterator[Plain]:
        whole = self.reply(said, prompt)
        yield {"type": "response.created", "response": whole | {"output": []}}
        for index, item in enumerate(whole["output"]):
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": whole}

    def read(self, body: Plain) -> Request:
        calls, results, problem = list[Sent](), list[Sent](), None
        thinking, before = None, ""
        for item in body["input"]:
            kind = item.get("type") or item["role"]
            if before == "reasoning" and kind in ("user", "function_call_output"):
                problem = "Item 'rs_1' of type 'reasoning' was provided without its following item."
            if kind == "reasoning":
                thinking = item
            if kind == "message" and not item["content"][0]["text"]:
                problem = "Invalid 'input': the text is empty"
            if kind == "function_call":
                if not _is_object(item["arguments"]):
                    problem = "function_call.arguments must be a JSON object"
                signature = (thinking or {}).get("encrypted_content")
                calls.append(Sent(item["call_id"], item["name"], signature))
            if kind == "function_call_output":
                results.append(Sent(item["call_id"]))
                thinking = None
            before = kind
        return Request(body, calls, results, problem or _problem(calls, results))


APIS = (
    Chat("chat", "/v1/chat/completions"),
    Messages("messages", "/v1/messages"),
    Responses("responses", "/v1/responses"),
)
