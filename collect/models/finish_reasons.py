"""How a reply ended. Servers have many words for it; these are those of chat completions."""

from __future__ import annotations

from collections.abc import Mapping

STOP, CALLS, LENGTH, FILTERED = "stop", "tool_calls", "length", "content_filter"
MALFORMED_CALL = "malformed_call"
"""The model wrote a call that its server could not read."""
KNOWN: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "",
            "stop",
            "end_turn",
            "stop_sequence",
            "stop_token",
            "eos",
            "eos_token",
            "end",
            "complete",
            "completed",
            "finish",
            "finished",
            "done",
        ),
        STOP,
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), CALLS),
    **dict.fromkeys(
        (
            "length",
            "max_tokens",
            "max_output_tokens",
            "max_length",
            "model_length",
            "model_context_window_exceeded",
            "repetition",
        ),
        LENGTH,
    ),
    **dict.fromkeys(
        (
            "content_filter",
            "content_filtered",
            "refusal",
            "safety",
            "sensitive",
            "prohibited_content",
            "blocklist",
            "spii",
            "guardrail_intervened",
        ),
        FILTERED,
    ),
    **dict.fromkeys(("unexpected_tool_call", MALFORMED_CALL), MALFORMED_CALL),
}


def finish_reason(said: str | None) -> str | None:
    """One of the words above, or None for a reply that broke off: any word that is not known
    (`error`, `abort`, `network_error` ...) may be an error of the server.
    """
    word = (said or "").lower().replace("-", "_")
    if "malformed" in word:  # Gemini's, Bedrock's; some servers put words of their own before it
        return MALFORMED_CALL
    return KNOWN.get(word)
