"""The pass rate over all problems of a benchmark, from the card beside its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.self_repair.benchmark import Card, SelfRepairBenchmark
from collect.errors import ConfigError
from collect.store.files import card_path
from eval.metrics import Labels
from eval.tables import full_set_of, repair_foot, repair_table
from tests.eval.test_repair_tables import (
    BIGCODEBENCH,
    LIVECODEBENCH,
    full_set,
    only_panel,
    repair_rollout,
)


def with_card(folder: Path, card: Card = BIGCODEBENCH) -> SelfRepairBenchmark:
    """A benchmark file with a card, by default with the counts of BigCodeBench-R."""
    path = folder / "bugs.jsonl"
    card_path(path).write_text(card.model_dump_json(), encoding="utf-8")
    return SelfRepairBenchmark(path)


def test_the_paper_s_pass_rates() -> None:
    assert BIGCODEBENCH.first_pass_rate == pytest.approx(45.26, abs=0.005)
    assert BIGCODEBENCH.gain(100 * 412 / 607) == pytest.approx(36.14, abs=0.005)
    one_pass = LIVECODEBENCH.first_pass_rate
    gain = LIVECODEBENCH.gain(100 * 19 / 151)
    assert one_pass + gain == pytest.approx(43.01, abs=0.005)


def test_the_card_of_a_benchmark(tmp_path: Path) -> None:
    assert full_set_of(with_card(tmp_path)) == BIGCODEBENCH


def test_a_benchmark_without_a_card_has_no_full_set(tmp_path: Path) -> None:
    assert full_set_of(BundledBenchmark()) is None
    assert full_set_of(SelfRepairBenchmark(tmp_path / "bugs.jsonl")) is None
    assert full_set_of(with_card(tmp_path, full_set(0, 0, 0))) is None


def test_a_broken_card_is_named(tmp_path: Path) -> None:
    benchmark = with_card(tmp_path)
    card_path(benchmark.path).write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bugs\.card\.json: source"):
        full_set_of(benchmark)


def test_the_first_solutions_that_the_oracle_broke_are_marked() -> None:
    panel = only_panel([repair_rollout("a")], full_set(10, 0, 8, "bigcodebench", "oracle"))
    assert repair_table(panel, Labels())[1][:2] == ["One-pass generation (scripted)", "0.00%"]
    assert any(
        "which breaks correct programs on purpose" in x for x in repair_foot([panel], Labels())
    )
    assert panel.title(Labels()) == "bigcodebench-r (bigcodebench), Qwen2.5-Max"
