"""The model's replies at turns of the test split, beside the teacher's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from collect.errors import ConfigError
from collect.rollouts.tracking import wandb_run
from collect.store.atomic_files import write_text
from collect.store.record_lines import StrictRecord
from train.config import SampleSettings
from train.job import Job
from train.processes import is_main_process
from train.rows import find_test_split, rendered_rows
from train.tokenization import Tokenization

NAME = "samples.jsonl"


class Sample(StrictRecord):
    """One reply of the model."""

    step: int
    """The optimizer step after which the reply was generated; 0 is the base model."""
    conversation_id: str
    turn: int
    """Index among the conversation's assistant messages."""
    teacher: str
    """The teacher's message as the model would have to write it, with markup."""
    reply: str
    """The model's reply, decoded greedily."""


Question = tuple[list[int], Sample]
"""The token ids of a turn's prompt, and the sample without the reply and its step."""


def choose_questions(
    split: Path, settings: SampleSettings, tokenization: Tokenization, max_length: int
) -> list[Question]:
    """Choose turns of evenly spread rows of a split: the first row's first turn, the second row's
    second, and so on, to have both calls and answers.

    Raises ConfigError if no turn of these rows fits into the length.
    """
    total = pq.read_metadata(split).num_rows
    count = min(settings.count, total)
    places = {place * total // count for place in range(count)}
    room = max_length - settings.max_new_tokens
    found: list[Question] = []
    for place, row in enumerate(rendered_rows(split, tokenization)):
        if place not in places:
            continue
        reply = row.replies[len(found) % len(row.replies)]
        ids = tokenization.tokenizer(reply.prompt, add_special_tokens=False)["input_ids"]
        if len(ids) <= room:
            said = reply.text
            if said is None:
                said = json.dumps(reply.message, ensure_ascii=False)
            conversation, turn = row.conversation_id, reply.number
            sample = Sample(step=0, conversation_id=conversation, turn=turn, teacher=said, reply="")
            found.append((ids, sample))
    if not found:
        raise ConfigError(
            f"train.samples: none of {count} turns leaves room for "
            f"{settings.max_new_tokens} tokens within train.max_length = {max_length}; "
            "lower train.samples.max_new_tokens or raise train.max_length"
        )
    return found


def ask(
    model: Any, tokenizer: Any, questions: Sequence[Question], max_new_tokens: int, step: int
) -> Iterator[Sample]:
    """Generate the model's replies, each from its prompt to the end of the turn."""
    import torch

    was_training = model.training
    model.eval()
    for prompt, sample in questions:
        ids = torch.tensor([prompt], device=model.device)
        with torch.no_grad():
            said = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                use_cache=True,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        reply = tokenizer.decode(said[0][ids.shape[1] :])
        yield sample.model_copy(update={"step": step, "reply": reply})
    model.train(was_training)


def read_samples(path: Path) -> list[Sample]:
    """A training's samples so far, in order; none if there is no file."""
    if not path.is_file():
        return []
    # Not `splitlines`: JSON does not escape some other line ends that a reply may hold.
    lines = path.read_text(encoding="utf-8").split("\n")
    return [Sample.model_validate_json(line) for line in lines if line]


def add_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Add samples, and drop earlier ones of the same or later steps, from before a training was
    interrupted."""
    earlier = [each for each in read_samples(path) if each.step < samples[0].step]
    lines = [sample.model_dump_json() + "\n" for sample in (*earlier, *samples)]
    write_text(path, "".join(lines))


@contextmanager
def tracked(job: Job) -> Iterator[Any]:
    """Open a wandb run during the training, with its config and its data's hash, if the config asks
    for one; else it is None.

    With several processes, only the main one opens it.
    """
    if not is_main_process():
        yield None
        return
    facts = job.config.model_dump(mode="json") | {"data_sha256": job.data_sha256}
    # The trainer's own callback finds wandb's run and logs to it.
    with wandb_run(job.config.wandb, job.work, facts) as run:
        yield run


def sample_replies(trainer: Any, job: Job, tokenization: Tokenization, run: Any) -> None:
    """Add the callback that samples replies, if the config asks for it: before the first step, at
    the steps between, and at the end. `run` is the open wandb run, if there is one."""
    from transformers import TrainerCallback

    if job.config.samples is None:
        return
    settings = job.config.samples
    split = find_test_split(job.run, "train.samples")
    questions = choose_questions(split, settings, tokenization, job.config.max_length)
    tokenizer, path = tokenization.tokenizer, job.checkpoints / NAME

    class Ask(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **had: Any) -> None:
            if state.global_step == 0:
                self._ask(state, had["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **had: Any) -> None:
            due = settings.every and state.global_step % settings.every == 0
            if due and state.global_step < state.max_steps:
                self._ask(state, had["model"])

        def on_train_end(self, args: Any, state: Any, control: Any, **had: Any) -> None:
            self._ask(state, had["model"])

        def _ask(self, state: Any, model: Any) -> None:
            step = state.global_step
            found = list(ask(model, tokenizer, questions, settings.max_new_tokens, step))
            if not state.is_world_process_zero:
                return
            add_samples(path, found)
            if run is not None:
                import wandb

                rows = [sample.model_dump() for sample in found]
                data = [list(row.values()) for row in rows]
                table = wandb.Table(columns=list(rows[0]), data=data)
                run.log({"samples": table, "train/global_step": step})

    trainer.add_callback(Ask())
