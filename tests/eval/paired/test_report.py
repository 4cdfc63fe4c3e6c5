"""Which arms are compared, and what the tables and files say of it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from scipy import stats

from collect.errors import FailureKind
from collect.store.records import Rollout
from eval.config import ArmName, ComparisonConfig, EvalConfig, StatisticsConfig
from eval.figures import Table
from eval.metrics import Arm, Labels, compare
from eval.paired import (
    PairedReport,
    Standing,
    comparisons_table,
    gains_table,
    paired_notes,
    paired_records,
    paired_report,
)
from eval.tables import write_tables
from tests.eval.paired.outcomes import BASELINE, FRONTIER, SMALL
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_failed_rollout, make_rollout

CONFIG = StatisticsConfig(resamples=1000)
UNTUNED = Arm("debug2fix", "large", "untuned")


def rollouts() -> list[Rollout]:
    """40 bugs: the baseline resolves 10 of them, the frontier 30, the small model 25."""
    rows = []
    for number in range(40):
        name = f"bug-{number:02}"
        rows += [
            baseline_rollout(name, resolved=number < 10),
            make_rollout(name, sub_model="large", resolved=number < 30),
            make_rollout(name, sub_model="small", resolved=number < 25),
        ]
    return rows


def report(rows: list[Rollout] | None = None, **fields: Any) -> PairedReport:
    config = CONFIG.model_copy(update=fields)
    return paired_report(rollouts() if rows is None else rows, config, "baseline")


def test_the_default_comparisons() -> None:
    found = report()
    pairs = [(each.first, each.second) for each in found.comparisons]
    assert pairs == [(FRONTIER, BASELINE), (SMALL, BASELINE), (SMALL, FRONTIER)]
    (gain,) = found.gains
    assert (gain.small, gain.frontier, gain.baseline) == (SMALL, FRONTIER, BASELINE)
    assert gain.share == pytest.approx(75)


def test_named_models() -> None:
    arms = [SMALL, FRONTIER, BASELINE, UNTUNED]
    config = StatisticsConfig(baseline="untuned", frontier="small")
    standing = Standing(arms, config, "baseline")
    assert standing.pairs() == [
        (FRONTIER, UNTUNED),
        (SMALL, UNTUNED),
        (FRONTIER, SMALL),
    ]
    assert [small for small, _, _ in standing.gains()] == [FRONTIER]
    assert Standing([SMALL], CONFIG, "baseline").pairs() == []


def test_comparisons_of_the_config() -> None:
    chosen = {
        "first": {"variant": "debug2fix", "main": "large", "sub": "small"},
        "second": {"variant": "baseline", "main": "large"},
    }
    evaluation = EvalConfig.model_validate(
        {
            "variants": ["baseline", "debug2fix"],
            "pairs": [{"main": "large", "sub": "small"}],
            "statistics": {"comparisons": [chosen], "resamples": 1000},
        }
    )
    found = paired_report(rollouts(), evaluation.statistics, "baseline")
    assert [(each.first, each.second, each.exploratory) for each in found.comparisons] == [
        (SMALL, BASELINE, False),
        (FRONTIER, BASELINE, True),
        (SMALL, FRONTIER, True),
    ]
    primary, *others = found.comparisons
    # 15 bugs that only the first arm resolves, none that only the second does; one comparison.
    assert primary.p == primary.p_corrected == stats.binomtest(15, 15).pvalue
    assert primary.significant
    assert [each.p for each in others] == [stats.binomtest(n, n).pvalue for n in (20, 5)]
    assert all(each.p_corrected is each.significant is None for each in others)
    header, *rows = comparisons_table(found, Labels())
    holm = [row[header.index("p (Holm)")] for row in rows]
    assert holm == ["<0.001", "exploratory", "exploratory"]
    notes = "\n".join(paired_notes(found, Labels()))
    assert "corrected for 1 comparison. Exploratory: not named in" in notes


def test_a_named_comparison_is_not_made_the_other_way_round() -> None:
    names = [ArmName(variant="debug2fix", main="large", sub=s) for s in ("large", "small")]
    named = (ComparisonConfig(first=names[0], second=names[1]),)
    found = report(comparisons=named)
    pairs = [(each.first, each.second) for each in found.comparisons]
    assert pairs == [(FRONTIER, SMALL), (FRONTIER, BASELINE), (SMALL, BASELINE)]


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ({"frontier": "gpt"}, "names 'gpt', which is in no pair"),
        ({"baseline": "gpt"}, "there are: large, small"),
        ({"margin": 0}, "greater than 0"),
        ({"confidence": 95}, "less than 1"),
        (
            {
                "comparisons": [
                    {
                        "first": {"variant": "debug2fix", "main": "large", "sub": "other"},
                        "second": {"variant": "baseline", "main": "large"},
                    }
                ]
            },
            'that is not run: {"variant":"debug2fix","main":"large","sub":"other"}; its',
        ),
        (
            {
                "comparisons": [
                    {
                        "first": {"variant": "baseline", "main": "large"},
                        "second": {"variant": "baseline", "main": "large"},
                    }
                ]
            },
            'with itself: {"variant":"baseline","main":"large"} ',
        ),
        (
            {
                "comparisons": [
                    {
                        "first": {"variant": "debug2fix", "main": "large", "sub": "small"},
                        "second": {"variant": "baseline", "main": "large"},
                    },
                    {
                        "first": {"variant": "baseline", "main": "large"},
                        "second": {"variant": "debug2fix", "main": "large", "sub": "small"},
                    },
                ]
            },
            "eval.statistics.comparisons names .* twice",
        ),
    ],
)
def test_mistakes_are_refused(statistics: dict[str, Any], message: str) -> None:
    fields = {
        "variants": ["baseline", "debug2fix"],
        "pairs": [{"main": "large", "sub": "small"}],
        "statistics": statistics,
    }
    with pytest.raises(ValidationError, match=message):
        EvalConfig.model_validate(fields)


def test_tables() -> None:
    found, labels = report(), Labels()
    header, _, _, last = comparisons_table(found, labels)
    assert len({len(header), len(last)}) == 1
    cells = dict(zip(header, last, strict=True))
    assert (cells["First"], cells["Second"]) == ("Debug2Fix, large → small", "Debug2Fix, large")
    assert (cells["Bugs"], cells["Attempts"], cells["Left out"]) == ("40", "40", "0")
    assert (cells["Difference"], cells["p"], cells["Non-inferior"]) == ("-12.5", "0.062", "no")
    _, gain = gains_table(found, labels)
    assert gain[-1].startswith("75.0 (")
    notes = "\n".join(paired_notes(found, labels))
    assert "McNemar's exact test; (Holm): corrected for 3 comparisons" in notes
    assert "above -5 percentage points" in notes


def test_differences_without_one_repository() -> None:
    rows = [
        make_rollout(f"{name}-{number}", sub_model=sub, resolved=number < resolved)
        for name, small, frontier in (("a", 4, 0), ("b", 2, 1), ("c", 0, 2))
        for sub, resolved in (("small", small), ("large", frontier))
        for number in range(4)
    ]
    (record,) = [each for each in paired_records(report(rows), Labels()) if "leave" in each.name]
    assert isinstance(record, Table)
    assert [row[2:] for row in record.rows] == [("a", -12.5), ("b", 25.0), ("c", 62.5)]
    header, cells = comparisons_table(report(rows), Labels())
    assert dict(zip(header, cells, strict=True))["Without one repository"] == "-12.5 to +62.5"
    notes = "\n".join(paired_notes(report(rows, cluster="repository"), Labels()))
    assert "from the t distribution over repositories" in notes
    assert "sign-flip permutation test over repositories" in notes


def test_an_undefined_share_is_explained() -> None:
    rows = [row for row in rollouts() if row.instance_id < "bug-05"]
    found = report(rows)
    assert gains_table(found, Labels())[1][-1] == "undefined"
    assert (
        "Undefined for Debug2Fix, large → small: the interval" in paired_notes(found, Labels())[-1]
    )


def test_the_oracle_is_marked() -> None:
    rows = [
        make_rollout(n, main_model="oracle", sub_model=s) for n in "ab" for s in ("oracle", "s")
    ]
    found = report(rows)
    assert comparisons_table(found, Labels())[1][:2] == [
        "Debug2Fix, oracle (scripted) → s",
        "Debug2Fix, oracle (scripted)",
    ]


def test_files(tmp_path: Path) -> None:
    rows = [*rollouts(), make_failed_rollout(FailureKind.INFRASTRUCTURE, "bug-40")]
    found = report(rows)
    paths = write_tables(compare(rows), rows, tmp_path, paired=found)
    assert "## Paired comparisons" in paths.markdown.read_text(encoding="utf-8")
    results = json.loads(paths.json.read_text(encoding="utf-8"))
    for path in (tmp_path / "comparisons.csv", tmp_path / "recovered_gain.csv"):
        with path.open(newline="") as file:
            written = list(csv.DictReader(file))
        assert [row.keys() for row in written] == [row.keys() for row in results[path.stem]]
    first = results["comparisons"][1]
    assert (first["first_sub_model"], first["second_variant"]) == ("small", "baseline")
    assert (first["instances"], first["left_out"], first["difference"]) == (40, 1, 37.5)
    assert results["recovered_gain"][0]["share"] == pytest.approx(75)
