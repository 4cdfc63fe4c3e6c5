"""Bugs for measuring alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.held_out import HeldOut, HeldOutConfig, RepositoryNames, refuse_held_out
from collect.errors import ConfigError
from stepinto import main

CONFIG = Path(__file__).parents[3] / "configs" / "quickstart.yaml"
BUGS = BundledBenchmark().instances()
CART = next(bug for bug in BUGS if bug.repository == "shopcart")


def held(**section: object) -> HeldOutConfig:
    return HeldOutConfig.model_validate(section)


@pytest.mark.parametrize(
    ("names", "found", "other"),
    [
        (["Django/django"], ["https://github.com/django/django.git", "django__django"], ["x/y"]),
        (["git@github.com:psf/requests.git/"], ["psf/requests", "requests"], ["psf/black"]),
        (["requests"], ["requests", "psf/requests", "REQUESTS"], ["requests/x", "requests2"]),
        (["psf/requests"], ["requests"], ["kr/requests"]),
    ],
)
def test_names_of_repositories(names: list[str], found: list[str], other: list[str]) -> None:
    known = RepositoryNames(names)
    assert [name in known for name in [*found, *other]] == [True] * len(found) + [False] * len(
        other
    )


def test_by_id_by_hash_and_by_repository() -> None:
    listed = {"name": "bundled", "instances": [CART.id]}
    alone = HeldOut.of(held(benchmarks=[listed]))
    other = next(bug for bug in BUGS if bug.repository == CART.repository and bug != CART)
    facts = (CART.hash, CART.repository)
    assert alone.has("bundled", CART.id, "changed", CART.repository)
    assert alone.has("local", "renamed", *facts)
    assert not alone.has("local", CART.id, "changed", CART.repository)
    assert not alone.has("bundled", other.id, other.hash, other.repository)
    whole = HeldOut.of(held(benchmarks=[listed], whole_repositories=True))
    assert whole.has("bundled", other.id, other.hash, other.repository)
    named = HeldOut.of(held(repositories=["someone/shopcart"]))
    assert named.has("local", "x", "y", "shopcart")
    assert not HeldOut.of(held()).has("bundled", CART.id, CART.hash, CART.repository)


def test_collect_refuses_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = [f"runs_folder={tmp_path}", "run=test", "collect.benchmark.split=all"]
    listed = "held_out.benchmarks=[{name: bundled, split: held_out}]"
    assert main(["collect", str(CONFIG), *overrides, listed]) == 2
    told = capsys.readouterr().err
    assert "bugs are held out from training by this config's held_out section" in told
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.slow
def test_what_is_not_held_out_is_let_through() -> None:
    config = held(benchmarks=[{"name": "bundled", "split": "held_out"}])
    train = [bug for bug in BUGS if (bug.benchmark, bug.id) not in HeldOut.of(config).instances]
    refuse_held_out(train, config)
    with pytest.raises(ConfigError, match=f"1 of {len(train) + 1} bugs are held out"):
        refuse_held_out([*train, replace(CART, repository="psf/x")], held(repositories=["x"]))
