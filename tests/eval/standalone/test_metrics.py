"""What answers come to, from answers made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from collect.question_records import SOURCE_READER, Category, Question
from collect.questions.asking import Answered
from collect.questions.scoring import Reason, Verdict
from eval.config import StatisticsConfig
from eval.metrics import Labels
from eval.standalone import (
    AloneResults,
    ModelAnswers,
    alone_metrics,
    alone_parts,
    categories_table,
    models_table,
    paired_answers,
    shared_questions,
)
from tests.collect.questions.asked import reach, value
from tests.eval.test_metrics import NO_SUBAGENT
from tests.records import make_rollout

CONFIG = StatisticsConfig(resamples=1000)


def question(number: int) -> Question:
    """Two questions a bug, by turns about a value and about a line."""
    made = value("41") if number % 2 else reach(True)
    return made.model_copy(update={"id": f"q{number}", "instance_id": f"bug{number // 2}"})


def answers(model: str, reasons: list[Reason], missing: int = 0, **row: Any) -> ModelAnswers:
    """One answer a reason, to the questions in order."""
    rollout = make_rollout(
        "bug", main_model="", sub_model=model, variant="questions", sub_steps=3, **row
    )
    given = [
        Answered(question(number), Verdict(reason), rollout, 4, GROUNDING[number % 4])
        for number, reason in enumerate(reasons)
    ]
    return ModelAnswers(model, tuple(given), missing)


def reader(reasons: list[Reason]) -> ModelAnswers:
    given = [Answered(question(number), Verdict(reason)) for number, reason in enumerate(reasons)]
    return ModelAnswers(SOURCE_READER, tuple(given))


GROUNDING = (1.0, 0.5, None, 1.0)
R, W, N = Reason.RIGHT, Reason.WRONG, Reason.NO_ANSWER


def test_the_numbers_of_a_model() -> None:
    row = {"invalid_tool_calls": 1, "refused_tool_calls": 2, "dollars": 0.5, "seconds": 2.0}
    model = answers("small", [R, W, R, N], missing=1, **row)
    found = alone_metrics(model, shared_questions([model]))
    assert (found.questions, found.instances, found.missing) == (4, 2, 1)
    assert (found.right, found.accuracy) == (2, 50)
    assert found.well_formed == 75
    assert (found.tool_calls, found.invalid_calls, found.refused_calls) == (16, 4, 8)
    assert found.valid_calls == 25
    assert found.grounded == pytest.approx(200 / 3), "of the answers that claim anything"
    assert (found.steps, found.tokens, found.seconds) == (3, 5300, 2)
    assert (found.dollars, found.dollars_per_question) == (2, 0.5)
    assert found.reasons == {"wrong": 1, "no_answer": 1}
    by_category = {c: (a.right, a.questions) for c, a in found.categories.items()}
    assert by_category == {Category.LOCAL: (0, 2), Category.REACHABILITY: (2, 2)}


def test_the_source_reader_has_an_accuracy_alone() -> None:
    found = alone_metrics(reader([R, W]), {"q0", "q1"})
    assert found.accuracy == 50
    assert found.well_formed is found.valid_calls is found.steps is found.dollars is None


def test_models_are_measured_on_what_all_have_answered() -> None:
    models = [answers("a", [R, R, W, W]), answers("b", [R]), answers("never", [], missing=4)]
    shared = shared_questions(models)
    assert shared == {"q0"}
    assert [alone_metrics(model, shared).questions for model in models] == [1, 1, 0]
    assert alone_metrics(models[2], shared).accuracy is None


def test_models_are_compared_by_bug() -> None:
    models = [answers("a", [R] * 12), answers("b", [W, W] * 6), reader([W] * 12)]
    (found,) = paired_answers(models, CONFIG).comparisons
    assert (found.first.sub_model, found.second.sub_model) == ("a", "b")
    assert (found.instances, found.attempts) == (6, 12)
    # Two questions about a bug are not independent: a test by bug.
    assert found.p == pytest.approx(2 / 64)


def test_models_are_compared_with_those_that_are_named() -> None:
    models = [answers("a", [R] * 20), answers("b", [R] * 10 + [W] * 10), reader([W] * 20)]
    config = CONFIG.model_copy(update={"baseline": SOURCE_READER, "frontier": "a"})
    report = paired_answers(models, config)
    names = [(each.first.sub_model, each.second.sub_model) for each in report.comparisons]
    assert names == [("a", SOURCE_READER), ("b", SOURCE_READER), ("b", "a")]
    (gain,) = report.gains
    assert gain.share == pytest.approx(50)


def test_tables() -> None:
    models = [answers("oracle", [R, R, W]), answers("small", [N, W, R]), reader([W, W, W])]
    shared = shared_questions(models)
    metrics = tuple(alone_metrics(model, shared) for model in models)
    labels = Labels()
    header, *rows = models_table(metrics, labels)
    assert [row[0] for row in rows] == [
        "oracle (scripted)",
        "small",
        "source_reader (runs nothing)",
    ]
    cells = dict(zip(header, rows[1], strict=True))
    assert (cells["Accuracy %"], cells["Answer block %"]) == ("33.3", "66.7")
    assert (cells["Valid calls %"], cells["Invalid"]) == ("100.0", "0 of 12")
    assert dict(zip(header, rows[2], strict=True))["Invalid"] == "-"
    _, value_row, line_row = categories_table(metrics, labels)
    assert (value_row[:2], line_row[:2]) == (["local_variable", "1"], ["code_reachability", "2"])
    page = "\n".join(alone_parts(AloneResults(metrics, paired_answers(models, CONFIG)), labels))
    assert "Wrong, small: no_answer 1, wrong 1." in page
    assert "its numbers are not a model's result" in page
    assert "| oracle (scripted) | small " in page
    assert "### Paired comparisons" in page


def test_a_model_that_called_no_tool() -> None:
    model = ModelAnswers("mute", (Answered(question(0), Verdict(N), make_rollout(**NO_SUBAGENT)),))
    assert alone_metrics(model, {"q0"}).valid_calls is None
