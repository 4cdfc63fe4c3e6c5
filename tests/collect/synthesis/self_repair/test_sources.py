from __future__ import annotations

import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from collect.benchmarks.self_repair.benchmark import Problem
from collect.errors import ConfigError
from collect.synthesis.self_repair.sources import (
    BigCodeBench,
    LiveCodeBench,
    SelfRepairConfig,
    SourceName,
    read_problems,
)
from tests.collect.synthesis.self_repair.rows import (
    BIGCODEBENCH,
    functional_row,
    lines_file,
    packed,
    stdin_row,
)


def read_one(source: SourceName, path: Path) -> Problem:
    (problem,) = read_problems(SelfRepairConfig(source=source, path=str(path)))
    return problem


def test_a_bigcodebench_problem(tmp_path: Path) -> None:
    problem = read_one("bigcodebench", lines_file(tmp_path / "rows.jsonl", BIGCODEBENCH))
    assert problem.canonical is not None
    assert problem.canonical.endswith("    return math.sqrt(total / len(xs))\n")
    assert problem.statement.startswith("The root of the mean.\nYou should write")
    assert problem.public_tests.names == ("TestCases::test_two", "TestCases::test_one")
    assert problem.public_tests.code.startswith("from solution import *")
    assert BIGCODEBENCH["test"] in problem.public_tests.code
    assert problem.private_tests is None
    assert problem.libraries == ("math",)


def test_every_kind_of_file_reads_the_same(tmp_path: Path) -> None:
    expected = read_one("bigcodebench", lines_file(tmp_path / "rows.jsonl", BIGCODEBENCH))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(BIGCODEBENCH))
        writer.writeheader()
        writer.writerow(BIGCODEBENCH)
    table = pyarrow.Table.from_pylist([BIGCODEBENCH | {"libs": ["math"]}])
    parquet.write_table(table, tmp_path / "rows.parquet")
    assert read_one("bigcodebench", tmp_path / "rows.csv") == expected
    assert read_one("bigcodebench", tmp_path / "rows.parquet") == expected


def test_livecodebench_on_standard_input(tmp_path: Path) -> None:
    problem = read_one("livecodebench", lines_file(tmp_path / "rows.jsonl", stdin_row()))
    assert problem.id == "abc900_a"
    assert problem.entry_point == ""
    assert "reads standard input" in problem.statement
    assert "check_program('2\\n1 2\\n', '3\\n')" in problem.public_tests.code
    assert problem.private_tests is not None
    assert "check_program('1\\n7\\n', '7\\n')" in problem.private_tests.code
    assert problem.published == date(2024, 8, 10)


def test_a_functional_livecodebench_problem(tmp_path: Path) -> None:
    problem = read_one("livecodebench", lines_file(tmp_path / "rows.jsonl", functional_row()))
    assert problem.entry_point == "Solution.pairs"
    assert "check_call('pairs', [[1, 2, 3], 1], [[1, 2]])" in problem.public_tests.code
    assert "class Solution:" in problem.statement


def test_upstream_has_no_canonical_solution(tmp_path: Path) -> None:
    row = stdin_row()
    del row["canonical_solution"]
    assert read_one("livecodebench", lines_file(tmp_path / "rows.jsonl", row)).canonical is None


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        (
            BigCodeBench(),
            {"task_id": "x"},
            "column complete_prompt: it is missing; the columns of",
        ),
        (BigCodeBench(), {**BIGCODEBENCH, "test": "x = ("}, "column test: not Python"),
        (BigCodeBench(), {**BIGCODEBENCH, "test": "x = 1"}, "column test: holds no class"),
        (BigCodeBench(), {**BIGCODEBENCH, "libs": "[m]"}, "column libs: not a list"),
        (LiveCodeBench(), stdin_row(metadata="{"), "column metadata: not JSON"),
        (
            LiveCodeBench(),
            stdin_row(private_test_cases=packed([{"input": "1"}])),
            r"column private_test_cases: test 0\.output: Field required",
        ),
        (LiveCodeBench(), stdin_row(private_test_cases="?"), "private_test_cases: neither JSON"),
        (
            LiveCodeBench(),
            functional_row(
                public_test_cases=json.dumps(
                    [{"input": "NaN", "output": "1", "testtype": "functional"}]
                )
            ),
            "test 0: 'NaN' is not JSON",
        ),
        (
            LiveCodeBench(),
            functional_row(
                public_test_cases=json.dumps(
                    [{"input": "[]", "output": "7" * 50_001, "testtype": "functional"}]
                )
            ),
            "is not JSON: an integer has 50001 digits, more than 50000",
        ),
    ],
)
def test_broken_rows_are_named(source: Any, row: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"here, row 3: .*{message}"):
        source.problem("here, row 3", row)


def test_a_problem_that_stands_there_twice(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", BIGCODEBENCH, BIGCODEBENCH)
    with pytest.raises(ConfigError, match="BigCodeBench/9000 stands there more than once"):
        read_problems(SelfRepairConfig(source="bigcodebench", path=str(path)))


def test_an_unknown_release_of_livecodebench() -> None:
    config = SelfRepairConfig(source="livecodebench", split="v9")
    with pytest.raises(ConfigError, match=r"self_repair\.split: .* no release 'v9'"):
        read_problems(config)


def test_a_csv_with_a_row_too_long(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("task_id,test\nx,y,z\n")
    with pytest.raises(ConfigError, match=r"rows\.csv, row 1: not as many cells"):
        read_problems(SelfRepairConfig(source="bigcodebench", path=str(path)))


def test_a_gzip_file_that_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(ConfigError, match="not a whole gzip file"):
        read_one("bigcodebench", tmp_path / "rows.jsonl.gz")
