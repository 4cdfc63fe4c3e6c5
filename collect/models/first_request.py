"""Sends one request to an endpoint's model before work starts, to check its key, name, server and
tools.
"""

from __future__ import annotations

import logging
import time

from collect.errors import BudgetExhausted, ConfigError, RolloutError
from collect.models.base import Model, Sampling
from collect.models.budget import Limits
from collect.models.endpoint import EndpointBackend, EndpointModel
from collect.models.tool_parsing import arguments_object
from collect.store.messages import Message, ToolSchema

logger = logging.getLogger(__name__)

# Checks tool calls with one question and one tool.
#
# A server that rejects tools is an error. A model that makes no call, or an unreadable one, is only
# a warning: an untuned model may do so and can still be measured.


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


def check_tool_call(
    model: Model, where: str, advice: str, sampling: Sampling = SAMPLING
) -> str | None:
    """Returns a warning, or None if a valid call came back. Raises ConfigError if the server
    rejects tools, or every request.
    """
    try:
        completion = model.complete([QUESTION], [TOOL], sampling)
    except RolloutError as refusal:
        check_reply(model, sampling)
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
            return None
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
    return f"{where}: asked to call a tool once, {told}"


def check_reply(model: Model, sampling: Sampling = SAMPLING) -> None:
    """Ask once without tools. Raises ConfigError if no reply comes."""
    try:
        model.complete([QUESTION], [], sampling)
    except RolloutError as error:
        raise ConfigError(f"a first request failed: {error}") from error


MAX_TOKENS = 1024
"""Limit of the reply; reasoning models need tokens before the call."""


def ask_first(endpoint: EndpointBackend, limits: Limits, tools: bool) -> str:
    """The result of a first request as text; `tools` says whether it should call a tool.

    A model that makes no call gets a warning. The request counts in the budget. Raises ConfigError
    if the server rejects it or does not answer.
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
    sampling = own.model_copy(update={"max_tokens": limit})
    model, started, warning = EndpointModel(endpoint), time.monotonic(), None
    try:
        if tools:
            where = f"{endpoint.name} ({endpoint.where})"
            warning = check_tool_call(model, where, ENDPOINT_ADVICE, sampling)
        else:
            check_reply(model, sampling)
    finally:
        limits.note()
    if warning is not None:
        logger.warning(f"warning: {warning}")
        return "answered, but not as it was asked to: see the warning"
    did = "called a tool" if tools else "answered"
    return f"{did} after {time.monotonic() - started:.1f} s"
