from __future__ import annotations

import ast
import gzip
import json
import os
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from collect.benchmarks.humanevalfix import HumanEvalFixBenchmark
from collect.benchmarks.humanevalfix_python import TEST
from collect.benchmarks.verify import verify_instance
from collect.errors import ConfigError
from sandbox import SandboxConfig

ROW = {
    "task_id": "Python/900",
    "prompt": 'def half(x):\n    """ Half of x. """\n    return x / 2\n\n\n'
    'def mean(xs):\n    """ The mean.\n    >>> mean([1, 3])\n    2.0\n    """\n',
    "canonical_solution": "    return sum(xs) / len(xs)\n",
    "buggy_solution": "    return sum(xs) / 2\n",
    "test": "\n\n\ndef check(mean):\n    import math\n\n"
    "    assert mean([1, 3]) == 2\n    assert math.isclose(mean([half(2)]), 1)\n\ncheck(mean)",
    "entry_point": "mean",
    "docstring": "The mean.\n>>> mean([1, 3])\n2.0",
    "bug_type": "value misuse",
    "failure_symptoms": "incorrect output",
}
SHARED = Path(__file__).parents[3] / "../shared/data/humanevalfix-python.jsonl"
DATA = Path(os.environ.get("STEPINTO_HUMANEVALFIX", SHARED)).resolve()


def lines_file(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_instance(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", ROW)
    (instance,) = HumanEvalFixBenchmark(path).instances()
    assert instance.id == "Python/900"
    assert instance.repository == "humanevalfix/Python_900"
    assert instance.fail_to_pass == (TEST,)
    assert instance.files["solution.py"].endswith(b"    return sum(xs) / 2\n")
    assert "+    return sum(xs) / len(xs)\n" in instance.gold_patch
    assert "The mean." in instance.problem_statement
    assert "value misuse" not in instance.problem_statement
    assert instance.files["test_solution.py"].decode() == (
        "from solution import half, mean\n\n\n"
        "def check(mean):\n    import math\n\n"
        "    assert mean([1, 3]) == 2\n    assert math.isclose(mean([half(2)]), 1)\n\n\n"
        "def test_check():\n    check(mean)\n"
    )


def test_it_fails_before_and_passes_after(tmp_path: Path) -> None:
    benchmark = HumanEvalFixBenchmark(lines_file(tmp_path / "rows.jsonl", ROW))
    done = verify_instance(benchmark, benchmark.instances()[0], SandboxConfig())
    assert done.problems == ()


def test_all_file_formats_give_the_same(tmp_path: Path) -> None:
    plain = lines_file(tmp_path / "rows.jsonl", ROW)
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    table = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([ROW]), table)
    hashes = {HumanEvalFixBenchmark(path).instances()[0].hash for path in (plain, packed, table)}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({key: ROW[key] for key in ROW if key != "test"}, "line 2: column test: Field required"),
        ({**ROW, "entry_point": None}, "line 2: column entry_point"),
        ({**ROW, "test": "def check(f:\n"}, "line 2: column test: not Python"),
        ({**ROW, "test": "def check(f):\n    pass\n"}, "line 2: column test: must end"),
        ({**ROW, "task_id": "Java/3"}, "line 2: column task_id: Java/3"),
        ([1], "line 2: column the row"),
    ],
)
def test_broken_rows_are_named(tmp_path: Path, row: object, message: str) -> None:
    path = lines_file(tmp_path / "rows.jsonl", ROW, row)
    with pytest.raises(ConfigError, match=f"rows.jsonl, {message}"):
        HumanEvalFixBenchmark(path).instances()


def test_a_line_that_is_not_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n{\n")
    with pytest.raises(ConfigError, match=r"rows\.jsonl, line 2: not JSON"):
        HumanEvalFixBenchmark(path).instances()


@pytest.mark.parametrize("name", ["none.jsonl", "rows.csv", "rows.parquet"])
def test_files_that_can_not_be_read(tmp_path: Path, name: str) -> None:
    if name != "none.jsonl":
        (tmp_path / name).write_text("x")
    with pytest.raises(ConfigError, match=name):
        HumanEvalFixBenchmark(tmp_path / name).instances()


@pytest.mark.skipif(not DATA.is_file(), reason="no HumanEvalFix file; set STEPINTO_HUMANEVALFIX")
def test_the_upstream_file() -> None:
    instances = HumanEvalFixBenchmark(DATA).instances()
    assert len(instances) == 123
    for instance in instances:
        test = ast.parse(instance.files["test_solution.py"])
        assert [type(node) for node in test.body] == [
            ast.ImportFrom,
            ast.FunctionDef,
            ast.FunctionDef,
        ]
        assert instance.category is not None
        assert instance.category not in instance.problem_statement
        assert instance.gold_patch
