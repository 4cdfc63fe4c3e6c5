"""The train stage: train a model in `RUN/model/` on a run's data.

An interrupted training resumes from its newest complete checkpoint, and a finished one is not
repeated as long as config and data are the same.
"""

from __future__ import annotations

import hashlib
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from collect.config import needed
from collect.models.model_folders import trained_on
from train import card, saving
from train.base_model import resolve_base_model
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
    require((*TRAINING, *needed(config.wandb, config.trackio)))
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
    with method.trainer(job, model, tokenization) as trainer, tracked(job) as trackers:
        add_callbacks(trainer, job, tokenization, trackers)
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
    texts = {card.NAME: card.model_card(job, report)} | sample_texts(job)
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
