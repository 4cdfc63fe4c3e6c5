"""Charts of the numbers in results.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eval.charts.records import BarChart, PointChart
from eval.labels import Labels
from eval.metrics import compare
from eval.output import FORMAT_VERSION, write_tables
from eval.paired.config import StatisticsConfig
from eval.paired.report import paired_report
from eval.paper_figures import arm_records
from eval.report.plots import charts_of
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_rollout

LABELS = Labels()


def test_the_charts_of_arms(tmp_path: Path) -> None:
    rows = [make_rollout(f"bug-{n}", resolved=n < 6) for n in range(8)]
    rows += [baseline_rollout(f"bug-{n}", resolved=n < 2) for n in range(8)]
    rows += [make_rollout(f"bug-{n}", sub_model="large") for n in range(8)]
    paired = paired_report(rows, StatisticsConfig(resamples=1000), "baseline")
    comparison = compare(rows)
    records = arm_records(comparison, rows, LABELS)
    write_tables(comparison, rows, tmp_path, paired=paired, records=records)
    charts = {chart.title: chart for chart in charts_of(tmp_path, LABELS)}
    assert len(charts) == len(charts_of(tmp_path, LABELS)), "no chart stands there twice"
    rates = charts["Pass rate"]
    assert isinstance(rates, BarChart)
    assert {bar.value for series in rates.series for bar in series.bars} == {25, 75, 100}
    by_tokens = charts["Pass rate against tokens"]
    assert isinstance(by_tokens, PointChart)
    points = {series.name: series.points[0] for series in by_tokens.series}
    assert points["Debug2Fix, large → small"].x == 14_900
    gain = charts["Share of the frontier's gain that is recovered"]
    assert isinstance(gain, BarChart)
    assert [bar.group for bar in gain.series[0].bars] == ["Debug2Fix, large → small"]
    differences = charts["Differences of arms"]
    assert isinstance(differences, BarChart)
    found = {bar.group: bar.value for bar in differences.series[0].bars}
    assert found["Debug2Fix, large → small - Baseline, large"] == 50


def figure(kind: str, **changes: Any) -> dict[str, Any]:
    points = [
        {"label": "a", "value": 40.0, "low": 30.0, "high": 50.0, "x": 2.0},
        {"label": "b", "value": None, "low": None, "high": None, "x": None},
    ]
    found = {"title": kind, "x_label": "steps", "y_label": "% of rollouts", "kind": kind}
    return found | {"series": [{"name": "one", "points": points}]} | changes


def test_the_figures_of_the_papers(tmp_path: Path) -> None:
    table = {"name": "costs", "columns": ["Variant"], "rows": [["Baseline"]]}
    records = [figure("bars"), figure("stacked", y_label="Steps"), figure("scatter"), table]
    records[2]["series"] *= 2
    results = {"format_version": FORMAT_VERSION, "figures": records}
    (tmp_path / "results.json").write_text(json.dumps(results))
    bars, stacked, scatter = charts_of(tmp_path, LABELS)
    assert isinstance(bars, BarChart)
    assert (bars.end, [bar.group for bar in bars.series[0].bars]) == (100, ["a"])
    assert isinstance(stacked, BarChart)
    assert (stacked.stacked, stacked.end) == (True, None)
    assert isinstance(scatter, PointChart)
    assert [series.name for series in scatter.series] == ["one: a", "one: a"]


def test_results_of_another_version_give_no_charts(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"format_version": 99, "arms": 7}))
    assert charts_of(tmp_path, LABELS) == []
    assert charts_of(tmp_path / "none", LABELS) == []
