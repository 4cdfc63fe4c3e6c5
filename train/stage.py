"""The train stage: train a model in `RUN/model/` on a run's data.

An interrupted training resumes from its newest complete checkpoint, and a finished one is not
repeated as long as config and data are the same.
"""

from __future__ import annotations

import hashlib
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from collect.models.model_folders import trained_on
from collect.quantities import counted
from format.card import markdown_table
from format.dataset import split_file
from format.report import FormatReport
from train import saving
from train.base_model import SMOLLM2, resolve_base_model
from train.config import TrainConfig
from train.evaluation import eval_curve
from train.job import Job, QuestionBench
from train.learning_curve import save_copies
from train.methods.base import Method, open_method
from train.preflight.report import Preflight
from train.processes import Processes, joined, process_count, refuse_idle_gpus
from train.quantization import check_quantization
from train.report import TrainReport
from train.requirements import TRAINING, require
from train.samples import add_callbacks, sample_texts, tracked
from train.saving import final_model, finished, save_copy, save_model
from train.tokenization import Tokenization, load_tokenization
from train.trainer import OnStep, load_model, loss_curve, on_cpu, report_steps

# Write the trained model's card: what it is, how it was trained, how to serve and use it.


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


def run_train(
    config: TrainConfig,
    run: Path,
    on_step: OnStep | None = None,
    bench: QuestionBench | None = None,
) -> TrainReport:
    """Train on the run's data and save the model, with the report beside it.

    `bench` answers questions for training on rewards; None: the default one.
    Raises ConfigError if the input is wrong: no data, unknown TRL options, or rows that would not
    be trained on.
    """
    method, cpu = check_train(config, bench), on_cpu(config)
    data = method.data(run)
    job = Job(config, run, data, _sha256(data), method.other_facts)
    done = finished(run / "model", job.fingerprint)
    if done is not None:
        return done
    with _quiet_libraries(), joined(cpu) as processes:
        return _train(job, method, processes, on_step)


def check_train(config: TrainConfig, bench: QuestionBench | None = None) -> Method:
    """The config's method. Raises ConfigError if this machine, what is installed, or TRL does not
    support the config; data and models are not checked."""
    require((*TRAINING, "wandb") if config.wandb is not None else TRAINING)
    method = open_method(config, bench)
    method.check()
    cpu = on_cpu(config)
    check_quantization(config.lora, cpu)
    refuse_idle_gpus(cpu)
    return method


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _train(job: Job, method: Method, processes: Processes, on_step: OnStep | None) -> TrainReport:
    config, on_main = job.config, processes.on_main
    # The checks need only a folder with a tokenizer, but training needs the model.
    on_main(lambda: resolve_base_model(config.base_model, config.base_model_sha256))
    tokenization = load_tokenization(config)
    preflight = on_main(lambda: _prepared(job, method, tokenization))
    resume = on_main(lambda: saving.prepare(job.checkpoints, job.fingerprint, process_count()))
    model = load_model(config, tokenization.base)
    with method.trainer(job, model, tokenization) as trainer, tracked(job) as tracker:
        add_callbacks(trainer, job, tokenization, tracker)
        seconds = _fit(trainer, resume, on_step)
    trained = final_model(trainer, config, tokenization.base, job.work / "trained")
    report = TrainReport(
        fingerprint=job.fingerprint,
        config=config.model_dump(mode="json"),
        base_model=tokenization.base,
        data_sha256=job.data_sha256,
        repositories=sorted(method.repositories(job.data) | trained_on(tokenization.base)),
        preflight=preflight,
        resumed_from_step=saving.step_of(resume) if resume else 0,
        seconds=round(seconds, 3),
        versions={name: version(name) for name in TRAINING},
        **_outcome(trainer),
    )
    on_main(lambda: _save(job, trained, tokenization, report))
    return report


def _prepared(job: Job, method: Method, tokenization: Tokenization) -> Preflight:
    """Check and encode the rows, and save the base model if the config says so."""
    config = job.config
    preflight = method.prepare(job, tokenization)
    preflight.refuse_failures()
    if config.save_untuned:
        base = load_model(config, tokenization.base, quantized=False)
        serving = tokenization.templates.serving
        known = trained_on(tokenization.base)
        save_copy(base, tokenization.tokenizer, serving, job.run / "untuned", known)
    return preflight


def _save(job: Job, trained: Any, tokenization: Tokenization, report: TrainReport) -> None:
    """Write the model and its intermediate copies, and remove temporary files."""
    save_copies(job, tokenization, report.repositories)
    texts = {NAME: model_card(job, report)} | sample_texts(job)
    save_model(
        trained,
        tokenization.tokenizer,
        tokenization.templates.serving,
        report,
        job.run / "model",
        merge=job.config.merges,
        texts=texts,
    )
    _clean_up(job)


def _fit(trainer: Any, resume: Path | None, on_step: OnStep | None) -> float:
    """Train to the end; returns the seconds that it took."""
    if on_step is not None:
        trainer.add_callback(report_steps(on_step))
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    return time.monotonic() - started


def _outcome(trainer: Any) -> dict[str, Any]:
    """The trainer's facts about a finished training."""
    return {
        "parameters": trainer.model.num_parameters(),
        "trained_parameters": trainer.model.num_parameters(only_trainable=True),
        "device": str(trainer.args.device),
        "steps": trainer.state.global_step,
        "loss_curve": loss_curve(trainer.state.log_history),
        "eval_curve": eval_curve(trainer.state.log_history),
    }


def _clean_up(job: Job) -> None:
    """Remove files that only an unfinished training needs."""
    shutil.rmtree(job.checkpoints)
    shutil.rmtree(job.work / "trained", ignore_errors=True)
    for path in job.work.glob("*.arrow"):
        path.unlink()


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Silence progress bars, since the command line shows its own, and deprecation warnings."""
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        datasets.enable_progress_bars()
        logging.enable_progress_bar()
