"""The train stage: a run's training data become a model in `RUN/model/`.

An interrupted training goes on from its newest whole checkpoint, and a finished one is not done
again, as long as the config and the data are the same.
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

from train import checkpoints
from train.base_model import resolve_base_model
from train.config import TrainConfig
from train.job import Job
from train.methods.base import Method
from train.methods.choosing import open_method
from train.question_bench import QuestionBench
from train.report import TrainReport
from train.requirements import TRAINING, require
from train.saving import finished, save_model, save_untuned
from train.tokenization import load_tokenization
from train.trainer import OnStep, load_model, loss_curve, report_steps


def run_train(
    config: TrainConfig,
    run: Path,
    on_step: OnStep | None = None,
    bench: QuestionBench | None = None,
) -> TrainReport:
    """Train on the run's data and save the model; the report lies beside it.

    `bench` is where training on rewards has its questions answered; None: the defaults'.
    Raises ConfigError where the input is wrong: no data, an option that TRL has not, rows that
    would not be trained on.
    """
    require((*TRAINING, "wandb") if config.wandb else TRAINING)
    method = open_method(config, bench)
    method.check()
    data = method.data(run)
    job = Job(config, run, data, _sha256(data), method.other_facts)
    done = finished(run / "model", job.fingerprint)
    if done is not None:
        return done
    with _quiet_libraries():
        return _train(job, method, on_step)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _train(job: Job, method: Method, on_step: OnStep | None) -> TrainReport:
    config = job.config
    # A folder with a tokenizer alone is enough for the checks, but not for training.
    resolve_base_model(config.base_model, config.base_model_sha256)
    tokenization = load_tokenization(config)
    base, tokenizer = tokenization.base, tokenization.tokenizer
    preflight = method.prepare(job, tokenization)
    preflight.refuse_failures()

    model = load_model(config, base)
    serving = tokenization.templates.serving
    if config.save_untuned:
        save_untuned(model, tokenizer, serving, job.run / "untuned")
    resume = checkpoints.prepare(job.checkpoints, job.fingerprint)
    with method.trainer(job, model, tokenization) as trainer, _logged(job):
        seconds = _fit(trainer, resume, on_step)
    trained = trainer.accelerator.unwrap_model(trainer.model)
    report = TrainReport(
        fingerprint=job.fingerprint,
        config=config.model_dump(mode="json"),
        base_model=base,
        data_sha256=job.data_sha256,
        preflight=preflight,
        resumed_from_step=checkpoints.step_of(resume) if resume else 0,
        seconds=round(seconds, 3),
        versions={name: version(name) for name in TRAINING},
        **_outcome(trainer),
    )
    save_model(trained, tokenizer, serving, report, job.run / "model", merge=config.merges)
    _clean_up(job)
    return report


def _fit(trainer: Any, resume: Path | None, on_step: OnStep | None) -> float:
    """Train to the end; seconds that it took."""
    if on_step is not None:
        trainer.add_callback(report_steps(on_step))
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    return time.monotonic() - started


def _outcome(trainer: Any) -> dict[str, Any]:
    """What the trainer knows of a finished training."""
    return {
        "parameters": trainer.model.num_parameters(),
        "trained_parameters": trainer.model.num_parameters(only_trainable=True),
        "device": str(trainer.args.device),
        "steps": trainer.state.global_step,
        "loss_curve": loss_curve(trainer.state.log_history),
    }


def _clean_up(job: Job) -> None:
    """Remove what only an unfinished training needs."""
    shutil.rmtree(job.checkpoints)
    for path in job.work.glob("*.arrow"):
        path.unlink()


@contextmanager
def _logged(job: Job) -> Iterator[None]:
    """A wandb run around the training, which the trainer's callback finds and logs to."""
    settings = job.config.wandb
    if settings is None:
        yield
        return
    import wandb

    facts = job.config.model_dump(mode="json") | {"data_sha256": job.data_sha256}
    with wandb.init(
        project=settings.project,
        name=settings.name,
        mode=settings.mode,
        dir=str(job.work),
        config=facts,
    ):
        yield


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """No progress bars, as the command line shows progress of its own, and no deprecations."""
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
