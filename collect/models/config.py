"""Config of a run's models, where `backend` chooses the kind, and what a model's folder holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from collect.errors import ConfigError
from collect.models.base import MAX_TOKENS, Sampling, Usage
from collect.store.files import StrictRecord

AS_DATA: Mapping[str, Any] = {"trust_remote_code": False}
"""For every `from_pretrained`: without it transformers asks at the terminal whether to run code
that a model's folder names."""
WEIGHTS: Mapping[str, Any] = {**AS_DATA, "use_safetensors": True}
"""For those that read weights: never a pickle."""
AUTO = "auto"
"""Choose the tool-call parser from the model's folder."""


class Prices(StrictRecord):
    """Dollars per million tokens, and for the time of one's own machine."""

    input: NonNegativeFloat = 0.0
    """Prompt tokens."""
    cached_input: NonNegativeFloat | None = None
    """Prompt tokens that the server took from its cache. None: the price of input."""
    cache_write: NonNegativeFloat | None = None
    """Prompt tokens that the server wrote to its cache, if it charges for that. None: the price of
    input.
    """
    output: NonNegativeFloat = 0.0
    """Completion tokens."""
    gpu_dollars_per_hour: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """What the machine that serves the model costs, all its GPUs together, while requests are in
    progress; they share it. Each process counts its own, so on a cluster, or beside other users of
    the server, the sum is an upper bound."""

    def dollars(self, usage: Usage, seconds: float = 0.0) -> float:
        """The cost of these tokens, and of these seconds of the machine."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        fresh_tokens = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        spent = fresh_tokens * self.input
        spent += usage.cached_tokens * cached + usage.cache_write_tokens * written
        spent = (spent + usage.completion_tokens * self.output) / 1e6
        return spent + self.gpu_dollars_per_hour * seconds / 3600

    @property
    def free_tokens(self) -> bool:
        return not (self.input or self.cached_input or self.cache_write or self.output)

    @property
    def free(self) -> bool:
        """Whether nothing costs anything."""
        return self.free_tokens and not self.gpu_dollars_per_hour


class Retries(StrictRecord):
    """How often a request is retried, and after which waits."""

    max_retries: int = Field(default=6, ge=0, le=1000)
    """Retries after the first request: on 408, 409, 429, 5xx, timeouts, lost connections and
    replies that are no chat completion.
    """
    backoff_base: NonNegativeFloat = 1.0
    """Seconds before the first retry; doubles with each, less a random part of up to half."""
    backoff_max: NonNegativeFloat = 60.0
    """Longest wait before a retry in seconds."""
    retry_after_max: NonNegativeFloat = 300.0
    """If a server asks for a longer wait than these seconds, the request is not retried: it waits
    as in an outage (`outage_wait`), or fails if the server answers other requests.
    """
    outage_wait: NonNegativeFloat = 1800.0
    """Seconds that requests wait, after their retries, for a server that worked before and now
    answers nobody (failed or timed-out connections, 429, 5xx). Each is sent again after waits of 1
    to 60 seconds. 0: requests fail after their retries.
    """


class EndpointConfig(StrictRecord):
    """Settings of every server."""

    sampling: Sampling = Sampling()
    prices: Prices = Prices()
    concurrency: int = Field(default=8, ge=1, le=10_000)
    """Concurrent requests over all rollouts. A request that timed out does not count, even if the
    server still holds its connection open.
    """
    timeout: PositiveFloat = 600.0
    """Seconds until a request's whole reply must have arrived; keep-alive blanks don't count."""
    retries: Retries = Retries()
    tool_choice: str | dict[str, Any] | None = None
    """The server's `tool_choice`: `auto`, `required`, or a tool. None: not sent."""
    parallel_tool_calls: bool | None = None
    """Whether a reply may contain several calls. None: not sent."""
    extra_body: dict[str, Any] = Field(default={})
    """Additional fields for every request."""
    stream: bool = False
    """Ask for replies as streams, which are joined: for servers that answer in no other way."""
    check_tools: bool = True
    """Before work starts, ask for one tool call, and send it back with a result. A server without
    tool support is rejected.
    """


class ChatConfig(EndpointConfig):
    """Settings of every server with OpenAI's chat-completions API."""

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """The server's name for the limit `sampling.max_tokens`."""
    text_calls: bool = False
    """Read tool calls that a reply without any writes into its text: between the tags of known
    model families, or as JSON, fenced or alone. Small models do so, and servers without a parser
    leave them there. The rows count them in `text_calls`.
    """
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    """Send earlier reasoning back under this name, for servers that require it: in each reply,
    also if there was none.
    """
    logprobs: bool = False
    """Keep the token ids and log-probabilities of each reply in the run, for off-policy training.
    Needs a server with vLLM's `return_token_ids`; another is refused at its first reply.
    """


class RemoteConfig(EndpointConfig):
    """A model of a server that is not StepInto's."""

    model: str
    """The server's name for the model."""
    base_url: str | None = None
    """Anthropic's without `/v1`. None: $OPENAI_BASE_URL or $ANTHROPIC_BASE_URL, else the vendor."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """The environment variable with the key. null for a server without keys."""

    @model_validator(mode="after")
    def _no_seed(self) -> Self:
        if self.sampling.seed is not None and not isinstance(self, ChatConfig):
            raise ValueError("this API takes no seed: leave sampling.seed out")
        return self


class OpenAIConfig(RemoteConfig, ChatConfig):
    """Any server with OpenAI's chat-completions API: a vendor's, vLLM ..."""

    backend: Literal["openai"]


class AnthropicConfig(RemoteConfig):
    """Anthropic's Messages API, or a server that speaks it. Thinking is kept, and is sent back with
    its signatures.
    """

    backend: Literal["anthropic"]
    api_key_env: str | None = "ANTHROPIC_API_KEY"
    thinking: dict[str, Any] | None = None
    """The API's `thinking`, such as `{type: adaptive}` or `{type: enabled, budget_tokens: 4096}`.
    None: not sent.
    """
    cache_prompts: bool = True
    """Whether the server caches each conversation's prompt for its next request."""
    max_tokens: int = Field(default=16_000, ge=1, le=MAX_TOKENS)
    """Sent if `sampling.max_tokens` is not set, since the API requires a limit."""


class ResponsesConfig(RemoteConfig):
    """OpenAI's Responses API, or a server that speaks it. Nothing is stored at the server;
    encrypted reasoning is kept and sent back.
    """

    backend: Literal["responses"]
    reasoning: dict[str, Any] | None = None
    """The API's `reasoning`, such as `{effort: high, summary: auto}`: without `summary` the rows
    have no readable reasoning. None: not sent.
    """


class ServerConfig(StrictRecord):
    """A `vllm serve` run by StepInto. Models with the same settings share a process."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    model: str
    """A folder, such as `{run}/model` from `stepinto train`, or an id on the hub. A folder with
    only an adapter is served on its base model.
    """
    adapters: dict[str, Path] = Field(default={})
    """Folders of LoRA adapters by name; `model` of a vllm model selects one."""
    tool_call_parser: str | None = AUTO
    """vLLM's `--tool-call-parser`; null for models that call no tools. auto: the one in the
    folder's training.json, else hermes.
    """
    chat_template: Path | None = None
    """A Jinja file. null: the adapter's template if there are adapters, else the model's."""
    constrain_calls: bool = False
    """Rule out invalid tool calls while they are written (vLLM's `--tool-strict-level parameter`):
    they name tools that are offered, with arguments that the tools' schemas allow.
    """
    max_context: PositiveInt | None = None
    """Tokens of prompt and completion together (`--max-model-len`). null: the model's maximum."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights."""
    tensor_parallel: PositiveInt = 1
    """Number of GPUs to split the model over."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """Share of each GPU's memory. null: vLLM's default, about nine tenths."""
    command: tuple[str, ...] | None = None
    """Command that starts vLLM, such as `[/opt/vllm/bin/vllm]` for another environment. null: this
    environment's `vllm`, or the one on the PATH.
    """
    environment: dict[str, str] = Field(default={})
    """Environment variables for the server, in addition to this process's."""
    start_timeout: PositiveFloat = 900.0
    """Seconds until the server must answer."""
    restarts: NonNegativeInt = 3
    """How often the server is restarted after it died; the count resets after ten minutes of
    uptime.
    """
    arguments: tuple[str, ...] = ()
    """Other options of `vllm serve`, such as `[--max-num-seqs, 16]`."""


class VllmConfig(ChatConfig):
    """A model of a vLLM server that StepInto starts. One that runs already is an `openai` model."""

    backend: Literal["vllm"]
    server: ServerConfig
    model: str | None = None
    """An adapter's name. null: the model without adapters."""

    @property
    def folders(self) -> tuple[str, ...]:
        """What is served, as folders or hub ids."""
        return (self.server.model, *map(str, self.server.adapters.values()))

    @model_validator(mode="after")
    def _known_adapter(self) -> Self:
        if self.model not in (None, *self.server.adapters):
            raise ValueError(
                f"`model` names the adapter {self.model!r}, which is not under server.adapters; "
                "leave it out for the model without adapters"
            )
        return self


class LocalConfig(StrictRecord):
    """A small model in this process, with transformers. Needs the extra `train`.

    Not for models with sliding windows or states in their layers: vLLM serves those.
    """

    backend: Literal["local"]
    model: str
    """A folder, or an id on the hub."""
    adapter: Path | None = None
    """A peft adapter's folder, merged into the model on loading."""
    chat_template: Path | None = None
    """A Jinja file that replaces the tokenizer's template."""
    constrain_calls: bool = False
    """Rule out invalid tool calls while they are written: they name tools that are offered, with
    arguments that the tools' schemas allow. Calls of the debug tools give what their action needs
    and come when the session allows them; places, also in the text, are of files that were shown.
    For templates with calls in the Hermes form.
    """
    device: str = "auto"
    """auto: the first CUDA device, else the CPU."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: bfloat16 on CUDA, float32 on the CPU. A CPU with avx512_bf16 or amx_bf16 reads prompts
    faster in bfloat16, any other is slower.
    """
    max_batch: PositiveInt = 8
    """Requests that are answered at once; each joins and leaves at any token."""
    max_context: PositiveInt | None = None
    """Tokens of prompt and completion together. None: the model's maximum."""
    prefix_cache: NonNegativeInt = 16
    """Number of prompts whose keys and values are cached, so that a conversation's next turn reads
    only its new tokens: twice `runner.concurrency` is enough for every conversation. 0 turns it
    off. Memory: this times the longest prompts.
    """
    sampling: Sampling = Sampling(max_tokens=512)
    prices: Prices = Prices()
    """Of these `gpu_dollars_per_hour` is of use."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The model, and its adapter."""
        return (self.model,) if self.adapter is None else (self.model, str(self.adapter))


OracleAnswer = Literal["full", "nothing", "random", "first_reached", "last_reached", "source"]


class OracleConfig(StrictRecord):
    """The scripted teacher, which knows the gold patch."""

    backend: Literal["oracle"]
    sampling: ClassVar[Sampling] = Sampling()
    candidates: int = Field(default=4, ge=2)
    """Number of candidate patches, one of them right, from which the oracle as main agent chooses.
    The others change statements that the failing test executes, if there are enough of them.
    """
    answer: OracleAnswer = "full"
    """As a subagent. All but `full` are reference points for the scores of others. `nothing`
    answers nothing, also as an Inspector. The others name one of the places that the question
    suspects: `random` any of them, `first_reached` the one that the test reaches first,
    `last_reached` the one that it reaches after all others, `source` the one whose function the
    test's code mentions first.
    """
    sessions: Literal["varied", "direct"] = "varied"
    """How it debugs as a subagent. `varied`: like developers, with detours and wrong guesses.
    `direct`: the shortest sure way to the answer, from which a small model learns more with few
    sessions.
    """


class ManualConfig(StrictRecord):
    """A person, or any program, answers the requests with `stepinto play RUN`. The rows say
    `teacher = "played"` and have no tokens, dollars or latency.
    """

    backend: Literal["manual"]
    sampling: ClassVar[Sampling] = Sampling()


class ReplayConfig(StrictRecord):
    """Recorded completions, replayed in order."""

    backend: Literal["replay"]
    sampling: ClassVar[Sampling] = Sampling()
    path: Path
    """A run folder, or a JSON-lines file as in `collect.models.replay`."""


class RelayConfig(StrictRecord):
    """A student that plays the Debug Subagent until its first bad step, and a teacher that goes on
    from there (DAgger): after an invalid or refused call or a reply without call and answer, and
    in place of an answer or a breakpoint that rests on nothing seen, or of a wrong answer to a
    runtime question.
    """

    backend: Literal["relay"]
    sampling: ClassVar[Sampling] = Sampling()
    student: str
    """Its name in `models`."""
    teacher: str
    """Its name in `models`: the oracle, or any other model."""


ModelConfig = Annotated[
    OpenAIConfig
    | AnthropicConfig
    | ResponsesConfig
    | VllmConfig
    | LocalConfig
    | OracleConfig
    | ManualConfig
    | ReplayConfig
    | RelayConfig,
    Field(discriminator="backend"),
]


# What a model's folder holds.


TRAINING = "training.json"
"""StepInto's report of the training, next to a model's weights."""


def training_of(folder: Path) -> dict[str, Any]:
    """The training report in a model's folder; empty if there is none.

    Raises ConfigError on a broken one.
    """
    return read_json(folder / TRAINING) or {}


def trained_on(
    model: str, what: Literal["repositories", "instructions"] = "repositories"
) -> set[str]:
    """The repositories that a model was trained on, or the hashes of the Debug Subagents'
    instructions that it was trained with, if its folder lists them."""
    return set(training_of(Path(model)).get(what, ()))


def file_stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time (ns) of each file; empty if there is no folder.

    A retrained model is a different one, even in the same folder.
    """
    if not folder.is_dir():
        return []
    return sorted(
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in folder.iterdir()
        if file.is_file()
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON file of a model's folder, or None if it is missing. Raises ConfigError."""
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


def check_model_folder(model: str) -> None:
    """Raises ConfigError if it is a path without a model; a hub name is `name` or `owner/name`."""
    is_path = Path(model).exists() or model.startswith((".", "/", "~")) or model.count("/") > 1
    if is_path and not (Path(model) / "config.json").is_file():
        raise ConfigError(
            f"model {model}: there is no model in that folder (no config.json); train one "
            "with `stepinto train`, or give a folder that save_pretrained wrote, or a hub name"
        )
