"""One request to a model of an endpoint before work starts: its key, name, server and tools."""

from __future__ import annotations

import time

from collect.errors import BudgetExhausted
from collect.models.budget import Limits
from collect.models.endpoint import EndpointBackend, EndpointModel
from collect.models.tool_check import ENDPOINT_ADVICE, check_reply, check_tool_call
from collect.telling import tell

MAX_TOKENS = 1024
"""Of the reply: models that reason do so before they call."""


def ask_first(endpoint: EndpointBackend, limits: Limits, tools: bool) -> str:
    """What came of a first request, in words; `tools` says whether it is to call one.

    A model that does not call is a warning. The request counts in the budget. Raises ConfigError
    where the server refuses it, or does not answer.
    """
    if not endpoint.config.check_tools:
        return "not asked (check_tools: false)"
    if not endpoint.config.prices.free and _spent(limits):
        return "not asked: the budget is spent"
    started = time.monotonic()
    try:
        warning = _ask(endpoint, tools)
    finally:
        limits.note()
    if warning is not None:
        tell(f"warning: {warning}")
        return "answered, but not as it was asked to: see the warning"
    did = "called a tool" if tools else "answered"
    return f"{did} after {time.monotonic() - started:.1f} s"


def _ask(endpoint: EndpointBackend, tools: bool) -> str | None:
    # The config's own sampling: some models refuse any temperature but one.
    own = endpoint.config.sampling
    limit = min(own.max_tokens or MAX_TOKENS, MAX_TOKENS)
    sampling = own.model_copy(update={"max_tokens": limit})
    model = EndpointModel(endpoint)
    if tools:
        where = f"{endpoint.name} ({endpoint.where})"
        return check_tool_call(model, where, ENDPOINT_ADVICE, sampling)
    check_reply(model, sampling)
    return None


def _spent(limits: Limits) -> bool:
    """Whether no request may be sent; the rollouts say so by themselves."""
    try:
        limits.check()
    except BudgetExhausted:
        return True
    return False
