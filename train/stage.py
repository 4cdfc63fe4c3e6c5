"""The train stage: train a model in `RUN/model/` on a run's data.

An interrupted training resumes from its newest complete checkpoint, and a finished one is not
repeated as long as config and data are the same.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import logging
import pickle
import re
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from collect.models.config import TRAINING as TRAINED
from collect.models.config import trained_on, training_of
from collect.quantities import counted
from collect.rollouts.tracking import wandb_run
from collect.store.files import LOCK, locked, replacing_folder
from train.adapters import check_adapters
from train.base_model import (
    TRAINING,
    Tokenization,
    load_tokenization,
    require,
    resolve_base_model,
    set_serving_template,
)
from train.config import TrainConfig, doubt, with_learning_rate
from train.job import (
    Job,
    Processes,
    QuestionBench,
    epoch_steps,
    is_main_process,
    joined,
    process_count,
    refuse_idle_gpus,
    sharded,
)
from train.methods.dpo import PreferenceOptimization
from train.methods.grpo import RewardOptimization
from train.methods.sft import SupervisedFineTuning
from train.preflight import Preflight
from train.report import TrainReport, model_card
from train.trainer import (
    AtItsEnd,
    OnPart,
    OnStep,
    check_quantization,
    check_trainer_arguments,
    eval_curve,
    load_model,
    loss_curve,
    on_cpu,
    report_steps,
    without_weights,
)

LEARNED = ("repositories", "instructions")
"""What a report says of the data, and a copy too."""

logger = logging.getLogger(__name__)
FEW_STEPS = 10
"""An epoch of fewer optimizer steps is warned about."""

Method = SupervisedFineTuning | PreferenceOptimization | RewardOptimization
"""A training method: its data, and the trainer over them. The stage does the rest."""


def run_train(
    config: TrainConfig,
    run: Path,
    on_step: OnStep | None = None,
    bench: QuestionBench | None = None,
    on_part: OnPart | None = None,
) -> TrainReport:
    """Train on the run's data and save the model, with the report beside it.

    `bench` answers questions for training on rewards; None: the default one.
    Raises ConfigError if the input is wrong: no data, unknown TRL options, or rows that would not
    be trained on.
    """
    config = with_learning_rate(config)
    method, cpu = check_train(config, bench), on_cpu(config)
    data = method.data(run)
    with data.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    job = Job(config, run, data, sha256, method.other_facts)
    if (done := finished(run / "model", job.fingerprint)) is not None:
        return done
    import datasets
    from transformers.utils import logging as model_logging

    # The command line shows its own progress.
    datasets.disable_progress_bars()
    model_logging.disable_progress_bar()
    with _alone(job), warnings.catch_warnings(), joined(cpu) as processes:
        warnings.simplefilter("ignore", FutureWarning)
        with _disk_errors(run):
            return _train(job, method, processes, report_steps(on_step, on_part))


UNWRITTEN = re.compile(r"\(os error (\d{1,4})\)|PytorchStreamWriter failed|unexpected pos \d")
"""In the errors of safetensors and torch, if a file can't be written."""


@contextmanager
def _disk_errors(run: Path) -> Iterator[None]:
    """Raise OSError for what libraries raise in its place, such as on a full disk."""
    from safetensors import SafetensorError

    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        found = UNWRITTEN.search(str(error))
        if found is None:
            raise
        first, _, _ = str(error).partition("\n")
        raise OSError(int(found[1] or errno.ENOSPC), f"{run} can't be written: {first}") from error


@contextmanager
def _alone(job: Job) -> Iterator[None]:
    """Keep other trainings out of the run's folder, since each removes what it finds there of an
    unfinished one. Of several processes, the main one does. Raises ConfigError."""
    if not is_main_process():
        yield
        return
    job.work.mkdir(parents=True, exist_ok=True)
    with closing(locked(job.work / LOCK)):
        yield


def check_train(config: TrainConfig, bench: QuestionBench | None = None) -> Method:
    """The config's method. Raises ConfigError if this machine, what is installed, or TRL does not
    support the config; data and models are not checked."""
    require((*TRAINING, "wandb") if config.wandb is not None else TRAINING)
    check_trainer_arguments(config)
    method: Method = SupervisedFineTuning(config)
    if config.method == "dpo":
        method = PreferenceOptimization(config)
    elif config.method == "grpo":
        method = RewardOptimization(config, bench or QuestionBench())
        method.check()
    check_quantization(config)
    refuse_idle_gpus(on_cpu(config))
    return method


def _train(job: Job, method: Method, processes: Processes, reporter: Any) -> TrainReport:
    config, on_main = job.config, processes.on_main
    # The checks need only a folder with a tokenizer, but training needs the model.
    on_main(lambda: resolve_base_model(config.base_model, config.base_model_sha256))
    tokenization = load_tokenization(config)
    base = tokenization.base
    if is_main_process():
        logger.info(f"checking {job.data} and loading {config.base_model}")
    preflight = on_main(lambda: _prepare(job, method, tokenization))
    resume = on_main(lambda: newest_checkpoint(job.checkpoints, job.fingerprint, process_count()))
    model = load_model(config, base)
    facts = config.model_dump(mode="json") | {"data_sha256": job.data_sha256}
    # The trainer's own callback finds wandb's run and logs to it.
    tracked = wandb_run(config.wandb if is_main_process() else None, job.work, facts)
    with method.trainer(job, model, tokenization) as trainer, tracked:
        trainer.add_callback(reporter)
        if is_main_process():
            steps = counted(trainer.args.max_steps, "step") if config.max_steps else "all epochs"
            rows, device = counted(len(trainer.train_dataset), "row"), trainer.args.device
            epoch = epoch_steps(config, len(trainer.train_dataset))
            if epoch < FEW_STEPS and config.method != "grpo":
                told = f"an epoch of {rows} is only {counted(epoch, 'step')}"
                logger.warning(f"{told}: collect more, or the model will learn little")
            logger.info(f"training {config.base_model} for {steps} on {rows}, on {device}")
        started = time.monotonic()
        try:
            with suppress(AtItsEnd):
                trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        except pickle.UnpicklingError as error:
            raise ConfigError(
                f"{resume} is damaged, or no training has written it; remove it to go on from an "
                f"earlier one: {error}"
            ) from error
        seconds = time.monotonic() - started
        measured = {point.step for point in eval_curve(trainer.state.log_history)}
        if config.eval_every is not None and trainer.state.global_step not in measured:
            trainer.evaluate()
    # A quantized base model, or a part of a model, is no whole one in full precision.
    if (config.lora is not None and config.lora.quantize is not None) or sharded():
        trainer.save_model(str(job.work / "trained"))
        main = trainer.is_world_process_zero()
        trained = reloaded(config, base, job.work / "trained") if main else None
    else:
        trained = trainer.accelerator.unwrap_model(trainer.model)
    report = TrainReport(
        fingerprint=job.fingerprint,
        config=config.model_dump(mode="json"),
        base_model=base,
        data_sha256=job.data_sha256,
        repositories=sorted(trained_on(base).union(preflight.repositories)),
        instructions=sorted(trained_on(base, "instructions").union(preflight.instructions)),
        preflight=preflight,
        parameters=trainer.model.num_parameters(),
        trained_parameters=trainer.model.num_parameters(only_trainable=True),
        device=str(trainer.args.device),
        steps=trainer.state.global_step,
        seconds=round(seconds, 3),
        resumed_from_step=step_of(resume) if resume else 0,
        loss_curve=loss_curve(trainer.state.log_history),
        eval_curve=eval_curve(trainer.state.log_history),
        versions={name: version(name) for name in TRAINING},
    )
    on_main(lambda: _save(job, trained, tokenization, report))
    return report


def _prepare(job: Job, method: Method, tokenization: Tokenization) -> Preflight:
    """Check the base model and the data, and write the rows. Raises ConfigError."""
    described = without_weights(job.config, tokenization.base)
    parameters = described.num_parameters()
    check_adapters(job.config, described)
    if (told := doubt(job.config, parameters)) is not None:
        logger.warning(told)
    preflight = method.prepare(job, tokenization)
    preflight.refuse_failures()
    for finding in preflight.warnings:
        logger.warning(finding.line)
    if job.config.save_untuned:
        base = load_model(job.config, tokenization.base, quantized=False)
        known = training_of(Path(tokenization.base))
        learned = {name: known[name] for name in LEARNED if name in known}
        save_copy(base, tokenization, job.run / "untuned", learned)
    return preflight


def _save(job: Job, trained: Any, tokenization: Tokenization, report: TrainReport) -> None:
    """Write the model and its intermediate copies as they would be served, merged if the config
    says so, and remove files that only an unfinished training needs."""
    config, copies = job.config, job.run / "model-at"
    shutil.rmtree(copies, ignore_errors=True)
    for rows in config.checkpoints_at:
        model = reloaded(config, tokenization.base, job.kept_copy(rows))
        whole = model.merge_and_unload() if config.merges else model
        save_copy(whole, tokenization, copies / str(rows), report.model_dump(include={*LEARNED}))
    record = report.model_dump_json(indent=2) + "\n"
    texts = {"README.md": model_card(job, report), TRAINED: record}
    whole = trained.merge_and_unload() if config.merges else trained
    save_model(whole, tokenization, job.run / "model", texts)
    shutil.rmtree(job.checkpoints)
    shutil.rmtree(job.work / "trained", ignore_errors=True)
    for path in job.work.glob("*.arrow"):
        path.unlink()


def reloaded(config: TrainConfig, base: str, folder: Path) -> Any:
    """Load the model in a trainer's folder: adapters on the full-precision base model, or a whole
    one."""
    if config.lora is None:
        return load_model(config, str(folder))
    from peft import PeftModel

    return PeftModel.from_pretrained(load_model(config, base, quantized=False), str(folder))


def save_model(
    model: Any, tokenization: Tokenization, target: Path, texts: Mapping[str, str]
) -> None:
    """Write weights, tokenizer, serving template, generation config, and texts by name.

    All are written beside the target and moved there when complete.
    """
    tokenizer = copy.deepcopy(tokenization.tokenizer)
    set_serving_template(tokenizer, tokenization.templates.serving)
    # Generation is to stop at the tokenizer's end-of-turn token.
    known = model.generation_config.eos_token_id
    ids = [known] if isinstance(known, int) else list(known or [])
    if tokenizer.eos_token_id not in ids:
        model.generation_config.eos_token_id = [*ids, tokenizer.eos_token_id]
    # The trainer disables the cache.
    model.config.use_cache = True
    with replacing_folder(target) as folder:
        model.save_pretrained(folder)
        # Saving an adapter does not save the generation config.
        model.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        # safetensors makes its files unreadable for others, such as a server's container.
        readable = folder.stat().st_mode & 0o666
        for file in folder.iterdir():
            file.chmod(readable)


def save_copy(
    model: Any, tokenization: Tokenization, target: Path, learned: Mapping[str, list[str]]
) -> None:
    """Write another model as it would be served, such as the base model, with what the report
    says of its data, if anything."""
    told = json.dumps(learned, indent=2) + "\n"
    save_model(model, tokenization, target, {TRAINED: told} if learned else {})


def finished(folder: Path, fingerprint: str) -> TrainReport | None:
    """The report in a model folder, if this same training has written it."""
    made = training_of(folder)
    return TrainReport.model_validate(made) if made.get("fingerprint") == fingerprint else None


# The checkpoints of an interrupted training.


FINGERPRINT = "fingerprint"
PROCESSES = "processes"
"""File with the number of processes; checkpoints without it are accepted."""


def newest_checkpoint(folder: Path, fingerprint: str, processes: int) -> Path | None:
    """Remove what interrupted saves have left.

    Returns the one to resume from. Raises ConfigError if another training wrote it, or another
    number of processes: with more of them a step trains more rows, so resuming would train some
    rows twice.
    """
    mark, noted = folder / FINGERPRINT, folder / PROCESSES
    newest = newest_whole(folder)
    if not mark.is_file() or mark.read_text() != fingerprint:
        if newest is not None:
            raise ConfigError(
                f"{newest} is of an unfinished training with other settings or data: start it with "
                f"those to go on with it, or remove {folder} to begin anew"
            )
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)
    for path in folder.glob("checkpoint-*"):
        if not _is_whole(path):
            shutil.rmtree(path)
    if newest is not None:
        _refuse_calls(newest)
    before = int(noted.read_text()) if newest and noted.is_file() else processes
    if before != processes:
        raise ConfigError(
            f"{newest} was saved by a training in {before} processes, and this start has "
            f"{processes}, whose steps are of other rows: start it with {before} processes, or "
            f"remove {folder} to begin anew"
        )
    noted.write_text(str(processes))
    return newest


def newest_whole(folder: Path) -> Path | None:
    """The checkpoint to resume from, or None."""
    found = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(filter(_is_whole, found), key=step_of, default=None)


TABLE = ".metadata"
"""Describes the parts of a sharded checkpoint. torch reads it with pickle, which can call anything;
the trainer's other pickles are read as weights only."""
NAMED_IN_TABLE = {
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties", "_MEM_FORMAT_ENCODING"),
        *("BytesStorageMetadata", "ChunkStorageMetadata", "TensorStorageMetadata"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath"},
}


class _Table(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        import torch

        describes = name == "Size" or isinstance(getattr(torch, name, None), torch.dtype)
        if name in NAMED_IN_TABLE.get(module, ()) or (module == "torch" and describes):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _refuse_calls(checkpoint: Path) -> None:
    """Raises ConfigError if the table of a sharded checkpoint names more than it has to."""
    for path in checkpoint.rglob(TABLE):
        try:
            with path.open("rb") as file:
                _Table(file).load()
        except Exception as error:  # pickle raises many
            raise ConfigError(
                f"{path} is damaged, or no training has written it; remove {checkpoint}: {error}"
            ) from error


def _is_whole(checkpoint: Path) -> bool:
    """Whether the save was completed: the trainer writes its state file last."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(state, dict) and state.get("global_step") == step_of(checkpoint)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))
