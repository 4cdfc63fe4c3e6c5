"""The tables: the paper's numbers in the paper's layout, and the files they are written to."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from collect.errors import FailureKind
from collect.store.records import Rollout
from eval.metrics import Labels, Seconds, bracket, compare, counts, decimal, dollars, span, tokens
from eval.tables import flat_table, foot, markdown, paper_table, summary, write_tables
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_failed_rollout, make_rollout

LABELS = Labels()


def paper_rollouts() -> list[Rollout]:
    """GPT-5 on GitBug-Java as in Debug2Fix, table 1, the first and the last row: 186 bugs."""
    rollouts = []
    for number in range(186):
        rollouts.append(
            baseline_rollout(
                f"java-{number}",
                main_model="GPT-5",
                resolved=number < 112,
                main_steps=15 + (number < 130),
                main_prompt_tokens=340_000,
                main_completion_tokens=7_000,
                dollars=1.0,
                sub_dollars=0.0,
            )
        )
        rollouts.append(
            make_rollout(
                f"java-{number}",
                variant="debug2fix_tool_limit",
                main_model="GPT-5",
                sub_model="GPT-5",
                resolved=number < 136,
                sub_calls=min(number, 1),
                main_steps=23 + (number < 112),
                main_prompt_tokens=640_000,
                main_completion_tokens=5_000,
                sub_prompt_tokens=345_000,
                sub_completion_tokens=5_000,
                sub_steps=26,
                dollars=1.75,
                sub_dollars=0.5,
            )
        )
    random.Random(1).shuffle(rollouts)
    return rollouts


def test_the_paper_s_numbers_in_the_paper_s_layout() -> None:
    assert paper_table(compare(paper_rollouts()), LABELS) == [
        ["Metric", "GPT-5", ""],
        ["**Pass & Call Rate (%)**", "", ""],
        ["", "Pass %", "Call %"],
        ["Baseline", "60.2", "-"],
        ["Debug2Fix (w/ Tool Limit)", "**73.1 (+21.4%)**", "99.5"],
        ["**Avg. Steps**", "", ""],
        ["", "Main", "Sub"],
        ["Baseline", "15.7", "-"],
        ["Debug2Fix (w/ Tool Limit)", "23.6 (+50.3%)", "26.0"],
        ["**Avg. Tokens (Input + Output)**", "", ""],
        ["", "Main", "Sub"],
        ["Baseline", "347k", "-"],
        ["Debug2Fix (w/ Tool Limit)", "645k (+85.9%)", "350k"],
        ["**Avg. Dollars**", "", ""],
        ["", "Main", "Sub"],
        ["Baseline", "$1.00", "-"],
        ["Debug2Fix (w/ Tool Limit)", "$1.25 (+25.0%)", "$0.5000"],
    ]


def test_seconds_of_main_and_sub() -> None:
    rows = [baseline_rollout("a"), make_rollout("a", seconds=40.0, scoring_seconds=2.0)]
    seconds = {row.rollout_id: Seconds(sub, 0.0) for row, sub in zip(rows, (0, 16), strict=True)}
    *_, title, _, baseline, debug2fix = paper_table(compare(rows, seconds=seconds), LABELS)
    assert title[0] == "**Avg. Seconds**"
    assert baseline == ["Baseline", "11.0", "-"]
    assert debug2fix == ["Debug2Fix", "22.0 (+100%)", "16.0"]
    free = [make_rollout("a", dollars=0.0, sub_dollars=0.0)]
    assert "Dollars" not in str(paper_table(compare(free), LABELS)), "of free models alone"


def test_rows_are_in_the_paper_s_order_and_unknown_variants_last() -> None:
    variants = ("custom", "debug2fix_tool_limit", "debug2fix")
    rollouts = [make_rollout("a", variant=variant) for variant in variants]
    rollouts += [baseline_rollout("a"), make_rollout("a", variant="debug_tools_only")]
    names = [row[0] for row in paper_table(compare(rollouts), LABELS)[3:8]]
    expected = ["Baseline", "Debug Tools Only", "Debug2Fix", "Debug2Fix (w/ Tool Limit)", "custom"]
    assert names == expected


def test_a_column_for_each_pair_shares_the_baseline_of_its_main_model() -> None:
    rollouts = [baseline_rollout("a"), baseline_rollout("a", main_model="alone")]
    rollouts += [make_rollout("a", sub_model=sub, main_steps=6) for sub in ("large", "small")]
    header, _, _, baseline, debug2fix, *_ = paper_table(compare(rollouts), LABELS)
    assert header == ["Metric", "alone", "", "large", "", "large → small", ""]
    assert baseline == ["Baseline", *["100.0", "-", "**100.0**", "-", "**100.0**", "-"]]
    assert debug2fix[1:3] == ["-", "-"]


def test_without_a_baseline_there_are_no_brackets() -> None:
    comparison = compare([make_rollout("a"), make_rollout("a", sub_model="other")])
    assert not any("(" in cell for row in paper_table(comparison, LABELS)[3:4] for cell in row[1:])
    assert not any("brackets" in line for line in foot(comparison, LABELS))


def test_the_oracle_is_marked() -> None:
    comparison = compare(
        [
            make_rollout("a", main_model="oracle", sub_model="oracle"),
            make_rollout("a", main_model="oracle", sub_model="small"),
            make_rollout("a"),
        ]
    )
    header = paper_table(comparison, LABELS)[0]
    assert header[1::2] == ["large → small", "oracle (scripted)", "oracle (scripted) → small"]
    assert "is a scripted teacher that knows the gold patch" in foot(comparison, LABELS)[-1]
    models = [row[1] for row in flat_table(comparison, LABELS)[1:]]
    assert models == header[1::2]


def test_an_oracle_of_another_name_is_marked() -> None:
    comparison = compare([make_rollout("a", main_model="teacher", teacher="oracle")])
    both = paper_table(comparison, LABELS)[0][1]
    assert both == "teacher (scripted) → small (scripted)"
    named = paper_table(comparison, Labels(scripted=("teacher",)))[0][1]
    assert named == "teacher (scripted) → small"


def test_the_foot_says_what_was_left_out() -> None:
    rollouts = [make_rollout(str(number)) for number in range(12)]
    rollouts += [baseline_rollout("0"), make_failed_rollout(FailureKind.BUDGET, "x")]
    lines = foot(compare(rollouts), LABELS)
    assert lines[0] == "n = 1 bug, up to 1 rollout an arm."
    assert any("no rate and no average: 1 of Debug2Fix with large → small." in x for x in lines)
    (warning,) = [line for line in lines if line.startswith("Warning")]
    assert "left out are 11: 1, 10, 11, 2, 3, 4, 5, 6 and 3 more." in warning


def test_the_foot_counts_the_attempts_that_were_left_out() -> None:
    rollouts = [baseline_rollout("a", attempt=attempt) for attempt in range(4)]
    rollouts += [make_rollout("a", attempt) for attempt in range(3)]
    (warning,) = [line for line in foot(compare(rollouts), LABELS) if line.startswith("Warning")]
    assert "of the 3 attempts that all arms share; left out are 1." in warning
    assert not any("Warning" in line for line in foot(compare(rollouts[4:]), LABELS))


def test_every_arm_says_what_is_of_all_rollouts() -> None:
    page = markdown(compare([make_rollout("a"), make_failed_rollout()]), LABELS)
    note = page.partition("## Every arm\n\n")[2].partition("\n")[0]
    assert note.startswith("$ total, Failures and Excluded are of all rollouts")


def test_nothing_to_compare() -> None:
    assert "n = 0 bugs" in summary(compare([]), LABELS)
    only_failures = compare([make_failed_rollout()])
    assert paper_table(only_failures, LABELS)[3] == ["Debug2Fix", "-", "-"]


def test_files(tmp_path: Path) -> None:
    rollouts = [*paper_rollouts(), make_failed_rollout(FailureKind.MODEL, "java-0")]
    rollouts += [make_failed_rollout(FailureKind.MODEL, "java-0", main_model="a|b")]
    comparison = compare(rollouts)
    folder = tmp_path / "eval"
    paths = write_tables(comparison, rollouts, folder, config={"attempts": 1})
    assert sorted(path.name for path in folder.iterdir()) == [
        *("arms.csv", "results.json", "tables.md"),
    ]
    page = paths.markdown.read_text(encoding="utf-8")
    assert page.startswith("# Evaluation\n\n| Metric")
    assert "a\\|b → small" in page
    with paths.csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == [m.arm.variant for m in comparison.arms]
    results = json.loads(paths.json.read_text(encoding="utf-8"))
    assert results["config"] == {"attempts": 1}
    assert results["notes"] == foot(comparison, LABELS)
    assert len(results["outcomes"]) == len(rollouts)
    assert (len(results["left_out"]), results["attempts_left_out"]) == (185, 0)
    for row, arm, metrics in zip(rows, results["arms"], comparison.arms, strict=True):
        assert arm["pass_rate"] == metrics.pass_rate
        assert row["pass_rate"] == str(metrics.pass_rate)
        assert row["model_failures"] == str(metrics.failures.get("model", 0))
        assert (row["call_rate"] == "") == (metrics.call_rate is None)


def test_changes_are_columns(tmp_path: Path) -> None:
    rollouts = paper_rollouts()
    paths = write_tables(compare(rollouts), rollouts, tmp_path)
    with paths.csv.open(newline="") as file:
        baseline, debug2fix = csv.DictReader(file)
    assert baseline["pass_rate_change"] == ""
    assert float(debug2fix["pass_rate_change"]) == pytest.approx(100 * 24 / 112)
    assert float(debug2fix["main_tokens_change"]) == pytest.approx(85.88, abs=0.01)


def test_the_same_rollouts_give_the_same_files(tmp_path: Path) -> None:
    rollouts = paper_rollouts()
    first = write_tables(compare(rollouts), rollouts, tmp_path / "1")
    rollouts.reverse()
    second = write_tables(compare(rollouts), rollouts, tmp_path / "2")
    for name in ("markdown", "csv", "json"):
        assert getattr(first, name).read_bytes() == getattr(second, name).read_bytes()


def test_numbers() -> None:
    assert [bracket(x) for x in (None, 1.03, -14.8, 130.9, 99.94, 99.96, 0.0)] == [
        *("", " (+1.0%)", " (-14.8%)", " (+131%)", " (+99.9%)", " (+100%)", " (+0.0%)"),
    ]
    assert [decimal(None), tokens(None), dollars(None), span(None, None)] == ["-"] * 4
    assert span(52.11, 68.04) == "52.1-68.0"
    assert counts({"model": 2, "budget": 1}) == "budget 1, model 2"
    assert counts({}) == "-"
