"""What a run's config says about its models; `backend` chooses the kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from collect.models.base import Sampling, Usage

AUTO = "auto"
"""A tool-call parser to be chosen by what the model's folder says."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(_Settings):
    """Dollars per million tokens."""

    input: NonNegativeFloat = 0.0
    """Prompt tokens."""
    cached_input: NonNegativeFloat | None = None
    """Prompt tokens that the server took from its cache. None: the price of input."""
    output: NonNegativeFloat = 0.0
    """Completion tokens."""

    def dollars(self, usage: Usage) -> float:
        """What one or more completions cost."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh_tokens = usage.prompt_tokens - usage.cached_tokens
        spent = fresh_tokens * self.input + usage.cached_tokens * cached
        return (spent + usage.completion_tokens * self.output) / 1e6

    @property
    def free(self) -> bool:
        """Whether every token costs nothing."""
        return not (self.input or self.cached_input or self.output)


class Retries(_Settings):
    """How often, and after which waits, a request is sent again."""

    max_retries: int = Field(default=6, ge=0, le=1000)
    """After the first request; on 408, 409, 429, 5xx, time-outs, lost connections and replies
    that are no chat completion."""
    backoff_base: NonNegativeFloat = 1.0
    """Seconds before the first retry; doubles with each, less a random part of up to half."""
    backoff_max: NonNegativeFloat = 60.0
    """Seconds of one wait at most."""
    retry_after_max: NonNegativeFloat = 300.0
    """A server that asks for a longer wait than these seconds is not retried: it is out of service
    (`outage_wait`), or where it answers others the request fails."""
    outage_wait: NonNegativeFloat = 1800.0
    """Seconds that requests wait, after their retries, for a server that worked before and answers
    nobody now (failed or timed-out connections, 429, 5xx). One request at a time is sent, after
    waits of 1 to 60 seconds; all others wait for its answer. 0: requests fail after their retries.
    """


class EndpointConfig(_Settings):
    """What is said about every server of OpenAI's chat completions."""

    sampling: Sampling = Sampling()
    prices: Prices = Prices()
    concurrency: int = Field(default=8, ge=1, le=10_000)
    """Requests at once, over all rollouts. One that timed out does not count, even where the server
    still holds its connection open."""
    timeout: PositiveFloat = 600.0
    """Seconds until a request's whole reply must be there; blanks that a server sends meanwhile are
    none of it."""
    retries: Retries = Retries()
    tool_choice: str | dict[str, Any] | None = None
    """As the server takes it: `auto`, `required`, or a tool. None: not sent."""
    parallel_tool_calls: bool | None = None
    """Whether a reply may have several calls. None: not sent."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """What the server calls the limit of `sampling.max_tokens`."""
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    """Send earlier reasoning back under this name, for servers that ask for it."""
    extra_body: dict[str, Any] = {}
    """Further fields of every request, as they are."""
    check_tools: bool = True
    """Ask for one tool call before work starts, and refuse a server that takes no tools."""


class OpenAIConfig(EndpointConfig):
    """Any server of OpenAI's chat completions: a vendor's, vLLM ..."""

    backend: Literal["openai"]
    model: str
    """What the server calls it."""
    base_url: str | None = None
    """None: $OPENAI_BASE_URL, or OpenAI itself."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """The environment variable that holds the key. null for a server that needs none."""


class ServerConfig(_Settings):
    """A `vllm serve` that StepInto starts and stops. Models with the same one share a process."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    model: str
    """A folder, such as `{run}/model` where `stepinto train` leaves one, or an id on the hub. A
    folder with an adapter alone is served on its base model."""
    adapters: dict[str, Path] = {}
    """Folders of LoRA adapters, by the names that `model` of a vllm model chooses them by."""
    tool_call_parser: str | None = AUTO
    """vLLM's `--tool-call-parser`; null for models that call no tools. auto: what the folder's
    training.json says, else hermes."""
    chat_template: Path | None = None
    """A Jinja file. null: the adapter's own where there are adapters, else the model's own."""
    max_context: PositiveInt | None = None
    """Tokens of prompt and completion together (`--max-model-len`). null: the model's own."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights."""
    tensor_parallel: PositiveInt = 1
    """GPUs that the model is split over."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """Share of each GPU's memory. null: vLLM's own, about nine tenths."""
    host: str = "127.0.0.1"
    """Where it listens."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """null: a free one."""
    command: tuple[str, ...] | None = None
    """What starts vLLM, such as `[/opt/vllm/bin/vllm]` for another environment's. null: this
    environment's `vllm`, or the one on the PATH."""
    environment: dict[str, str] = {}
    """Variables of the server's, beside this process's own."""
    start_timeout: PositiveFloat = 900.0
    """Seconds until it must answer."""
    restarts: NonNegativeInt = 3
    """How often it is started again after it died; a server that then runs for ten minutes has all
    of them again."""
    arguments: tuple[str, ...] = ()
    """Any other option of `vllm serve`, such as `[--max-num-seqs, 16]`."""


class VllmConfig(EndpointConfig):
    """A model served by vLLM: by a server that StepInto starts (`server`), or by a running one."""

    backend: Literal["vllm"]
    model: str | None = None
    """Of `server`, an adapter's name; null: the model without adapters. Of a running server, one
    that it lists; null: its only one."""
    server: ServerConfig | None = None
    base_url: str | None = None
    """A running server's, such as http://127.0.0.1:8000/v1, in place of `server`."""
    api_key_env: str | None = None
    """The environment variable that holds a running server's key."""

    @property
    def folders(self) -> tuple[str, ...]:
        """What is served, by folders or ids on the hub; empty where that is not known."""
        if self.server is None:
            return ()
        return (self.server.model, *map(str, self.server.adapters.values()))

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if (self.server is None) == (self.base_url is None):
            raise ValueError(
                "give either `server`, for a vLLM that StepInto starts, or `base_url`, for one "
                "that runs"
            )
        if self.server is not None and self.model not in (None, *self.server.adapters):
            raise ValueError(
                f"`model` names the adapter {self.model!r}, which is not under server.adapters; "
                "leave it out for the model without adapters"
            )
        return self


class LocalConfig(_Settings):
    """A small model in this process, by transformers. Needs the extra `train`.

    Not for models with sliding windows or states in their layers: vLLM serves those."""

    backend: Literal["local"]
    model: str
    """A folder, or an id on the hub."""
    adapter: Path | None = None
    """A peft adapter's folder, merged into the model when it is loaded."""
    chat_template: Path | None = None
    """A Jinja file in place of the tokenizer's own template."""
    device: str = "auto"
    """auto: the first CUDA device, else the CPU."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: bfloat16 on CUDA, float32 on the CPU. One with avx512_bf16 or amx_bf16 reads prompts
    faster in bfloat16, any other is slower."""
    max_batch: PositiveInt = 8
    """Requests that are answered at once; each joins and leaves at any token."""
    max_context: PositiveInt | None = None
    """Tokens of prompt and completion together. None: what the model was made for."""
    prefix_cache: NonNegativeInt = 16
    """Prompts whose keys and values are kept, so that a conversation's next turn reads only what
    is new: twice `runner.concurrency` keeps every conversation's. 0 turns it off. Memory: this
    times the longest prompts."""
    sampling: Sampling = Sampling(max_tokens=512)
    threads: PositiveInt | None = None
    """CPU threads of torch, for the whole process. None: torch's own choice."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The model, and its adapter."""
        return (self.model,) if self.adapter is None else (self.model, str(self.adapter))


class OracleConfig(_Settings):
    """The scripted teacher, which knows the gold patch."""

    backend: Literal["oracle"]
    sampling: ClassVar[Sampling] = Sampling()
    candidates: int = Field(default=4, ge=2)
    """Patches, one of them right, among which the oracle as main agent has to choose."""
    answer: Literal["full", "nothing"] = "full"
    """As a subagent: `nothing` sets a floor under the scores of others."""
    sessions: Literal["varied", "direct"] = "varied"
    """How it debugs as a subagent: as developers do, with looks around and wrong guesses; or the
    shortest way to the answer, of which a small model learns more from few sessions."""


class ReplayConfig(_Settings):
    """Recorded completions, given back in order."""

    backend: Literal["replay"]
    sampling: ClassVar[Sampling] = Sampling()
    path: Path
    """A run folder, or a JSON-lines file of `collect.models.replay`."""


ModelConfig = Annotated[
    OpenAIConfig | VllmConfig | LocalConfig | OracleConfig | ReplayConfig,
    Field(discriminator="backend"),
]
