"""The questions of an evaluation: those of a file, or made for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.splits import drawn
from collect.config import Machinery
from collect.errors import ConfigError
from collect.questions.building import DEFAULT_NAME, build, questions_path
from collect.questions.config import ANSWERING, QuestionsConfig
from collect.questions.records import Question, read_questions
from eval.alone.config import AloneConfig


@dataclass(frozen=True)
class ChosenQuestions:
    """What is asked, and what is not."""

    questions: tuple[Question, ...]
    path: Path
    about_others: int
    """Questions of the file about bugs that the benchmark's section does not select."""
    over_limit: int


def asking_config(config: AloneConfig, benchmark: BenchmarkConfig, folder: Path) -> QuestionsConfig:
    """Where the questions lie, and what makes them. Questions made in another way lie elsewhere."""
    if config.path is not None:
        return config.asking(benchmark, Path(config.path))
    made = config.asking(benchmark, folder / DEFAULT_NAME).model_dump_json(exclude=ANSWERING)
    digest = hashlib.sha256(made.encode()).hexdigest()[:8]
    return config.asking(benchmark, folder / f"questions-{digest}.jsonl")


def questions_file(
    machinery: Machinery, config: AloneConfig, asking: QuestionsConfig, folder: Path
) -> Path | None:
    """The config's file of questions, made where it names none and there is none yet.

    None where the user stopped that: the next start goes on. Raises ConfigError, SandboxError.
    """
    path = questions_path(asking, folder)
    if to_be_made(config, path) and build(machinery, asking, folder).card is None:
        return None
    return path


def to_be_made(config: AloneConfig, path: Path) -> bool:
    """Whether the questions of that file are to be made, and are not there yet."""
    return config.path is None and not path.is_file()


def choose_questions(
    config: AloneConfig, path: Path, instances: Sequence[Instance]
) -> ChosenQuestions:
    """The file's questions about these bugs. Raises ConfigError, also where there is none."""
    known = {(each.benchmark, each.id) for each in instances}
    every = read_questions(path)
    about = [each for each in every if (each.benchmark, each.instance_id) in known]
    if not about:
        raise ConfigError(
            f"{path}: none of its {len(every)} questions is about the {len(instances)} bugs that "
            f"are evaluated{_example(every)}. Name the benchmark that they were made from in "
            "eval.questions.benchmark, with the split that has their bugs"
        )
    kept = tuple(drawn(about, config.shuffle_seed, config.limit))
    return ChosenQuestions(kept, path, len(every) - len(about), len(about) - len(kept))


def _example(questions: Sequence[Question]) -> str:
    first = next(iter(questions), None)
    return f" (the first: {first.benchmark} {first.instance_id})" if first is not None else ""
