"""Charts: what results.json has, at its place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from eval.config import StatisticsConfig
from eval.figures import (
    ARMS,
    FORMAT_VERSION,
    OTHERS,
    Figure,
    Point,
    Series,
    draw,
    figures_of,
    results_of,
)
from eval.metrics import Labels, compare
from eval.paired import paired_records, paired_report
from eval.paper_figures import pass_rates
from eval.tables import write_tables
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_rollout

LABELS = Labels()
SVG = "{http://www.w3.org/2000/svg}"
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
    records = [pass_rates(comparison, LABELS), *paired_records(paired, LABELS)]
    write_tables(comparison, rows, tmp_path, paired=paired, records=records)
    listed = figures_of(results_of(tmp_path))
    figures = {figure.title: figure for figure in listed}
    assert len(figures) == len(listed), "no figure is there twice"
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
    assert figures_of(results_of(tmp_path)) == [bars, stacked]


def test_results_of_another_version_give_no_figures(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"format_version": 99, "arms": 7}))
    assert results_of(tmp_path) == {}
    assert results_of(tmp_path / "none") == {}
    assert figures_of({}) == []


def drawn(figure: Figure, places: Mapping[str, int] | None = None) -> Element:
    return ElementTree.fromstring(draw(figure, places or {}))


def texts(root: Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def bars(root: Element) -> list[tuple[str, float, float]]:
    """The colour of each bar, and where it begins and ends."""
    found = []
    for patch in root.iter(f"{SVG}g"):
        path = patch.find(f"{SVG}path")
        if path is not None and patch.get("id", "").startswith("patch") and path.get("clip-path"):
            colour = re.search(r"fill: (#\w+)", path.get("style", ""))
            across = [float(x) for x in re.findall(r"[ML] (\S+)", path.get("d", ""))]
            found.append((colour[1] if colour else "", min(across), max(across)))
    return found


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
    found = [(colour, last - first) for colour, first, last in bars(root)]
    large, other = OTHERS[:2]
    assert [colour for colour, _ in found] == [large, large, other, other]
    baseline, debug2fix, others, nothing = (length for _, length in found)
    assert (debug2fix, others, nothing) == pytest.approx((1.5 * baseline, baseline / 2, 0))
    assert {"40", "60", "20"} <= {*texts(root)}
    assert "none" not in texts(root)


def test_stacked_bars_lie_end_to_end() -> None:
    root = drawn(STEPS)
    (_, _, end_of_main), (_, start_of_sub, _), *_ = bars(root)
    assert end_of_main == pytest.approx(start_of_sub)
    assert "60" in texts(root)


@pytest.mark.parametrize("figure", [BARS, STEPS])
def test_a_chart_can_stand_in_a_page(figure: Figure) -> None:
    text = draw(figure, {})
    assert text == draw(figure, {})
    assert not {"\x1b", "\x00", "\u202e"} & set(text)


def test_no_text_is_lost() -> None:
    found = " ".join(texts(drawn(BARS)))
    assert "</svg><script>alert(1)</script>\\x1b[31m\\x00\\u202e $x_1$ \u65e5\u672c" in found


LONG = "Debug2Fix (w/ Tool Limit), a-model-with-a-long-name → another-model-with-a-long-name-"


def test_an_arm_has_one_colour_in_all_charts() -> None:
    names = [f"{LONG}{number}" for number in range(3)]
    places = {name: place for place, name in enumerate(names)}
    by_label = Series("resolved", tuple(Point(name, 50, arm=name) for name in names))
    by_series = tuple(Series(name, (Point("Wrong Fix", 50, arm=name),)) for name in names)
    one_only = Series("first - second", (Point("a - b", 10, arm=names[2]),))
    for series, expected in (
        ((by_label,), ARMS[:3]),
        (by_series, ARMS[:3]),
        ((one_only,), ARMS[2:3]),
    ):
        found = bars(drawn(replace(BARS, series=series), places))
        assert [colour for colour, _, _ in found] == list(expected)
    shades = draw(replace(BARS, series=(by_label, replace(by_label, name="again"))), places)
    assert "fill-opacity: 0.55" in shades


def test_scripted_arms_are_pale() -> None:
    for name, is_pale in (("oracle (scripted) → small", True), ("large → small", False)):
        series = (Series("resolved", (Point(name, 50, arm=name),)),)
        assert ("opacity: 0.4" in draw(replace(BARS, series=series), {name: 0})) == is_pale


def test_the_end_of_a_long_name_is_shown() -> None:
    names = [f"{LONG * 4}{number}" for number in range(2)]
    label = f"{names[0]} - {names[1]}"
    figure = replace(BARS, series=(Series("first - second", (Point(label, 50),)),))
    ends = [text[-1] for text in texts(drawn(figure)) if "another" in text]
    assert ends == ["0", "1"]
