"""The record of a training run, `model/training.json`, and the trained model's card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from collect.markdown import plain
from collect.quantities import counted
from collect.store.files import StrictRecord
from format.report import markdown_table
from train.config import SMOLLM2, TrainConfig
from train.job import Job
from train.preflight import Preflight


class LossPoint(StrictRecord):
    step: int
    epoch: float
    loss: float
    learning_rate: float
    token_accuracy: float | None = None
    """Share of the trained tokens that the model ranks first."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """Metrics of the step from training on preferences or rewards, by TRL's names."""


class EvalPoint(StrictRecord):
    step: int
    loss: float
    """Mean of the batches' losses; with `batch_size` 1, of the rows'."""
    token_accuracy: float | None = None


class TrainReport(StrictRecord):
    """The report of a finished training; its file marks a model folder as complete."""

    fingerprint: str
    """Hash of the config, the data, the base model and the user's templates; the same training is
    not repeated."""
    config: dict[str, Any]
    base_model: str
    """The model that was loaded: a local folder or a hub id."""
    data_sha256: str
    """Hash of the train split's file."""
    repositories: list[str] = Field(default_factory=list)
    """Repositories whose bugs were trained on, by this training and those of the base model."""
    instructions: list[str] = Field(default_factory=list)
    """Hashes of the Debug Subagent's system prompt and tools in the data."""
    preflight: Preflight
    parameters: int
    trained_parameters: int
    device: str
    steps: int
    seconds: float
    """Seconds of training without loading and saving; if resumed, of the last start."""
    resumed_from_step: int
    """0 if it was not interrupted."""
    loss_curve: list[LossPoint]
    eval_curve: list[EvalPoint] = Field(default_factory=list)
    versions: dict[str, str]


# The trained model's card: what it is, how it was trained, how to serve and use it.


HUB_IDS = {SMOLLM2: "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Hub ids of base models that have another name in configs."""
LICENSES = {HUB_IDS[SMOLLM2]: "apache-2.0"}
SHOWN = (
    "method",
    "learning_rate",
    "batch_size",
    "gradient_accumulation",
    "max_length",
    "seed",
)


def model_card(job: Job, report: TrainReport) -> str:
    """The card as Markdown, with the hub's YAML before it."""
    config = job.config
    base = HUB_IDS.get(config.base_model, config.base_model)
    # A folder's path says nothing to readers on other machines.
    is_hub_id = base.count("/") == 1 and not base.startswith((".", "/", "~", "pypi:"))
    shown = base if is_hub_id else Path(config.base_model).name
    whole = config.lora is None or config.merge
    front: dict[str, Any] = {"library_name": "transformers" if whole else "peft"}
    front["pipeline_tag"] = "text-generation"
    if is_hub_id:
        front["base_model"] = base
        front["base_model_relation"] = "finetune" if whole else "adapter"
    if base in LICENSES:
        front["license"] = LICENSES[base]
    front["tags"] = ["stepinto", "debugging", "tool-use", "agent", "code"]
    sections = [
        f"# {plain(job.run.resolve().name)}",
        "A debug subagent: given a question about a failing test, it drives a debugger with tool "
        f"calls and answers from what it saw. Trained by StepInto from `{shown}`.",
        _data(config.method, report),
        _training(report),
        _use(config, shown),
    ]
    body = "\n\n".join(sections)
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}\n"


def _training(report: TrainReport) -> str:
    lora = report.config["lora"] or {}
    adapters = [f"{name}: {value}" for name, value in lora.items() if value is not None]
    facts: dict[str, Any] = {name: report.config[name] for name in SHOWN if name in report.config}
    facts["lora"] = ", ".join(adapters) or "none: every weight"
    facts["trained parameters"] = f"{report.trained_parameters:,} of {report.parameters:,}"
    facts["optimizer steps"] = report.steps
    facts["seconds"] = f"{report.seconds:,.0f} on {report.device}"
    facts["training"] = report.fingerprint
    curves: dict[str, Sequence[LossPoint | EvalPoint]] = {
        "loss": report.loss_curve,
        "loss on the test split": report.eval_curve,
    }
    for name, points in curves.items():
        if points:
            shown = [f"{each.loss:.4f} at step {each.step}" for each in (points[0], points[-1])]
            facts[name] = ", ".join(dict.fromkeys(shown))
    facts |= {f"version of {name}": version for name, version in report.versions.items()}
    lines = [[name, plain(str(value))] for name, value in facts.items()]
    return f"## Training\n\n{markdown_table(['setting', 'value'], lines)}"


def _data(method: str, report: TrainReport) -> str:
    data = report.preflight
    if method == "grpo":
        held = f"{counted(data.rows, 'question')}, answered in debug sessions while training"
    else:
        named = counted(data.rows, "row")
        if method == "dpo":
            named = f"{counted(data.pairs, 'pair')} ({data.pairs_left_out:,} more were left out)"
        held = (
            f"{named}, {data.tokens:,} tokens, of which {data.trained_tokens:,} are trained; the "
            "rest is context"
        )
    if data.marked:
        held += (
            f". In {counted(data.marked, 'row')} control tokens that a program or a model wrote "
            "are marked with a zero-width space"
        )
    return f"## Data\n\n{held}. sha256 of the train split: `{report.data_sha256}`."


def _use(config: TrainConfig, base: str) -> str:
    start = "vllm serve MODEL --served-model-name debugger"
    if config.lora is not None and not config.merge:
        start = (
            f"vllm serve {base} --enable-lora --max-lora-rank {config.lora.r} --lora-modules "
            "debugger=MODEL --chat-template MODEL/chat_template.jinja"
        )
    if config.tool_call_parser:
        start += f" --enable-auto-tool-choice --tool-call-parser {config.tool_call_parser}"
    return (
        "## Use\n\nMODEL is this folder. Serve it:\n\n"
        f"```\n{start} --max-model-len {config.max_length}\n```\n\n"
        "As StepInto's debug subagent, in a run's config:\n\n"
        "```yaml\nmodels:\n  debugger:\n    backend: openai\n    model: debugger\n"
        "    base_url: http://localhost:8000/v1\n    api_key_env: null\n```\n\n"
        "On your own repository, asked by you or by a coding agent (an MCP client):\n\n"
        '```sh\nstepinto ask "What is total at line 40?" --test tests/test_x.py::test_y '
        "--model MODEL\n"
        "claude mcp add stepinto -- stepinto mcp --repo . --model MODEL\n"
        "codex mcp add stepinto -- stepinto mcp --repo . --model MODEL\n```"
    )
