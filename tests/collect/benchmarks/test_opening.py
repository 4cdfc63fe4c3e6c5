from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.humanevalfix import HumanEvalFixBenchmark
from collect.benchmarks.opening import held_out, open_benchmark, select_instances
from collect.errors import ConfigError


class Several(BundledBenchmark):
    """Two bugs in each of four repositories."""

    def instances(self) -> list[Instance]:
        return [
            Instance(f"{repository}__{slug}", "bundled", "python", repository, "", (), (), "")
            for repository in ("cache", "dates", "graph", "parser")
            for slug in ("one", "two")
        ]


def selected(**fields: object) -> list[str]:
    config = BenchmarkConfig.model_validate({"name": "bundled", **fields})
    return [instance.id for instance in select_instances(config, Several())]


def test_opening(bundle: Path) -> None:
    opened = open_benchmark(BenchmarkConfig(name="bundled", path=str(bundle), test_timeout=7))
    assert isinstance(opened, BundledBenchmark)
    assert (opened.root, opened.test_timeout) == (bundle, 7)
    assert isinstance(open_benchmark(BenchmarkConfig(name="humanevalfix")), HumanEvalFixBenchmark)


@pytest.mark.parametrize(("name", "other"), [("self_repair", "java"), ("gitbug_java", "python")])
def test_a_benchmark_of_the_other_language_is_refused(name: str, other: str) -> None:
    config = BenchmarkConfig.model_validate({"name": name, "language": other})
    with pytest.raises(ConfigError, match=f"{name} has .* bugs alone: set benchmark.language="):
        open_benchmark(config)


def test_a_seed_draws_from_all_repositories() -> None:
    everything = selected(shuffle_seed=3)
    assert sorted(everything) == sorted(selected())
    assert selected(shuffle_seed=3, limit=3) == everything[:3] != selected(limit=3)
    assert selected(shuffle_seed=4) != everything
    fewer = [each for each in everything if not each.startswith("cache__")]
    assert selected(shuffle_seed=3, instances=["[!c]*"]) == fewer


def test_selection_by_id_glob_and_limit() -> None:
    assert len(selected()) == 8
    assert selected(limit=2) == ["cache__one", "cache__two"]
    assert selected(instances=["parser__two", "dates__*"]) == [
        "dates__one",
        "dates__two",
        "parser__two",
    ]


def test_bugs_of_the_same_id_are_refused() -> None:
    class Copied(Several):
        def instances(self) -> list[Instance]:
            return super().instances() * 2

    with pytest.raises(ConfigError, match=r"cache__one, cache__two.* more than once"):
        select_instances(BenchmarkConfig(name="bundled"), Copied())


def test_the_splits_part_the_repositories() -> None:
    train, kept = selected(split="train"), selected(split="held_out")
    assert sorted(train + kept) == sorted(selected())
    assert not {name.split("__")[0] for name in train} & {name.split("__")[0] for name in kept}
    assert len(kept) == 2


def test_a_bugs_side_does_not_depend_on_the_languages_asked_for() -> None:
    def side(language: str, split: str) -> set[str]:
        fields = {"name": "bundled", "language": language, "split": split}
        config = BenchmarkConfig.model_validate(fields)
        return {bug.repository for bug in select_instances(config, open_benchmark(config))}

    for split in ("train", "held_out"):
        assert side("all", split) == side("python", split) | side("java", split)
    assert side("java", "held_out")
    assert not side("java", "held_out") & side("java", "train")


def test_unknown_ids_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"parser__too matches no instance.*parser__two"):
        selected(instances=["parser__too"])


def test_an_empty_selection_is_refused() -> None:
    with pytest.raises(ConfigError, match="no instance left") as refused:
        selected(split="held_out", held_out_fraction=0)
    assert "can't be divided" not in str(refused.value)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError, match="limits"):
        selected(limits=3)


@given(
    st.sets(st.text(min_size=1, max_size=5), min_size=2, max_size=20),
    st.floats(0.01, 0.99),
    st.integers(),
)
def test_held_out_is_a_true_part_whatever_the_order(
    repositories: set[str], fraction: float, seed: int
) -> None:
    kept = held_out(repositories, fraction, seed)
    assert kept == held_out(sorted(repositories) * 2, fraction, seed)
    assert 0 < len(kept) < len(repositories)
    assert kept < repositories


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"instances": []}, "no instance left of 8: benchmark.instances is empty"),
        (
            {"split": "held_out", "held_out_fraction": 0},
            "no instance left of 8: 0 of them are in benchmark.split=held_out",
        ),
        (
            {"split": "train", "held_out_fraction": 0.9, "instances": ["cache__*", "dates__*"]},
            "2 of them are in benchmark.split=train, none of which benchmark.instances names",
        ),
    ],
)
def test_what_left_nothing_is_named(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        selected(**fields)
    assert told in str(refused.value)


@pytest.mark.parametrize("text", ["", "\n \n"])
@pytest.mark.parametrize(
    ("name", "language"),
    [("local", "python"), ("gitbug_java", "java"), ("self_repair", "python")],
)
def test_a_file_without_bugs_is_refused(
    tmp_path: Path, name: str, language: str, text: str
) -> None:
    path = tmp_path / "bugs.jsonl"
    path.write_text(text)
    fields = {"name": name, "language": language, "path": str(path)}
    config = BenchmarkConfig.model_validate(fields)
    with pytest.raises(ConfigError, match=r"bugs\.jsonl.* (holds no bugs|nothing is in it)"):
        select_instances(config, open_benchmark(config))
