"""The evaluation's config and the arms it stands for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from collect.benchmarks.config import BenchmarkConfig
from eval.config import EvalConfig


def config(**fields: Any) -> EvalConfig:
    return EvalConfig.model_validate(fields)


def test_arms_are_run_once_each() -> None:
    evaluation = config(
        variants=["baseline", "debug2fix"],
        pairs=[
            {"main": "large", "sub": "large"},
            {"main": "large", "sub": "small"},
            {"main": "other"},
        ],
    )
    assert evaluation.arms() == (
        ("baseline", "large", None),
        ("baseline", "other", None),
        ("debug2fix", "large", "large"),
        ("debug2fix", "large", "small"),
    )


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ({"main": ["a", "b"], "sub": ["x", "y"]}, ["a x", "a y", "b x", "b y"]),
        ({"main": ["a", "b"]}, ["a None", "b None"]),
        ({"main": "a", "sub": "x"}, ["a x"]),
        ([{"main": "a", "sub": [None, "x"]}, {"main": "b", "sub": "x"}], ["a None", "a x", "b x"]),
    ],
)
def test_each_main_model_with_each_sub_model(pairs: object, expected: list[str]) -> None:
    evaluation = config(pairs=pairs)
    assert [f"{pair.main} {pair.sub}" for pair in evaluation.pairs] == expected
    assert config(**evaluation.model_dump()) == evaluation, "a run's folder keeps them expanded"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variants": ["debug2fx"]}, "baseline"),
        ({"variants": []}, "at least 1"),
        ({"variants": ["baseline", "baseline"]}, "names baseline twice"),
        ({"pairs": [{"main": "a"}, {"main": "a"}]}, "twice"),
        ({"pairs": [{"main": ""}]}, "at least 1 character"),
        ({"pairs": {"main": ["a", "a"], "sub": ["x"]}}, "twice"),
        ({"pairs": {"main": ["a"], "subs": ["x"]}}, "Extra inputs"),
        ({"pairs": {"main": ["a"], "sub": []}}, "has an empty list"),
        ({"pairs": {"sub": ["x"]}}, "Field required"),
        ({"pairs": "gpt"}, "dictionary"),
        ({"attempts": 0}, "greater than or equal to 1"),
        ({"attempt": 2}, "Extra inputs"),
    ],
)
def test_mistakes_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config(**fields)


def test_the_bugs_are_those_that_collect_holds_out() -> None:
    collected = BenchmarkConfig(name="bundled", split="train")
    assert EvalConfig().bugs_of(collected).split == "held_out"
    named = BenchmarkConfig(name="humanevalfix")
    assert EvalConfig(benchmark=named).bugs_of(collected) == named
