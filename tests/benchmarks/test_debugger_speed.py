"""The table of the benchmark of debug sessions says what was met."""

from __future__ import annotations

import pytest

from benchmarks.debugger_speed import Row, medians, print_table


def test_a_target_is_of_the_ratio_or_of_the_measure() -> None:
    beside = Row("launch", "a", 120.0, 1.15, bare=100.0)
    assert (beside.ratio, beside.met) == (1.2, False)
    alone = Row("actions", "b", 0.5, 1.0)
    assert (alone.ratio, alone.met) == (None, True)


def test_works_take_turns() -> None:
    order: list[str] = []

    def work(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = medians({"a": lambda: work("a"), "b": lambda: work("b")}, rounds=2)
    assert order == ["a", "b"] * 3
    assert found == {"a": 4.0, "b": 5.0}


def test_the_table_is_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([Row("launch", "a", 120.0, 1.15, bare=100.0)])
    head, rule, line = capsys.readouterr().out.strip().splitlines()
    assert head.startswith("| section")
    assert set(rule.strip()) == {"|", "-"}
    assert [cell.strip() for cell in line.split("|")[1:8]] == [
        "launch",
        "a",
        "120.00",
        "100.00",
        "1.20",
        "1.15 x",
        "NO",
    ]
