"""Models behind a server: a vendor's, vLLM, SGLang, llama.cpp ..."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from collect.console import NO_LOG, RolloutLog
from collect.errors import (
    BudgetExhausted,
    ConfigError,
    ContentRefused,
    ContextTooLong,
    EndpointDown,
    EndpointFailure,
    ModelFailure,
    RateLimited,
    RequestRefused,
    RolloutError,
)
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.budget import MACHINES, Limits
from collect.models.config import (
    AnthropicConfig,
    ChatConfig,
    OpenAIConfig,
    RemoteConfig,
    ResponsesConfig,
)
from collect.models.endpoint_client import (
    Api,
    MalformedCall,
    RedirectRefused,
    Reply,
    UnreadableReply,
    api_key,
    decoded,
    mask_of,
)
from collect.models.finish_reasons import CALLS, FILTERED, LENGTH, STOP
from collect.models.received import Form, received
from collect.models.refusals import (
    INVALID,
    UNREACHABLE,
    Cause,
    Refusal,
    bounded,
    read_refusal,
    refusal_in,
)
from collect.models.tool_parsing import parse_calls
from collect.quantities import duration
from collect.store.messages import BROKEN, Message, ToolSchema
from collect.threads import call_unless_stopped, raise_if_stopped, sleep_unless_stopped
from sandbox.text import storable

logger = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Shortest and longest seconds before a request is sent again in an outage."""
SLOT_SECONDS = 1.0
"""Interval between checks for a stop while waiting for a slot; on a cluster each check calls a
process.
"""
MAX_TOLD = 20
"""Kinds of refusals that are told; a server may invent a new one each time."""

# The first request, which checks a server before work starts.
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
FIRST_SAMPLING = Sampling(temperature=0.0, max_tokens=256)
SHOWN = 200
"""Characters of a reply that a warning quotes."""
ENDPOINT_ADVICE = (
    "choose a model that takes tools, or a server that passes them on (`base_url`; vLLM does with "
    "--enable-auto-tool-choice and --tool-call-parser)"
)
MAX_FIRST_TOKENS = 1024
"""Limit of a first reply; reasoning models need tokens before the call."""


def api_of(config: RemoteConfig) -> Api[Any]:
    """The API that a config names; imports its SDK."""
    if isinstance(config, AnthropicConfig):
        from collect.models.anthropic_messages import AnthropicMessages

        return AnthropicMessages(config)
    from collect.models.openai_apis import ChatCompletions, OpenAIResponses

    if isinstance(config, ResponsesConfig):
        return OpenAIResponses(config)
    assert isinstance(config, OpenAIConfig)
    return ChatCompletions(config)


class EndpointBackend:
    """One model of one server, for all conversations of a run."""

    def __init__(
        self,
        name: str,
        config: RemoteConfig,
        limits: Limits,
        stop: threading.Event,
        ready: Callable[[], None] = lambda: None,
        *,
        key: str | None = None,
    ) -> None:
        """Raises ConfigError if the key or the address is missing or malformed.

        `key` takes the place of the config's.
        `ready` is called before each request: it returns once the request may be sent, or raises.
        """
        self.name = name
        self.config = config
        self._limits = limits
        self._stop = stop
        self._ready = ready
        key = key or api_key(config)
        self.api = api_of(config)
        self._client = self.api.open(key)
        self._mask = mask_of(str(self._client.base_url), key)
        self._slots = limits.slots(name, config.concurrency)
        self._machine = MACHINES[self.address]
        self._answered_at: float | None = None
        """When it answered a request last, by the monotonic clock."""
        self._outage_began_at: float | None = None
        self._outage_ended_at = -math.inf
        self._lock = threading.Lock()
        self.form = Form()
        """How conversations begin to send earlier replies."""
        self._can_forbid_calls = True
        """Whether it takes the `tool_choice` that forbids calls, as far as is known."""
        self._told: set[tuple[int | None, str]] = set()
        """The kinds of refusals that were retried and reported."""

    def open(self, context: ConversationContext) -> EndpointModel:
        """The same for every conversation: the server keeps no state."""
        return EndpointModel(self, context.log)

    def close(self) -> None:
        self._client.close()

    def ask_first(self, tools: bool) -> str:
        """Send one request before work starts, to check the key, name, server and tools; returns
        what came of it. `tools` says whether it should call a tool.

        It counts in the budget. Raises ConfigError if the server rejects it or does not answer.
        """
        if not self.config.check_tools:
            return "not asked (check_tools: false)"
        if not self.config.prices.free:
            try:
                self._limits.check()
            except BudgetExhausted:
                return "not asked: the budget is spent"  # the rollouts report that themselves
        # Uses the config's sampling, since some models accept only one temperature.
        own = self.config.sampling
        limit = min(own.max_tokens or MAX_FIRST_TOKENS, MAX_FIRST_TOKENS)
        sampling, started = own.model_copy(update={"max_tokens": limit}), time.monotonic()
        try:
            if not tools:
                self._require_reply(sampling)
            elif not self.calls_tool(ENDPOINT_ADVICE, sampling):
                return "answered, but not as it was asked to: see the warning"
        finally:
            self._limits.note()
        did = "called a tool" if tools else "answered"
        return f"{did} after {time.monotonic() - started:.1f} s"

    def calls_tool(self, advice: str, sampling: Sampling = FIRST_SAMPLING) -> bool:
        """Ask one question with one tool: whether a valid call comes back. If so, the call and a
        result are sent, too.

        If not, that is only a warning: an untuned model may do so and can still be measured. Raises
        ConfigError if the server rejects tools, its own call, or every request.
        """
        where = f"{self.name} ({self.where})"
        try:
            completion = EndpointModel(self).complete([QUESTION], [TOOL], sampling)
        except RolloutError as refusal:
            self._require_reply(sampling)
            raise ConfigError(
                f"{where} answers without tools, and refuses them: {refusal}. With tools: "
                f"{advice}; or set check_tools: false where no agent of the run calls tools"
            ) from refusal
        message = completion.message
        said = f"{message.content or message.reasoning or ''!r:.{SHOWN}}"
        if message.tool_calls:
            call = message.tool_calls[0]
            if call.name == NAME and call.text("expression"):
                self._check_second_turn(message, sampling)
                return True
            told = (
                f"it called {call.name!r} with {call.arguments!r:.{SHOWN}}, which is not what the "
                "tool takes. An untuned model may do so"
            )
        elif completion.finish_reason == LENGTH:
            told = f"it had not called it after {sampling.max_tokens} tokens: {said}"
        else:
            told = (
                f"it answered without a call: {said}. An untuned model may do so; if it was "
                "trained to call tools, look at its chat template and tool_call_parser. "
                "text_calls: true reads calls in the text"
            )
        logger.warning(f"warning: {where}: asked to call a tool once, {told}")
        return False

    def _check_second_turn(self, reply: Message, sampling: Sampling) -> None:
        """Send a reply with calls back, with a result. Conversations begin with the form of it that
        the server takes. Raises ConfigError if it takes none.
        """
        reply, model = received(reply, ()), EndpointModel(self)
        results = [Message("tool", "3", tool_call_id=c.id, name=c.name) for c in reply.tool_calls]
        try:
            model.complete([QUESTION, reply, *results], [TOOL], sampling)
        except RolloutError as refusal:
            raise ConfigError(
                f"{self.name} ({self.where}) calls a tool, and refuses the next request, with its "
                f"own call and the tool's result: {refusal}. Servers of models that reason can "
                "need `reasoning_field`"
            ) from refusal
        self.form = model.form

    def _require_reply(self, sampling: Sampling) -> None:
        """Ask once without tools. Raises ConfigError if no reply comes."""
        try:
            EndpointModel(self).complete([QUESTION], [], sampling)
        except RolloutError as error:
            raise ConfigError(f"a first request failed: {error}") from error

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return f"model {self.config.model} at {self.address}"

    @property
    def address(self) -> str:
        """The server's address, without a password."""
        return str(self._client.base_url.copy_with(userinfo=b""))

    def complete(self, fields: dict[str, Any], log: RolloutLog) -> tuple[Reply, float]:
        """Send one request until it is answered, and add its cost to the budget; returns the cost
        in dollars too. Raises like `Model.complete`.
        """
        retry, retries = 0, self.config.retries
        if self.config.stream:
            fields["extra_body"] = {**self.api.streaming, **fields.get("extra_body", {})}
        if not self._can_forbid_calls and _forbids_calls(fields):
            del fields["tool_choice"]
        sent_at = refused_at = time.monotonic()
        answer, spent = self._send(fields)
        while isinstance(answer, Refusal):
            said = self._mask(str(answer))
            if answer.cause is Cause.MALFORMED_CALL:
                log.note("malformed_call", why=said)
                return MalformedCall(generated=self._mask(answer.generated)), spent
            if answer.cause is Cause.TOOL_CHOICE and self._gives_up_tool_choice(fields, said):
                answer, more = self._send(fields)
                spent += more
                continue
            if self._outage_ended_at > refused_at:
                retry = 0  # it has waited for the server's return
            backoff = min(retries.backoff_max, retries.backoff_base * 2.0**retry)
            wait = max(backoff * random.uniform(0.5, 1.0), answer.retry_after)
            too_long = answer.retry_after > retries.retry_after_max
            if retry >= retries.max_retries or too_long or not self._tries_again(answer, retry):
                if not self._is_outage(answer, said, sent_at, refused_at):
                    raise self._failure(answer, said, retry)
                wait = min(max(wait, FIRST_WAIT), LONGEST_WAIT)
            else:
                kind = (answer.status, answer.code)
                if kind not in self._told and len(self._told) < MAX_TOLD:
                    self._told.add(kind)
                    told = f"{self.name} ({self.where}): {said}; such requests are sent again"
                    logger.warning(f"{told} (retries)")
            log.note("retried", why=said, wait=wait)
            refused_at, retry = time.monotonic(), min(retry + 1, retries.max_retries)
            sleep_unless_stopped(wait, self._stop)
            answer, more = self._send(fields)
            spent += more
        if answer.tokens is None and not self.config.prices.free_tokens:
            raise EndpointFailure(
                f"{self.where} reports no token usage, so that its prices can't be counted; "
                "remove `prices`, or use a server that reports usage"
            )
        return answer, spent

    def _tries_again(self, refusal: Refusal, retry: int) -> bool:
        """Whether the request is sent again. If nothing listens at an address that never answered,
        it is once."""
        is_wrong = refusal.code == UNREACHABLE and self._answered_at is None
        return refusal.retried and not (is_wrong and retry > 0)

    def _gives_up_tool_choice(self, fields: dict[str, Any], said: str) -> bool:
        """Leave `tool_choice` out of a request that forbids calls, and of all later ones: not all
        servers know that. The request's own words forbid calls, too. Returns whether it was there.
        """
        if not _forbids_calls(fields):
            return False
        del fields["tool_choice"]
        if self._can_forbid_calls:
            self._can_forbid_calls = False
            logger.warning(
                f"{self.name} ({self.where}): {said}; answers are asked for without `tool_choice`"
            )
        return True

    def _is_outage(self, refusal: Refusal, said: str, sent_at: float, refused_at: float) -> bool:
        """Whether to resend a request that has used up its retries.

        True if the server has answered nobody since `refused_at`, when this request was last
        refused, but answered before: an address that never worked is no outage. If it answers
        others, a rate limit may let this request pass. An outage lasts `outage_wait` seconds at
        most; after that requests fail until one is answered.
        """
        failure, now, patience = refusal.failure, time.monotonic(), self.config.retries.outage_wait
        if failure not in (EndpointDown, RateLimited) or refusal.retry_after >= patience:
            return False
        with self._lock:
            if self._answered_at is None:
                return False
            if self._answered_at > refused_at:
                return failure is RateLimited and now < sent_at + patience
            if self._outage_began_at is None:
                self._outage_began_at = now
                logger.warning(
                    f"{self.name} ({self.where}) is out of service: {said}; its requests wait, for "
                    f"{duration(patience)} at most (retries.outage_wait)"
                )
            return now < self._outage_began_at + patience

    def _note_answer(self) -> None:
        with self._lock:
            self._answered_at = now = time.monotonic()
            if self._outage_began_at is not None:
                lasted = duration(now - self._outage_began_at)
                self._outage_began_at, self._outage_ended_at = None, now
                logger.info(f"{self.name} ({self.where}) is back in service, after {lasted}")

    def _send(self, fields: dict[str, Any]) -> tuple[Reply | Refusal, float]:
        """Send one request as soon as it may be sent; returns also the dollars of the reply's
        tokens and of the machine's time, which are in the budget even if this raises.
        """
        seconds, prices = self.config.timeout, self.config.prices
        while not self._slots.acquire(timeout=SLOT_SECONDS):
            raise_if_stopped(self._stop)
        try:
            self._ready()
            if not prices.free:
                self._limits.check()
            usage: Usage | None = None
            answer: Reply | Refusal
            begun = self._machine.begin()
            try:
                # A server may send nothing past the timeout. Such a request is left to end by
                # itself and holds no slot.
                answer = call_unless_stopped(lambda: self._request(fields), self._stop, seconds)
                usage = answer.tokens
            except TimeoutError:
                answer = Refusal(None, f"no whole reply within {seconds:g} s (`timeout`)")
            finally:
                dollars = prices.dollars(usage or Usage(), self._machine.end(begun))
                self._limits.add(dollars)
            if not (isinstance(answer, Refusal) and answer.retried):
                self._note_answer()
            return answer, dollars
        finally:
            self._slots.release()

    def _request(self, fields: dict[str, Any]) -> Reply | Refusal:
        """One request: the reply, or why there is none. Raises TimeoutError. Anything with status
        200 that is no reply is retried like a 5xx.
        """
        sdk = self.api.sdk
        try:
            requests = self.api.requests(self._client).with_raw_response
            response = requests.create(**fields).http_response
        except sdk.APIStatusError as error:
            return read_refusal(error.status_code, error.response.text, error.response.headers)
        except sdk.APITimeoutError as error:
            raise TimeoutError from error
        except BROKEN as error:
            # An earlier reply, which is sent back as it came, is nested too deeply or has a NaN.
            return Refusal(None, f"the conversation can't be sent: {error}", INVALID)
        except (RedirectRefused, UnreadableReply, sdk.APIConnectionError) as error:
            cause = error.__cause__
            if isinstance(cause, TimeoutError):
                raise cause from error
            for refused in (error, cause):
                if isinstance(refused, RedirectRefused):
                    return Refusal(refused.status, bounded(self._mask(str(refused))))
            code = INVALID if UnreadableReply in (type(error), type(cause)) else ""
            if type(cause).__name__ == "ConnectError":  # of one of two versions of httpx
                code = UNREACHABLE
            # Masked before it is cut, since half a key would not be recognised.
            return Refusal(None, bounded(self._mask(f"{error} {cause or ''}")), code)
        body = response.text
        try:
            plain = decoded(body)
            return refusal_in(plain, response.headers) or _whole(self.api.read(plain))
        except BROKEN as error:
            said = bounded(body) or "an empty body"
            wrong = f"the reply is no {self.api.name}: {said}; {bounded(str(error))}"
            return Refusal(None, wrong, INVALID)

    def _failure(self, refusal: Refusal, said: str, retry: int) -> Exception:
        """The error of a request whose last retry was refused."""
        failure = refusal.failure
        if issubclass(failure, ModelFailure):
            is_long = failure is ContextTooLong
            what = "the context is too long for" if is_long else "the content was refused by"
            return failure(f"{what} {self.where}: {said}")
        too_long = refusal.retry_after > self.config.retries.retry_after_max
        asked = f" It asks to wait {refusal.retry_after:.0f} s." if too_long else ""
        tried = f" after {retry + 1} requests" if retry else ""
        error = failure(f"{self.where} failed{tried}: {said}.{asked} What to do: {refusal.advice}")
        if isinstance(error, RequestRefused):
            error.said = refusal.message
        return error


def _forbids_calls(fields: dict[str, Any]) -> bool:
    return fields.get("tool_choice") in ("none", {"type": "none"})


def _whole(reply: Reply) -> Reply | Refusal:
    """The reply, unless it broke off, has nothing in it, or has no message that can be read."""
    problem = _problem(reply)
    return reply if problem is None else Refusal(None, problem, INVALID, tokens=reply.tokens)


def _problem(reply: Reply) -> str | None:
    if reply.finish_reason is None:
        return f"the reply broke off: its finish reason is {bounded(str(reply.ended))!r}"
    if reply.is_empty and reply.finish_reason in (STOP, CALLS):
        return "the reply is empty, and has no tokens"
    try:
        reply.message(Sampling(), "")
    except (*BROKEN, TypeError) as error:
        return f"the reply has no message: {bounded(str(error))}; check its tool-call parser"
    return None


class EndpointModel:
    """A conversation with a server that keeps no state."""

    def __init__(self, backend: EndpointBackend, log: RolloutLog = NO_LOG) -> None:
        self._backend, self._log = backend, log
        self.form = backend.form
        """How earlier replies are sent: as the server took them last."""

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`. `seconds` includes retries and waits for a slot or for
        the server's return.
        """
        backend, config, id_prefix = self._backend, self._backend.config, f"call_{len(messages)}_"
        started = time.monotonic()
        reply, dollars = self._ask(messages, tools, sampling)
        message = reply.message(sampling, id_prefix).storable()
        if reply.finish_reason == FILTERED:
            raise ContentRefused(f"the reply was withheld by {backend.where}: content_filter")
        tokens = None
        asks_for_tokens = isinstance(config, ChatConfig) and config.logprobs
        if asks_for_tokens and not isinstance(reply, MalformedCall):
            tokens = reply.sampled
            if tokens is None:
                raise EndpointFailure(
                    f"{backend.where} did not send the reply's token ids and log-probabilities, "
                    "which `logprobs: true` asks for. What to do: use a server with vLLM's "
                    "return_token_ids, or set logprobs: false"
                )
        text_calls = 0
        if isinstance(config, ChatConfig) and config.text_calls and not message.tool_calls:
            content, calls = parse_calls(message.content, tools, id_prefix)
            message, text_calls = replace(message, content=content, tool_calls=calls), len(calls)
        return Completion(
            message,
            reply.tokens or Usage(),
            dollars,
            time.monotonic() - started,
            reply.finish_reason or "",
            storable(reply.model) if isinstance(reply.model, str) else None,
            text_calls,
            tokens=tokens,
        )

    def _ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> tuple[Reply, float]:
        """Send the conversation; in another form if the server refuses an earlier reply in it."""
        api, replied = self._backend.api, any(each.role == "assistant" for each in messages)
        form, refused = self.form, list[RequestRefused]()
        while True:
            fields = api.fields(list(form.sent(messages)), tools, sampling)
            if not form.thinks:
                fields.pop("thinking", None)
            given = {name: value for name, value in fields.items() if value is not None}
            try:
                answer = self._backend.complete(given, self._log)
            except RequestRefused as error:
                refused.append(error)
                other = form.after(error.said) if replied else None
                if other is None:
                    raise refused[0] from None  # the later ones are of forms that it never gave
                self._log.note("retried", why=error.said, wait=0.0)
                form = other
            else:
                self.form = form
                return answer
