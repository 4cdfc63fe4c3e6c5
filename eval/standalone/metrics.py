"""Metrics of a subagent's answers to runtime questions, one set of numbers per model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from collect.question_records import Category
from collect.questions.config import SOURCE_READER
from collect.questions.rows import VARIANT, Answered
from collect.questions.scoring import Reason
from collect.store.records import ORACLE_TEACHER
from eval.metrics import Arm, InstanceKey, clustered_wilson, percent


@dataclass(frozen=True)
class ModelAnswers:
    """The questions to one model, and its answers."""

    model: str
    """`source_reader` for the reader of the source, which runs nothing."""
    answered: tuple[Answered, ...]
    missing: int = 0
    """Questions without a verdict: failed because of the infrastructure or the budget, or not asked
    yet."""

    @property
    def arm(self) -> Arm:
        """The model as an arm, for paired statistics and records."""
        return Arm(VARIANT, "", self.model)

    @property
    def scripted(self) -> bool:
        """Whether the oracle answered."""
        rows = (each.rollout for each in self.answered)
        return any(row is not None and row.teacher == ORACLE_TEACHER for row in rows)

    @property
    def is_source_reader(self) -> bool:
        return self.model == SOURCE_READER


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers."""

    questions: int
    right: int
    percent: float
    low: float
    """95 % Wilson interval in percent, clustered by bug."""
    high: float


@dataclass(frozen=True)
class AloneMetrics:
    """The numbers of one model. None if there is nothing to average over."""

    model: str
    scripted: bool
    questions: int
    """Questions for which all models have a verdict; the base of all following fields."""
    instances: int
    """Number of bugs in these questions."""
    missing: int
    """Questions for which this model has no verdict."""
    accuracy: Accuracy | None
    categories: Mapping[Category, Accuracy]
    well_formed: float | None
    """Percent of answers with a well-formed answer block."""
    grounded: float | None
    """Percent of answers with claims whose every claim was observed in the conversation, except
    claims that the task stated."""
    tool_calls: int
    invalid_calls: int
    """Calls not executed: no such tool, or arguments that don't match its schema."""
    refused_calls: int
    """Calls not executed: the debugger's state or the tool limit did not allow them."""
    valid_calls: float | None
    """Percent of calls that were neither invalid nor refused."""
    steps: float | None
    """Average completions per question."""
    tokens: float | None
    """Average input and output tokens per question."""
    seconds: float | None
    """Average wall time per question, including the sandbox's start."""
    dollars: float | None
    """Total over all questions."""
    dollars_per_question: float | None
    dollars_per_right: float | None
    reasons: Mapping[str, int]
    """Wrong answers by reason."""

    @property
    def is_source_reader(self) -> bool:
        return self.model == SOURCE_READER


def shared_questions(models: Sequence[ModelAnswers]) -> frozenset[str]:
    """The ids of the questions for which all models have a verdict.

    A model without any verdict is listed, but does not affect the choice.
    """
    asked = [frozenset(each.question.id for each in model.answered) for model in models]
    asked = [ids for ids in asked if ids]
    return frozenset.intersection(*asked) if asked else frozenset()


def alone_metrics(model: ModelAnswers, questions: Collection[str]) -> AloneMetrics:
    """The metrics of one model over the given questions."""
    answers = [each for each in model.answered if each.question.id in questions]
    rows = [each.rollout for each in answers if each.rollout is not None]
    right = sum(each.verdict.correct for each in answers)
    calls = sum(each.tool_calls for each in answers)
    invalid = sum(row.invalid_tool_calls for row in rows)
    refused = sum(row.refused_tool_calls for row in rows)
    formed = sum(each.verdict.reason is not Reason.NO_ANSWER for each in answers)
    claiming = [each.grounding for each in answers if each.grounding is not None]
    dollars = sum(row.dollars for row in rows)
    return AloneMetrics(
        model=model.model,
        scripted=model.scripted,
        questions=len(answers),
        instances=len({bug_of(each) for each in answers}),
        missing=model.missing,
        accuracy=accuracy(answers),
        categories=by_category(answers),
        well_formed=None if model.is_source_reader else percent(formed, len(answers)),
        grounded=percent(sum(share == 1 for share in claiming), len(claiming)),
        tool_calls=calls,
        invalid_calls=invalid,
        refused_calls=refused,
        valid_calls=percent(calls - invalid - refused, calls),
        steps=_average([row.sub_steps for row in rows]),
        tokens=_average([row.sub_tokens for row in rows]),
        seconds=_average([row.seconds for row in rows]),
        dollars=dollars if rows else None,
        dollars_per_question=dollars / len(rows) if rows else None,
        dollars_per_right=dollars / right if rows and right else None,
        reasons=Counter(each.verdict.reason.value for each in answers if not each.verdict.correct),
    )


def accuracy(answers: Sequence[Answered]) -> Accuracy | None:
    """The share of right answers; None if there are no answers."""
    if not answers:
        return None
    bugs: dict[InstanceKey, list[bool]] = defaultdict(list)
    for each in answers:
        bugs[bug_of(each)].append(each.verdict.correct)
    low, high = clustered_wilson(list(bugs.values()))
    right = sum(each.verdict.correct for each in answers)
    return Accuracy(len(answers), right, 100 * right / len(answers), 100 * low, 100 * high)


def by_category(answers: Sequence[Answered]) -> dict[Category, Accuracy]:
    """The accuracy of each category that has questions."""
    groups = {
        category: accuracy([each for each in answers if each.question.category is category])
        for category in Category
    }
    return {category: found for category, found in groups.items() if found is not None}


def bug_of(answer: Answered) -> InstanceKey:
    """The bug of a question, unique across benchmarks."""
    return answer.question.benchmark, answer.question.instance_id


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
