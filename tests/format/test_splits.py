"""Which side a repository is on."""

from __future__ import annotations

from collect.benchmarks.opening import held_out
from format.config import FormatConfig
from format.dataset import TEST, TRAIN, Splits

NAMES = [f"owner/project{number}" for number in range(30)]


def test_a_repository_is_on_one_side_whatever_it_is_called() -> None:
    bare = [f"Project{number}" for number in range(30)]
    addresses = [f"https://github.com/{name}.git" for name in NAMES]
    config = FormatConfig(test_fraction=0.7)
    splits = Splits(config, [*NAMES, *bare, *addresses])
    for name, *others in zip(NAMES, bare, addresses, strict=True):
        assert {splits.of(each) for each in others} == {splits.of(name)}
    assert {splits.of(name) for name in NAMES} == {TRAIN, TEST}


def test_names_that_appear_once_are_divided_by_rank_alone() -> None:
    splits = Splits(FormatConfig(test_fraction=0.3), NAMES)
    assert {name for name in NAMES if splits.of(name) == TEST} == held_out(NAMES, 0.3)
