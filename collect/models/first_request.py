"""Sends one request to an endpoint's model before work starts, to check its key, name, server and
tools, with one question and one tool.

A server that rejects tools is an error. A model that makes no call, or an unreadable one, is only a
warning: an untuned model may do so and can still be measured.
"""

from __future__ import annotations

import logging
import time

from collect.errors import BudgetExhausted, ConfigError, RolloutError
from collect.models.base import Sampling
from collect.models.budget import Limits
from collect.models.endpoint import EndpointBackend, EndpointModel
from collect.models.tool_parsing import arguments_object
from collect.store.messages import Message, ToolSchema

logger = logging.getLogger(__name__)

QUESTION = Message(
    "user", "Which value does `total` have now? Call the tool `evaluate` with that expression."
)
NAME = "evaluate"
TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Evaluate an expression in the paused program.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "What to evaluate."}},
            "required": ["expression"],
        },
    },
}
SAMPLING = Sampling(temperature=0.0, max_tokens=256)
SHOWN = 200
"""Characters of a reply that a warning quotes."""
STARTED_ADVICE = "set server.tool_call_parser to the parser of the model's family"
RUNNING_ADVICE = "start it with --enable-auto-tool-choice and --tool-call-parser"
ENDPOINT_ADVICE = "choose a model that takes tools, or a server that passes them on (`base_url`)"


def calls_tool(endpoint: EndpointBackend, advice: str, sampling: Sampling = SAMPLING) -> bool:
    """Whether a valid call comes back; if not, a warning says what does. Raises ConfigError if the
    server rejects tools, or every request.
    """
    where = f"{endpoint.name} ({endpoint.where})"
    try:
        completion = EndpointModel(endpoint).complete([QUESTION], [TOOL], sampling)
    except RolloutError as refusal:
        _require_reply(endpoint, sampling)
        raise ConfigError(
            f"{where} answers without tools, and refuses them: {refusal}. With tools: {advice}; "
            "or set check_tools: false where no agent of the run calls tools"
        ) from refusal
    message = completion.message
    said = f"{message.content or message.reasoning or ''!r:.{SHOWN}}"
    if message.tool_calls:
        call = message.tool_calls[0]
        expression = arguments_object(call.arguments).get("expression")
        if call.name == NAME and isinstance(expression, str):
            return True
        told = (
            f"it called {call.name!r} with {call.arguments!r:.{SHOWN}}, which is not what the "
            "tool takes. An untuned model may do so"
        )
    elif completion.finish_reason == "length":
        told = f"it had not called it after {sampling.max_tokens} tokens: {said}"
    else:
        told = (
            f"it answered without a call: {said}. An untuned model may do so; if it was trained to "
            "call tools, look at its chat template and tool_call_parser. text_calls: true reads "
            "calls in the text"
        )
    logger.warning(f"warning: {where}: asked to call a tool once, {told}")
    return False


def _require_reply(endpoint: EndpointBackend, sampling: Sampling) -> None:
    """Ask once without tools. Raises ConfigError if no reply comes."""
    try:
        EndpointModel(endpoint).complete([QUESTION], [], sampling)
    except RolloutError as error:
        raise ConfigError(f"a first request failed: {error}") from error


MAX_TOKENS = 1024
"""Limit of the reply; reasoning models need tokens before the call."""


def ask_first(endpoint: EndpointBackend, limits: Limits, tools: bool) -> str:
    """The result of a first request as text; `tools` says whether it should call a tool.

    The request counts in the budget. Raises ConfigError if the server rejects it or does not
    answer.
    """
    if not endpoint.config.check_tools:
        return "not asked (check_tools: false)"
    if not endpoint.config.prices.free:
        try:
            limits.check()
        except BudgetExhausted:
            return "not asked: the budget is spent"  # the rollouts report that themselves
    # Uses the config's sampling, since some models accept only one temperature.
    own = endpoint.config.sampling
    limit = min(own.max_tokens or MAX_TOKENS, MAX_TOKENS)
    sampling, started = own.model_copy(update={"max_tokens": limit}), time.monotonic()
    try:
        if not tools:
            _require_reply(endpoint, sampling)
        elif not calls_tool(endpoint, ENDPOINT_ADVICE, sampling):
            return "answered, but not as it was asked to: see the warning"
    finally:
        limits.note()
    did = "called a tool" if tools else "answered"
    return f"{did} after {time.monotonic() - started:.1f} s"
