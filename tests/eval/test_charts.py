"""Charts: what results.json has, at its place, and nothing that a page forbids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from eval.config import StatisticsConfig
from eval.figures import (
    COLOURS,
    FORMAT_VERSION,
    Figure,
    Point,
    Series,
    draw,
    figures_of,
)
from eval.metrics import Labels, compare
from eval.paired import paired_figures, paired_report
from eval.paper_figures import arm_records
from eval.report.rendering import asset
from eval.tables import write_tables
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_rollout

LABELS = Labels()
HOSTILE = "</svg><script>alert(1)</script>\x1b[31m\x00\u202e $x_1$ \u65e5\u672c"
BARS = Figure(
    "rates",
    "Pass rate",
    "",
    "Variant",
    "% of rollouts",
    (
        Series("large", (Point("Baseline", 40, 30, 50), Point("Debug2Fix", 60))),
        Series(f"_{HOSTILE}", (Point("Debug2Fix", 20), Point(HOSTILE, 0), Point("none", None))),
    ),
)
STEPS = Figure(
    "steps",
    "Steps",
    "",
    "Arm",
    "Steps",
    (
        Series("main", (Point("a", 30), Point("b", 10))),
        Series("sub", (Point("a", 10), Point("b", 50))),
    ),
    stacked=True,
)


def test_the_figures_of_arms(tmp_path: Path) -> None:
    rows = [make_rollout(f"bug-{n}", resolved=n < 6) for n in range(8)]
    rows += [baseline_rollout(f"bug-{n}", resolved=n < 2) for n in range(8)]
    rows += [make_rollout(f"bug-{n}", sub_model="large") for n in range(8)]
    paired = paired_report(rows, StatisticsConfig(resamples=1000), "baseline")
    comparison = compare(rows)
    records = [*arm_records(comparison, rows, LABELS), *paired_figures(paired, LABELS)]
    write_tables(comparison, rows, tmp_path, paired=paired, records=records)
    figures = {figure.title: figure for figure in figures_of(tmp_path)}
    assert len(figures) == len(figures_of(tmp_path)), "no figure is there twice"
    rates = figures["Pass rate"]
    assert rates.is_percent
    assert {point.value for series in rates.series for point in series.points} == {25, 75, 100}
    gain = figures["Share of the frontier's gain that is recovered"]
    assert list(by_label(gain)) == ["Debug2Fix, large → small"]
    found = by_label(figures["Differences of arms"])
    assert found["Debug2Fix, large → small - Baseline, large"].value == 50


def by_label(figure: Figure) -> dict[str, Point]:
    return {point.label: point for point in figure.series[0].points}


def test_the_figures_of_the_papers(tmp_path: Path) -> None:
    points = (Point("a", 40.0, 30.0, 50.0), Point("b", 20.0))
    bars = Figure("bars", "Bars", "", "", "% of rollouts", (Series("one", points),))
    empty = replace(bars, name="empty", series=())
    stacked = replace(bars, name="stacked", stacked=True)
    zeros = replace(stacked, name="zeros", series=(Series("one", (Point("a", 0.0),)),))
    table = {"name": "costs", "columns": ["Variant"], "rows": [["Baseline"]]}
    records = [*map(asdict, (bars, empty, stacked, zeros)), table]
    results = {"format_version": FORMAT_VERSION, "figures": records}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert figures_of(tmp_path) == [bars, stacked]


def test_results_of_another_version_give_no_figures(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"format_version": 99, "arms": 7}))
    assert figures_of(tmp_path) == []
    assert figures_of(tmp_path / "none") == []


def drawn(figure: Figure) -> Element:
    return ElementTree.fromstring(draw(figure))


def texts(root: Element) -> list[str]:
    return [each.text or "" for each in root.iter("text")]


def marks(root: Element) -> Iterator[tuple[str, Element]]:
    """The path of every mark that has a tooltip, by its text."""
    for group in root.iter("g"):
        if title := group.findtext("title"):
            yield title, next(group.iter("path"))


def sides(path: Element) -> tuple[float, float]:
    """Where a bar begins and ends."""
    across = [float(x) for x in re.findall(r"[ML] (\S+)", path.get("d", ""))]
    return min(across), max(across)


@pytest.mark.parametrize(
    ("values", "unit", "ticks"),
    [
        ((3, 40), "% of rollouts", "0 20 40 60 80 100"),
        ((0.4,), "dollars", "0 0.1 0.2 0.3 0.4"),
        ((-12, 31), "points", "-20 -10 0 10 20 30 40"),
        ((0,), "steps", "0 0.2 0.4 0.6 0.8 1"),
        ((float("nan"), 4_400), "tokens", "0 1.0k 2.0k 3.0k 4.0k 5.0k"),
    ],
)
def test_ticks_are_round(values: tuple[float, ...], unit: str, ticks: str) -> None:
    points = tuple(Point(f"of {value}", value) for value in values)
    figure = replace(BARS, y_label=unit, series=(Series("one", points),))
    found = texts(drawn(figure))
    assert found[: found.index(unit)] == ticks.split()


def test_bars_are_as_long_as_their_values() -> None:
    root = drawn(BARS)
    bars = dict(marks(root))
    lengths = {title: last - first for title, path in bars.items() for first, last in [sides(path)]}
    assert lengths["large, Debug2Fix: 60"] == pytest.approx(
        1.5 * lengths["large, Baseline: 40 (30 to 50)"]
    )
    assert [path.get("fill") for path in bars.values()] == [
        f"var(--{name}, {COLOURS[name]})" for name in ("s0", "s0", "s1", "s1")
    ]
    assert "large, Baseline: 40 (30 to 50); large, Debug2Fix: 60" in root.findtext("desc", "")
    assert "none" not in texts(root)


def test_stacked_bars_lie_end_to_end() -> None:
    root = drawn(STEPS)
    bars = dict(marks(root))
    assert sides(bars["main, a: 30"])[1] == pytest.approx(sides(bars["sub, a: 10"])[0])
    assert "60" in texts(root)


@pytest.mark.parametrize("figure", [BARS, STEPS])
def test_a_chart_can_stand_in_a_page(figure: Figure) -> None:
    text = draw(figure)
    assert text == draw(figure)
    assert not {"\x1b", "\x00", "\u202e"} & set(text)
    root = ElementTree.fromstring(text)
    assert {each.tag for each in root.iter()} == {"svg", "g", "path", "text", "title", "desc"}
    names = {name for each in root.iter() for name in each.attrib}
    assert not names & {"id", "style", "class", "clip-path", "href"}
    assert root.get("aria-label") == f"{figure.title}: {figure.y_label}"


def test_no_text_is_lost() -> None:
    found = " ".join(texts(drawn(BARS)))
    assert "</svg><script>alert(1)</script>\\x1b[31m\\x00\\u202e $x_1$ \u65e5\u672c" in found


def test_colours_are_those_of_the_style_sheet() -> None:
    light = asset("style.css").partition("@media")[0]
    assert all(f"--{name}: {colour}" in light for name, colour in COLOURS.items())
