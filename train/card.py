"""Write the trained model's card: what it is, how it was trained, how to serve and use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from collect.quantities import counted
from format.card import markdown_table
from format.dataset import split_file
from format.report import FormatReport
from train.base_model import SMOLLM2
from train.config import TrainConfig
from train.job import Job
from train.preflight.report import Preflight
from train.report import TrainReport

NAME = "README.md"
HUB_IDS = {SMOLLM2: "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Hub ids of base models that have another name in configs."""
LICENSES = {HUB_IDS[SMOLLM2]: "apache-2.0"}
CURVE_POINTS = 20
"""Points of the loss curve in the card; training.json has all."""
SHOWN = (
    "method",
    "learning_rate",
    "batch_size",
    "gradient_accumulation",
    "max_length",
    "curriculum",
    "seed",
)
Table = list[tuple[Any, ...]]


def model_card(job: Job, report: TrainReport) -> str:
    """The card as Markdown, with the hub's YAML before it."""
    front = yaml.safe_dump(_front_matter(job.config), sort_keys=False)
    sections = (_title(job), _data(job, report), _training(report), _curve(report))
    body = "\n\n".join(text for text in (*sections, _test_loss(report), _use(job)) if text)
    return f"---\n{front}---\n\n{body}\n"


def base_name(config: TrainConfig) -> str | None:
    """The base model's id on the hub; None for a folder."""
    name = HUB_IDS.get(config.base_model, config.base_model)
    is_hub_id = name.count("/") == 1 and not name.startswith((".", "/", "~", "pypi:"))
    return name if is_hub_id else None


def shown_base(config: TrainConfig) -> str:
    """The base model's name for readers on other machines, without local paths."""
    return base_name(config) or Path(config.base_model).name


def _front_matter(config: TrainConfig) -> dict[str, Any]:
    base = base_name(config)
    facts: dict[str, Any] = {"library_name": "transformers" if config.merges else "peft"}
    if config.lora is None:
        facts["library_name"] = "transformers"
    facts["pipeline_tag"] = "text-generation"
    if base is not None:
        facts["base_model"] = base
        facts["base_model_relation"] = "finetune" if config.merges else "adapter"
    if base in LICENSES:
        facts["license"] = LICENSES[base]
    return facts | {"tags": ["stepinto", "debugging", "tool-use", "agent", "code"]}


def _title(job: Job) -> str:
    base = shown_base(job.config)
    return (
        f"# {job.run.resolve().name}\n\nA debug subagent: given a question about a failing test, "
        "it drives a debugger with tool calls and answers from what it saw. Trained by "
        f"StepInto from `{base}`."
    )


def _data(job: Job, report: TrainReport) -> str:
    held = _held(job, report.preflight)
    text = f"## Data\n\n{held}. sha256 of the train split: `{report.data_sha256}`."
    formatted = _format_report(job)
    if formatted is None:
        return text
    funnel = formatted.funnel
    lines: Table = [("filter", "dropped", "left"), ("conversations", "", funnel.conversations)]
    lines += [(step.name, step.dropped, step.remaining) for step in funnel.steps if step.dropped]
    sources: Table = [("benchmark", "language", "system", "variant", "teacher", "model", "rows")]
    for source, count in formatted.splits["train"].sources.items():
        sources.append((*source.split("\t"), count))
    return f"{text}\n\n{_table(lines)}\n\n{_table(sources)}"


def _held(job: Job, data: Preflight) -> str:
    """Describe the training data."""
    if job.config.method == "grpo":
        return f"{counted(data.rows, 'question')}, answered in debug sessions while training"
    named = counted(data.rows, "row")
    if job.config.method == "dpo":
        named = f"{counted(data.pairs, 'pair')} ({data.pairs_left_out:,} more were left out)"
    return (
        f"{named}, {data.tokens:,} tokens, of which {data.trained_tokens:,} are trained; "
        "the rest is context"
    )


def _format_report(job: Job) -> FormatReport | None:
    """The format stage's report on these data; None if there is none."""
    path = job.run / "sft" / "report.json"
    if not path.is_file() or split_file(job.run / "sft", "train") != job.data:
        return None
    return FormatReport.model_validate_json(path.read_text(encoding="utf-8"))


def _training(report: TrainReport) -> str:
    config = report.config
    facts: dict[str, Any] = {name: config[name] for name in SHOWN if name in config}
    facts["lora"] = _lora(config["lora"])
    facts["trained parameters"] = f"{report.trained_parameters:,} of {report.parameters:,}"
    facts["optimizer steps"] = report.steps
    facts["seconds"] = f"{report.seconds:,.0f} on {report.device}"
    facts["training"] = report.fingerprint
    facts |= {f"version of {name}": version for name, version in report.versions.items()}
    return f"## Training\n\n{_table([('setting', 'value'), *facts.items()])}"


def _lora(settings: Mapping[str, Any] | None) -> str:
    if settings is None:
        return "none: every weight"
    return ", ".join(f"{name}: {value}" for name, value in settings.items() if value is not None)


def _curve(report: TrainReport) -> str:
    points = report.loss_curve
    if not points:
        return ""
    every = -(-len(points) // CURVE_POINTS)
    shown = [*points[::every], *([points[-1]] if (len(points) - 1) % every else [])]
    lines: Table = [("step", "epoch", "loss", "token accuracy", "learning rate")]
    for point in shown:
        accuracy = "" if point.token_accuracy is None else f"{point.token_accuracy:.3f}"
        epoch, loss = f"{point.epoch:.2f}", f"{point.loss:.4f}"
        lines.append((point.step, epoch, loss, accuracy, f"{point.learning_rate:.2e}"))
    return f"## Loss\n\n{_table(lines)}"


def _test_loss(report: TrainReport) -> str:
    if not report.eval_curve:
        return ""
    lines: Table = [("step", "loss", "token accuracy")]
    for point in report.eval_curve:
        accuracy = "" if point.token_accuracy is None else f"{point.token_accuracy:.3f}"
        lines.append((point.step, f"{point.loss:.4f}", accuracy))
    return f"## Loss on the test split\n\nOf other repositories.\n\n{_table(lines)}"


def _use(job: Job) -> str:
    config = job.config
    parser = config.tool_call_parser
    tools = f" --enable-auto-tool-choice --tool-call-parser {parser}" if parser else ""
    if config.lora is not None and not config.merge:
        base = shown_base(config)
        rank = config.lora.r
        start = (
            f"vllm serve {base} --enable-lora --max-lora-rank {rank} --lora-modules debugger=MODEL"
            " --chat-template MODEL/chat_template.jinja"
        )
    else:
        start = "vllm serve MODEL --served-model-name debugger"
    return (
        "## Use\n\nMODEL is this folder. Serve it:\n\n"
        f"```\n{start}{tools} --max-model-len {config.max_length}\n```\n\n"
        "As StepInto's debug subagent, in a run's config:\n\n"
        "```yaml\nmodels:\n  debugger:\n    backend: openai\n    model: debugger\n"
        "    base_url: http://localhost:8000/v1\n    api_key_env: null\n```"
    )


def _table(lines: Table) -> str:
    header, *rows = ([str(cell) for cell in line] for line in lines)
    return markdown_table(header, rows)
