"""The runtime questions that rollouts answer, found by the rollouts' ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.question_records import Question, read_questions
from collect.questions.rows import VARIANT, rollouts_of
from collect.questions.scoring import Verdict, score_text
from eval.report.facts import RolloutFacts


@dataclass(frozen=True)
class QuestionView:
    """A question, as the page of its answer shows it."""

    question: Question
    truth: tuple[tuple[str, str], ...]
    """The parts of the true answer, by name."""
    verdict: Verdict


def question_files(run: Path) -> list[Path]:
    """The question files that a run's stages wrote in its folder."""
    folders = (run, run / "eval", run / "eval" / "questions")
    return [path for folder in folders for path in sorted(folder.glob("*questions*.jsonl"))]


def question_view(question: Question, answer: str) -> QuestionView:
    """The question with the verdict on an answer, computed again."""
    return QuestionView(question, tuple(truth_parts(question)), score_text(question, answer))


def questions_of(facts: Iterable[RolloutFacts], paths: Iterable[Path]) -> Mapping[str, Question]:
    """The files' questions that these rollouts answer, by rollout id.

    Missing files are skipped; raises ConfigError for one that can't be read.
    """
    asked = [each for each in facts if each.arm.variant == VARIANT]
    wanted = {each.rollout_id for each in asked}
    answering = {(each.arm.sub_model, each.attempt) for each in asked}
    found: dict[str, Question] = {}
    for path in dict.fromkeys(paths):
        if wanted and path.is_file():
            answered = rollouts_of(read_questions(path), answering)
            found |= {key: question for key, question in answered if key in wanted}
    return found


def truth_parts(question: Question) -> list[tuple[str, str]]:
    """The parts of the true answer."""
    truth = question.truth.model_dump(exclude={"kind"}, exclude_none=True)
    return [(name, _told(value)) for name, value in truth.items() if value != ""]


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_told(item) for item in value)
    if not isinstance(value, Mapping):
        return str(value)
    if "text" in value:
        return f"{value['text']}  ({value['type']})" if value["type"] else str(value["text"])
    within = f" in {value['function']}" if value.get("function") else ""
    return f"{value['file']}:{value['line']}{within}"
