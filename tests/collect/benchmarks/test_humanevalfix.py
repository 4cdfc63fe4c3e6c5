from __future__ import annotations

import ast
import gzip
import json
import os
import shutil
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from collect.benchmarks.base import TestStatus
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.humanevalfix import HumanEvalFixBenchmark
from collect.benchmarks.marks import verify_instance
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.errors import ConfigError
from collect.rollouts.rollout import score
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
JAVA_ROW = {
    **ROW,
    "task_id": "Java/900",
    "prompt": "import java.util.*;\nimport java.lang.*;\n\nclass Solution {\n"
    "    public double mean(List<Integer> xs) {\n",
    "canonical_solution": "        double sum = 0;\n        for (int x : xs) sum += x;\n"
    "        return sum / xs.size();\n    }\n}",
    "buggy_solution": "        double sum = 0;\n        for (int x : xs) sum += x;\n"
    "        return sum / 2;\n    }\n}",
    "test": "public class Main {\n    public static void main(String[] args) {\n"
    "        Solution s = new Solution();\n"
    "        if (s.mean(Arrays.asList(1, 2, 3)) != 2) {\n"
    "            throw new AssertionError();\n        }\n    }\n}\n",
}
SHARED = Path(__file__).parents[3] / "../shared/data/humanevalfix-python.jsonl"
DATA = Path(os.environ.get("STEPINTO_HUMANEVALFIX", SHARED)).resolve()
SHARED_JAVA = SHARED.with_name("humanevalfix-java.jsonl")
JAVA_DATA = Path(os.environ.get("STEPINTO_HUMANEVALFIX_JAVA", SHARED_JAVA)).resolve()


def lines_file(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_instance(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", ROW)
    (instance,) = HumanEvalFixBenchmark(path).instances()
    assert instance.id == "Python/900"
    assert instance.repository == "humanevalfix/900"
    assert instance.fail_to_pass == ("test_solution.py::test_check",)
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


def test_a_java_instance(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", JAVA_ROW)
    (instance,) = HumanEvalFixBenchmark(path, languages=("java",)).instances()
    assert (instance.id, instance.language) == ("Java/900", "java")
    assert instance.fail_to_pass == ("Main",)
    assert instance.test_paths == ("Main.java",)
    assert instance.files["Main.java"].startswith(
        b"import java.util.*;\nimport java.lang.*;\n\npublic class Main {\n"
    )
    assert "-        return sum / 2;\n+        return sum / xs.size();\n" in instance.gold_patch
    assert "`mean` in `Solution.java`" in instance.problem_statement


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK on this machine")
def test_a_java_instance_fails_before_and_passes_after(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", JAVA_ROW)
    benchmark = HumanEvalFixBenchmark(path, languages=("java",))
    done = verify_instance(benchmark, benchmark.instances()[0], SandboxConfig())
    assert done.problems == ()


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/usr/share/java/javatuples.jar").exists(), reason="no javatuples on this machine"
)
def test_a_java_task_with_tuples_finds_them(tmp_path: Path) -> None:
    pairs = "Pair.with(1, 2).getValue0() + "
    row = {
        **JAVA_ROW,
        "prompt": "import org.javatuples.Pair;\n" + str(JAVA_ROW["prompt"]),
        "test": str(JAVA_ROW["test"]).replace("s.mean", f"{pairs}s.mean").replace("!= 2", "!= 3"),
    }
    benchmark = HumanEvalFixBenchmark(lines_file(tmp_path / "rows.jsonl", row), languages=("java",))
    done = verify_instance(benchmark, benchmark.instances()[0], SandboxConfig())
    assert done.problems == ()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK on this machine")
def test_a_java_program_that_never_ends_scores_as_timed_out(tmp_path: Path) -> None:
    endless = {**JAVA_ROW, "buggy_solution": "        while (true);\n    }\n}"}
    path = lines_file(tmp_path / "rows.jsonl", endless)
    benchmark = HumanEvalFixBenchmark(path, test_timeout=3, languages=("java",))
    verdict = score(benchmark, benchmark.instances()[0], "", SandboxConfig())
    assert [row.after for row in verdict.tests] == [TestStatus.TIMED_OUT]
    assert not verdict.resolved


def test_both_languages_in_one_file(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", ROW, JAVA_ROW)
    instances = HumanEvalFixBenchmark(path, languages=("python", "java")).instances()
    assert [instance.language for instance in instances] == ["python", "java"]
    with pytest.raises(ConfigError, match=r"line 1: .*Python/900 is not a Java task"):
        HumanEvalFixBenchmark(path, languages=("java",)).instances()


@pytest.mark.parametrize("java", [range(40), range(0, 40, 3), range(20, 60)])
def test_a_problem_is_on_one_side_in_both_languages(tmp_path: Path, java: range) -> None:
    rows = [{**ROW, "task_id": f"Python/{number}"} for number in range(40)]
    rows += [{**JAVA_ROW, "task_id": f"Java/{number}"} for number in java]
    path = str(lines_file(tmp_path / "rows.jsonl", *rows))

    def problems(split: str) -> dict[str, str]:
        fields = {"name": "humanevalfix", "language": "all", "path": path, "split": split}
        config = BenchmarkConfig.model_validate(fields)
        bugs = select_instances(config, open_benchmark(config))
        return {bug.id.partition("/")[2]: bug.repository for bug in bugs}

    train, held_out = problems("train"), problems("held_out")
    assert held_out
    assert not train.keys() & held_out.keys()
    assert not {*train.values()} & {*held_out.values()}


def test_a_java_row_without_its_main_class(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "rows.jsonl", {**JAVA_ROW, "test": "class Main {}"})
    with pytest.raises(ConfigError, match=r"line 1: column test: must hold `public class Main`"):
        HumanEvalFixBenchmark(path, languages=("java",)).instances()


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
        ({key: ROW[key] for key in ROW if key != "test"}, "line 2: column test: it is missing"),
        ({**ROW, "entry_point": None}, "line 2: column entry_point"),
        ({**ROW, "test": "def check(f:\n"}, "line 2: column test: not Python"),
        ({**ROW, "test": "def check(f):\n    pass\n"}, "line 2: column test: must end"),
        ({**ROW, "task_id": "Java/3"}, "line 2: column task_id: Java/3"),
        ([1], "line 2: the record: must be a mapping"),
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


@pytest.mark.skipif(
    not JAVA_DATA.is_file(), reason="no HumanEvalFix Java file; set STEPINTO_HUMANEVALFIX_JAVA"
)
def test_the_upstream_java_file() -> None:
    instances = HumanEvalFixBenchmark(JAVA_DATA, languages=("java",)).instances()
    assert len(instances) == 123
    for instance in instances:
        assert instance.files["Solution.java"].count(b"class Solution {") == 1
        assert b"public class Main {" in instance.files["Main.java"]
        assert instance.gold_patch
