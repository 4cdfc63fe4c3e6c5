"""Weights and shares by what rows are of."""

from __future__ import annotations

from collections import Counter
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from collect.errors import ConfigError
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.mixture import Facet, Facets, MixtureConfig, drawn, effort, mixed
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run

MANY = 4_000


def many(config: MixtureConfig) -> tuple[list[Facets], bytearray]:
    """Rows of two languages and four categories, and which of them stay."""
    numbers, rows = [], []
    for number in range(MANY):
        row: dict[str, Any] = dict.fromkeys(Facet, "x") | {"repository": f"r{number % 7}"}
        row |= {"language": ("python", "java")[number % 4 == 3]}
        row |= {"category": "abcd"[number % 3], "difficulty": None}
        row |= {"instance_hash": f"bug {number % 1_000}", "question_id": None}
        rows.append(Facets.of(row))
        numbers.append(drawn(config.seed, f"conversation-{number}"))
    return rows, mixed(config, rows, numbers, range(MANY))


def kept(**config: Any) -> Counter[tuple[str, str]]:
    mixture = MixtureConfig.model_validate(config)
    rows, stays = many(mixture)
    return Counter(
        (facet.value, row.value(facet)) for row in compress(rows, stays) for facet in Facet
    )


def test_nothing_is_dropped_without_a_mixture() -> None:
    rows, stays = many(MixtureConfig())
    assert sum(stays) == len(rows)


def test_weights_are_chances_and_multiply() -> None:
    found = kept(weights={"language": {"java": 0.5}, "category": {"a": 0.2, "b": 0}})
    assert found["category", "b"] == 0
    assert found["category", "a"] == pytest.approx(0.2 * MANY / 3 * (0.75 + 0.125), rel=0.15)
    assert found["language", "java"] == pytest.approx(MANY / 12 * 0.5 * 1.2, rel=0.2)


def test_a_larger_number_of_rows_has_all_of_a_smaller_one() -> None:
    def chosen(**config: Any) -> bytearray:
        return many(MixtureConfig.model_validate({"weights": {"category": {"a": 0.9}}} | config))[1]

    few, more = chosen(max_rows=100), chosen(max_rows=1_000)
    assert (sum(few), sum(more)) == (100, 1_000)
    assert all(large >= small for small, large in zip(few, more, strict=True))
    assert chosen(max_rows=100) == few
    assert chosen(max_rows=100, seed=1) != few


def test_the_best_rows_about_an_example_stay() -> None:
    """Here the later a row is, the worse it is, and each bug has one row in a thousand."""
    stays = many(MixtureConfig(best=2))[1]
    assert list(stays) == [1] * 2_000 + [0] * 2_000
    assert sum(many(MixtureConfig(best=2, max_rows=7))[1]) == 7


def test_a_turn_that_is_not_trained_on_is_worse_than_many_turns() -> None:
    assert effort({"trained_turns": [True] * 9}) < effort({"trained_turns": [False, True]})
    assert effort({"trained_turns": [True] * 2}) < effort({"trained_turns": [True] * 3})


def test_other_rows_make_room_for_a_least_share() -> None:
    found = kept(least_shares={"language": {"java": 0.75}})
    assert found["language", "java"] == MANY // 4
    assert found["language", "python"] == MANY // 12
    found = kept(least_shares={"language": {"java": 1}})
    assert (found["language", "java"], found["language", "python"]) == (MANY // 4, 0)
    found = kept(least_shares={"language": {"python": 0.5}})
    assert found["language", "java"] == MANY // 4, "there are enough of them"
    assert kept(max_rows=40, least_shares={"language": {"java": 0.9}})["language", "python"] == 1


def test_all_least_shares_hold_together() -> None:
    config = {"language": {"java": 0.7}, "category": {"a": 0.5}}
    rows, chosen = many(MixtureConfig.model_validate({"least_shares": config}))
    stay = [row for row, is_kept in zip(rows, chosen, strict=True) if is_kept]
    assert stay
    for facet, shares in config.items():
        for value, share in shares.items():
            assert sum(row.value(Facet(facet)) == value for row in stay) >= share * len(stay)


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": {"categry": {"a": 1}}},
        {"weights": {"category": {"a": 2}}},
        {"best": 0},
        {"least_shares": {"model": {"small": 0}}},
    ],
)
def test_a_wrong_mixture_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MixtureConfig.model_validate(wrong)


def test_the_funnel_tells_of_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    mixture = MixtureConfig(max_rows=3, weights={Facet.CATEGORY: {"state": 1}})
    report = run_format(FormatConfig(test_fraction=0, mixture=mixture), run)
    assert [step.name for step in report.funnel.steps][-1] == "mixture"
    assert (report.funnel.steps[-1].dropped, report.funnel.kept) == (2, 3)
    assert len(list(read_rows(split_file(run / "sft", "train")))) == 3


def test_the_splits_do_not_depend_on_the_mixture(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    whole = run_format(FormatConfig(test_fraction=0.4), run)
    mixture = MixtureConfig(max_rows=4)
    part = run_format(FormatConfig(test_fraction=0.4, mixture=mixture), run)
    for name, split in part.splits.items():
        assert split.repositories <= whole.splits[name].repositories


def test_a_value_that_no_row_has_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mixture = MixtureConfig(weights={Facet.LANGUAGE: {"pyhton": 0.5, "python": 1}})
    run_format(FormatConfig(test_fraction=0, mixture=mixture), write_run(tmp_path / "run"))
    assert "no row has language: pyhton; there are python" in caplog.messages[-1]


def test_a_mixture_that_leaves_nothing_is_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(2))
    mixture = MixtureConfig(weights={Facet.LANGUAGE: {"python": 0}})
    with pytest.raises(ConfigError, match="of 2 rows none is left to train on"):
        run_format(FormatConfig(mixture=mixture), run)
    shares = MixtureConfig(least_shares={Facet.MODEL: {"none": 0.5}})
    with pytest.raises(ConfigError, match="of 2 rows none is left to train on"):
        run_format(FormatConfig(mixture=shares), run)
    assert not list(run.glob("*sft"))
