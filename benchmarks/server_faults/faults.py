"""What goes wrong with models' servers. Each fault comes in a conversation that another request can
save: two calls of a tool, then the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.server_faults.apis import Api, Call, Plain, Request, Said

ANSWER = "Done."
LONG = 12_000
"""Characters of a tool's result if the context is to be full."""


@dataclass(frozen=True)
class Refused:
    """An error instead of a reply."""

    status: int
    body: Plain
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """A reply that is none: the model has to be asked again."""

    said: Said


@dataclass
class Exchange:
    """A request in its conversation."""

    api: Api
    backend: str
    request: Request
    turn: int
    """The replies so far."""
    asked: int
    """How often this turn was asked for before."""

    @property
    def is_vllm(self) -> bool:
        return self.backend == "vllm"

    def planned(self, **fields: Any) -> Said:
        """The reply of a server without faults."""
        if self.turn < 2:
            return Said(calls=(self.call(),), **fields)
        return Said(ANSWER, **fields)

    def call(self, **fields: Any) -> Call:
        return Call(f"{self.turn}", **({"id": f"call_{self.turn}"} | fields))

    def refused(self, status: int, message: str, **fields: Any) -> Refused:
        return Refused(status, self.api.error(message, **fields))


Answer = Said | Refused | Broken


@dataclass(frozen=True)
class Fault:
    name: str
    answer: Callable[[Exchange], Answer]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the model."""
    steps: int = 8
    """After which an answer is forced."""
    result_chars: int = 20
    tokens: int | None = None
    """The completion tokens of the conversation, if they are what it is about."""


# Replies that can't be sent back as they came.


def equal_ids(e: Exchange) -> Answer:
    if e.turn:
        return e.planned()
    return Said(calls=(Call("0", "look:0"), Call("1", "look:0")))


def id_again(e: Exchange) -> Answer:
    return Said(calls=(e.call(id="call_0"),)) if e.turn < 2 else e.planned()


def control_token(e: Exchange) -> Answer:
    name = "look<|channel|>commentary"
    return e.planned() if e.turn else Said(calls=(e.call(name=name),))


def long_id(e: Exchange) -> Answer:
    return e.planned() if e.turn else Said(calls=(e.call(id="i" * 300),))


def long_name(e: Exchange) -> Answer:
    return e.planned() if e.turn else Said(calls=(e.call(name="n" * 300),))


def odd_id(e: Exchange) -> Answer:
    return e.planned() if e.turn else Said(calls=(e.call(id="functions.look/ü:0"),))


def not_an_object(e: Exchange) -> Answer:
    return e.planned() if e.turn else Said(calls=(e.call(arguments='["0"]'),))


def signature(e: Exchange) -> Answer:
    if any(call.signature != "c2lnbmVk" for call in e.request.calls):
        return e.refused(400, "Function call is missing a thought_signature in its parts.")
    thought = None if e.api.name == "chat" else "I look."
    return e.planned(signature="c2lnbmVk", thought=thought)


def empty_thought(e: Exchange) -> Answer:
    missing = (each.thought is None and each.signature is None for each in e.request.calls)
    if any(missing):
        return e.refused(400, "reasoning_content is missing in an assistant message with calls")
    return e.planned(thought="")


def empty_text(e: Exchange) -> Answer:
    return e.planned(text="", thought="I look.") if e.turn < 2 else e.planned()


def thought_alone(e: Exchange) -> Answer:
    return Said(thought="I think.") if e.turn == 1 else e.planned()


# A full context.


def full(status: int, words: Mapping[str, str], limit: int, **fields: Any) -> Callable[..., Answer]:
    """A server whose context has so many characters."""

    def answer(e: Exchange) -> Answer:
        if e.request.chars > limit:
            return e.refused(status, words.get(e.backend, words[""]), **fields)
        return e.planned()

    return answer


def full_with_status_200(e: Exchange) -> Answer:
    if e.request.chars <= 1.5 * LONG:
        return e.planned()
    words = "This endpoint's maximum context length is 4096 tokens."
    return Refused(200, {"error": {"message": words, "code": 400}})


def full_twice(e: Exchange) -> Answer:
    """The results of the last turn alone are too long."""
    if e.request.chars > 2.5 * LONG:
        return e.refused(400, "Input is too long for requested model.")
    if e.turn == 1:
        return Said(calls=tuple(Call(f"1{n}", f"call_1{n}") for n in range(3)))
    return e.planned()


WORDS = {
    "": "Prompt exceeds max length",
    "messages": "Input is too long for requested model.",
    "responses": "Input tokens exceed the configured limit of 4096 tokens.",
    "vllm": "max_tokens must be at least 1, got -37.",
}
CRASHES = {
    "": "the request exceeds the available context size, try increasing it",
    "messages": "litellm.ServiceUnavailableError: prompt is too long: 5000 tokens > 4096 maximum",
}


# Errors, and replies that are none.


def in_the_middle(fault: Callable[[Exchange], Answer]) -> Callable[[Exchange], Answer]:
    """The second reply has the fault when it is first asked for."""
    return lambda e: fault(e) if e.turn == 1 and e.asked == 0 else e.planned()


def error_with_status_200(e: Exchange) -> Answer:
    return Refused(200, {"error": {"code": 502, "message": "Network connection lost."}})


def broke_off(e: Exchange) -> Answer:
    word = {"chat": "network_error", "vllm": "abort", "responses": "cancelled"}
    return Broken(Said("Let me now", ended=word.get(e.backend, "error")))


def no_reply_at_all(e: Exchange) -> Answer:
    none = {"prompt_tokens": 100, "completion_tokens": 0, "input_tokens": 100, "output_tokens": 0}
    return Broken(Said(usage=none))


def malformed_call(e: Exchange) -> Answer:
    if e.backend == "chat":
        fields = {"code": "tool_use_failed", "failed_generation": '<function=look{"what"'}
        return e.refused(400, "Failed to call a function.", **fields)
    if e.backend == "vllm":
        return Said(ended="MALFORMED_FUNCTION_CALL")
    return e.refused(500, "Failed to parse tool call arguments as JSON: unexpected end of input")


def cut_while_it_thinks(e: Exchange) -> Answer:
    return Said(thought="I think and think", ended="length")


def rate_limit(e: Exchange) -> Answer:
    dates = ("Thu, 01 Jan 2026 12:00:00 GMT", "Thu, 01 Jan 2026 12:00:00 GMT")
    headers = {"Retry-After": dates[0], "Date": dates[1]}
    return Refused(429, e.api.error("Too many requests"), headers)


def no_tool_choice(e: Exchange) -> Answer:
    if e.request.forbids_calls:
        return e.refused(400, "Invalid tool_choice: none. Supported values are: auto, required")
    return e.planned()


def odd_counts(e: Exchange) -> Answer:
    """As floats, with reasoning that the completion's count leaves out, where there is a total."""
    count: dict[str, Any] = {"prompt_tokens": 100.0, "completion_tokens": 10.0}
    if e.api.name != "chat":
        count = {"input_tokens": 100.0, "output_tokens": 10.0}
    if e.api.name == "messages":
        return e.planned(usage=count | {"output_tokens": 40.0})
    return e.planned(usage=count | {"total_tokens": 140.0})


FAULTS = (
    Fault("two calls with one id", equal_ids),
    Fault("the id of an earlier call", id_again),
    Fault("a control token in a tool's name", control_token),
    Fault("an id of 300 characters", long_id),
    Fault("a name of 300 characters", long_name),
    Fault("an id that the server does not take back", odd_id),
    Fault("arguments that are no object", not_an_object),
    Fault("a signature that must come back", signature),
    Fault(
        "empty reasoning that must come back",
        empty_thought,
        {"reasoning_field": "reasoning_content"},
    ),
    Fault("an empty text beside a call", empty_text),
    Fault("reasoning alone", thought_alone),
    Fault(
        "a full context, by its code",
        full(400, {"": "no"}, int(1.5 * LONG), code="context_length_exceeded"),
        result_chars=LONG,
    ),
    Fault("a full context, by its words", full(400, WORDS, int(1.5 * LONG)), result_chars=LONG),
    Fault(
        "a full context that nothing names",
        full(400, {"": "Bad request"}, int(1.5 * LONG)),
        result_chars=LONG,
    ),
    Fault("a full context as a crash", full(500, CRASHES, int(1.5 * LONG)), result_chars=LONG),
    Fault("a full context with status 200", full_with_status_200, result_chars=LONG),
    Fault("a full context, twice in a row", full_twice, result_chars=LONG),
    Fault("an error with status 200", in_the_middle(error_with_status_200)),
    Fault("a reply that broke off", in_the_middle(broke_off)),
    Fault("a reply without anything", in_the_middle(no_reply_at_all)),
    Fault("a call that the server can't read", in_the_middle(malformed_call)),
    Fault("a reply cut in its reasoning", in_the_middle(cut_while_it_thinks)),
    Fault("a rate limit with a date", in_the_middle(rate_limit)),
    Fault("no tool_choice `none`", no_tool_choice, steps=2),
    Fault("replies only as streams", lambda e: e.planned(), {"stream": True}),
    Fault("token counts as floats, without reasoning", odd_counts, tokens=120),
)
