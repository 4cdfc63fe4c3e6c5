"""What servers' refusals mean: their words, codes and waits."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from collect.models.refusals import Cause, Refusal, read_refusal, refusal_in

FULL = [
    # OpenAI, and the servers that speak like it
    "This model's maximum context length is 4097 tokens. However, your messages resulted in 5012.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Input length (70210) exceeds model's maximum context length (65536).",
    "Requested token count exceeds the model's maximum context length of 32768 tokens.",
    "This endpoint's maximum context length is 65536 tokens. However, you requested about 70001.",
    # vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp, Ollama, LM Studio
    "max_tokens must be at least 1, got -37.",
    "max_completion_tokens must be at least 1, got -1200",
    "The decoder prompt (length 9100) is longer than the maximum model length of 8192.",
    "You passed 8193 input tokens and requested 0 output tokens. However, the model's context "
    "length is only 8192 tokens, resulting in a maximum input length of 8192 tokens.",
    "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
    "Prompt length (6001) exceeds maximum input length (4096).",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4001 "
    "`inputs` tokens and 512 `max_new_tokens`",
    "the request exceeds the available context size. try increasing the context size",
    "Context size has been exceeded.",
    "prompt too long; exceeded max context length by 17 tokens",
    "Trying to keep the first 7000 tokens when context the overflows. However, the model is loaded "
    "with context length of only 4096 tokens, which is not enough.",
    "Prompt has 4100 tokens, but the configured context size is 4096 tokens",
    # Anthropic, Bedrock, Google, xAI, Cohere, Mistral, Groq, GitHub, Poolside, Together
    "prompt is too long: 201001 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000",
    "Request size exceeds model context window",
    "Input is too long for requested model.",
    "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 65536 but the request contains 70000 tokens.",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4400",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
    "context length",
    "Please reduce the length of the messages or completion.",
    "Request body too large for a model. Max size: 8000 tokens.",
    "prompt token count of 70000 exceeds the limit of 64000",
    "Input length 130000 exceeds the maximum allowed input length of 122880 tokens",
    "Input tokens exceed the configured limit of 272000 tokens.",
    # Moonshot, Zhipu, DashScope, MiniMax
    "Invalid request: Your request exceeded model token limit: 65536 (requested: 70000)",
    "Prompt exceeds max length",
    "Prompt 超长",
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
    "invalid params, context window exceeds limit (2013)",
    "输入长度超过模型上限",
    # What stands behind each message of some gateways.
    "Range of input length should be [1, 30720] (request id: 20251012)",
    "Input length 9000 exceeds the limit of 8192. Model name: m",
]
OTHER = [
    "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum "
    "length 40, but got a string with length 53 instead.",
    "Invalid 'tools[0].function.name': string too long. Expected maximum length 64.",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
    "max_tokens (9000) exceeds the limit of 8192",
    "Unknown parameter: 'top_k'.",
    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    "Duplicate value for 'tool_call_id'",
    "Unsupported value: 'temperature' does not support 0 with this model.",
    "This model only support stream mode, please enable the stream parameter",
    "messages: text content blocks must be non-empty",
    "Function call is missing a thought_signature in functionCall parts.",
]
SLOW = [
    "net/http: request canceled while waiting for connection (Client.Timeout exceeded while "
    "awaiting headers)",
    "request failed: context deadline exceeded",
    "the number of concurrent requests exceeded the limit",
    "Upstream request exceeded the time-out",
    "requests.exceptions.ConnectionError: Max retries exceeded with url: /v1",
    "queue limit of 8 requests exceeded",
]


def refused(message: str, status: int = 400, **fields: Any) -> Refusal:
    return read_refusal(status, json.dumps({"error": {"message": message, **fields}}), {})


@pytest.mark.parametrize("message", FULL)
def test_a_full_context_is_known_by_its_words(message: str) -> None:
    for status in (400, 413, 422, 500, 503):
        refusal = refused(message, status)
        assert refusal.cause is Cause.FULL_CONTEXT
        assert not refusal.retried
    behind = refused("Provider returned error", metadata={"raw": json.dumps({"message": message})})
    assert behind.cause is Cause.FULL_CONTEXT
    assert behind.message == " ".join(f"Provider returned error: {message}".split())


@pytest.mark.parametrize("message", OTHER)
def test_other_limits_are_no_full_context(message: str) -> None:
    assert refused(message).cause is Cause.OTHER


@pytest.mark.parametrize("message", SLOW)
def test_a_server_that_is_slow_or_busy_is_asked_again(message: str) -> None:
    for status in (500, 503, 504):
        assert refused(message, status).retried


def test_a_full_context_is_known_by_its_code_and_status() -> None:
    assert refused("no", code="context_length_exceeded").cause is Cause.FULL_CONTEXT
    assert refused("no", code=400, type="exceed_context_size_error").cause is Cause.FULL_CONTEXT
    assert refused("Prompt", code="1261").cause is Cause.FULL_CONTEXT
    nginx = "<html><title>413 Request Entity Too Large</title></html>"
    assert read_refusal(413, nginx, {}).cause is Cause.FULL_CONTEXT
    assert read_refusal(413, "", {}).cause is Cause.FULL_CONTEXT


def test_a_rate_is_no_full_context_unless_one_request_exceeds_it() -> None:
    assert refused("Too many tokens, please wait before trying again.", 429).retried
    assert refused("Rate limit reached: requests exceed 60 per minute", 400).cause is Cause.OTHER
    alone = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 41000."
    assert refused(alone, 429).cause is Cause.FULL_CONTEXT
    for status in (401, 403):
        assert refused("requests exceed what this key may send", status).cause is Cause.OTHER


@pytest.mark.parametrize(
    ("status", "error", "generated"),
    [
        (
            400,
            {
                "message": "Failed to call a function. See 'failed_generation' for more details.",
                "code": "tool_use_failed",
                "failed_generation": "<function=read{</function>",
            },
            "<function=read{</function>",
        ),
        (
            400,
            {"message": "tool call validation failed: parameters for tool read did not match"},
            "",
        ),
        (
            400,
            {"message": "Parsing failed. The generated output could not be parsed."},
            "",
        ),
        (
            500,
            {"message": "Failed to parse tool call arguments as JSON: line 1"},
            "",
        ),
        (500, {"message": "Failed to parse input at pos 12: <tool_call>"}, ""),
        (
            500,
            {"message": "error parsing tool call: raw='{\"path\": ', err=unexpected end"},
            '{"path": ',
        ),
    ],
)
def test_a_call_that_the_server_can_not_read_is_the_models(
    status: int, error: dict[str, str], generated: str
) -> None:
    refusal = read_refusal(status, json.dumps({"error": error}), {})
    assert (refusal.cause, refusal.generated) == (Cause.MALFORMED_CALL, generated)
    assert read_refusal(500, error["message"], {}).cause is Cause.MALFORMED_CALL


@pytest.mark.parametrize(
    ("body", "status", "retried"),
    [
        ({"error": {"code": 502, "message": "Network connection lost."}}, 502, True),
        ({"error": {"code": "429", "message": "slow down"}}, 429, True),
        ({"error": {"type": "overloaded_error", "message": "Overloaded"}}, 529, True),
        ({"error": {"message": "upstream"}}, 500, True),
        ({"error": "upstream"}, 500, True),
        ({"error": {"code": 401, "message": "No key"}}, 401, False),
        ({"choices": [{"message": {}, "error": {"code": 502, "message": "gone"}}]}, 502, True),
        ({"status": "failed", "error": {"code": "server_error", "message": "oops"}}, 500, True),
        (
            {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "wait"}},
            429,
            True,
        ),
    ],
)
def test_an_error_in_a_reply_is_read(body: Any, status: int, retried: bool) -> None:
    refusal = refusal_in(body, {})
    assert refusal is not None
    assert (refusal.status, refusal.retried) == (status, retried)


@pytest.mark.parametrize("body", [{"error": None, "output": []}, {"choices": []}, [], 5, "x"])
def test_a_reply_without_error_is_none(body: Any) -> None:
    assert refusal_in(body, {}) is None


def test_the_wait_that_a_server_asks_for() -> None:
    def asked(**headers: str) -> float:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return read_refusal(503, "", given).retry_after

    assert asked(retry_after="2.5") == 2.5
    assert asked(retry_after_ms="1500", retry_after="2") == 1.5
    assert [asked(retry_after=each) for each in ("soon", "nan", "-3", "")] == [0] * 4
    then, now = (format_datetime(datetime(2026, 1, 1, 12, 0, s, tzinfo=UTC)) for s in (30, 10))
    assert asked(retry_after=then, date=now) == 20
    assert asked(retry_after=now, date=then) == 0
    in_an_hour = format_datetime(datetime.fromtimestamp(time.time() + 3600, UTC), usegmt=True)
    assert 3500 < asked(retry_after=in_an_hour) < 3700
    google = {"error": {"message": "quota", "details": [{"retryDelay": "33.5s"}, {}]}}
    assert read_refusal(429, json.dumps([google]), {}).retry_after == 33.5
