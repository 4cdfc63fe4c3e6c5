"""Figures of the numbers in results.json."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from eval.figures import Figure, FigureKind, Point, Series
from eval.labels import Labels
from eval.metrics import compare
from eval.output import FORMAT_VERSION, write_tables
from eval.paired.config import StatisticsConfig
from eval.paired.report import paired_report
from eval.paper_figures import arm_records
from eval.report.plots import figures_of
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_rollout

LABELS = Labels()


def test_the_figures_of_arms(tmp_path: Path) -> None:
    rows = [make_rollout(f"bug-{n}", resolved=n < 6) for n in range(8)]
    rows += [baseline_rollout(f"bug-{n}", resolved=n < 2) for n in range(8)]
    rows += [make_rollout(f"bug-{n}", sub_model="large") for n in range(8)]
    paired = paired_report(rows, StatisticsConfig(resamples=1000), "baseline")
    comparison = compare(rows)
    records = arm_records(comparison, rows, LABELS)
    write_tables(comparison, rows, tmp_path, paired=paired, records=records)
    figures = {figure.title: figure for figure in figures_of(tmp_path, LABELS)}
    assert len(figures) == len(figures_of(tmp_path, LABELS)), "no figure is there twice"
    rates = figures["Pass rate"]
    assert rates.is_percent
    assert {point.value for series in rates.series for point in series.points} == {25, 75, 100}
    tokens = figures["Pass rate against tokens"]
    assert tokens.kind is FigureKind.SCATTER
    assert by_label(tokens)["Debug2Fix, large → small"].x == 14_900
    gain = figures["Share of the frontier's gain that is recovered"]
    assert list(by_label(gain)) == ["Debug2Fix, large → small"]
    found = by_label(figures["Differences of arms"])
    assert found["Debug2Fix, large → small - Baseline, large"].value == 50


def by_label(figure: Figure) -> dict[str, Point]:
    return {point.label: point for point in figure.series[0].points}


def test_the_figures_of_the_papers(tmp_path: Path) -> None:
    points = (Point("a", 40.0, 30.0, 50.0, 2.0), Point("b", 20.0, x=3.0))
    bars = Figure("bars", "Bars", "", "", "% of rollouts", (Series("one", points),))
    empty = replace(bars, name="empty", series=())
    stacked = replace(bars, name="stacked", kind=FigureKind.STACKED)
    scatter = replace(bars, name="scatter", kind=FigureKind.SCATTER)
    single = replace(scatter, name="single", series=(Series("one", points[:1]),))
    table = {"name": "costs", "columns": ["Variant"], "rows": [["Baseline"]]}
    records = [*map(asdict, (bars, empty, stacked, scatter, single)), table]
    results = {"format_version": FORMAT_VERSION, "figures": records}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert figures_of(tmp_path, LABELS) == [bars, stacked, scatter]


def test_results_of_another_version_give_no_figures(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"format_version": 99, "arms": 7}))
    assert figures_of(tmp_path, LABELS) == []
    assert figures_of(tmp_path / "none", LABELS) == []
