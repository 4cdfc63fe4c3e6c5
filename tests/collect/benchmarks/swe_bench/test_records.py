"""Records of all generations, and what their tests are run by."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import TestResults, TestStatus
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.marks import judged
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.swe_bench.benchmark import (
    Record,
    SweBenchBenchmark,
    not_loaded,
    parser_name,
    run_commands,
    setup_commands,
    status_of,
    statuses_of,
)
from collect.benchmarks.swe_bench.log_parsers import LOG_PARSERS
from collect.errors import ConfigError
from collect.rollouts.rollout import Verdict
from collect.store.records import TestRow
from tests.collect.benchmarks.swe_bench.rows import EMPTY, TEST_PATCH, TOTAL, first, live

P, F, S, M = TestStatus.PASSED, TestStatus.FAILED, TestStatus.SKIPPED, TestStatus.MISSING


def record(row: dict[str, Any]) -> Record:
    return Record.model_validate(row)


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_file_of_records(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"records{suffix}"
    rows = [first(), live()]
    path.write_text(json.dumps(rows) if suffix == ".json" else "\n".join(map(json.dumps, rows)))
    benchmark = open_benchmark(BenchmarkConfig(name="swe_bench", path=str(path)))
    one, two = benchmark.instances()
    assert (one.id, one.repository, one.language) == ("pallets__flask-1", "pallets/flask", "python")
    assert (
        (one.fail_to_pass, one.pass_to_pass)
        == ((TOTAL,), (EMPTY,))
        == (
            two.fail_to_pass,
            two.pass_to_pass,
        )
    )
    assert one.image == "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"
    assert two.image == "starryzhang/sweb.eval.x86_64.made_1776_counter-7:latest"
    assert one.test_paths == ("tests/test_counter.py", "tests/data/numbers.txt")
    assert one.image_workspace is not None
    assert one.image_workspace.folder == "/testbed"
    assert not one.files
    shown = BenchmarkConfig(name="swe_bench", path=str(path), show_tests=True)
    assert open_benchmark(shown).instances()[0].hash != one.hash


QUOTED = "tests/test_counter.py::test_x['a']"


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize(
    ("row", "passing"),
    [
        (first(FAIL_TO_PASS=[TOTAL], PASS_TO_PASS=[EMPTY]), (EMPTY,)),
        (first(FAIL_TO_PASS=str([TOTAL]), PASS_TO_PASS=str([EMPTY, QUOTED])), (EMPTY, QUOTED)),
        (without(first(), "PASS_TO_PASS"), ()),
        (first(PASS_TO_PASS=None, test_patch=None), ()),
        (
            without(first(), "FAIL_TO_PASS", "PASS_TO_PASS")
            | {"fail_to_pass": f"['{TOTAL}']", "pass_to_pass": [EMPTY]},
            (EMPTY,),
        ),
    ],
    ids=["lists", "repr", "no column", "null", "lower case"],
)
def test_forms_of_a_record(row: dict[str, Any], passing: tuple[str, ...]) -> None:
    read = record(row)
    assert read.fail_to_pass == (TOTAL,)
    assert read.pass_to_pass == passing


def test_an_image_of_the_record_comes_first() -> None:
    assert record(live(docker_image="a/b:1")).image_name == "a/b:1"
    assert record(first(image="c/d:2")).image_name == "c/d:2"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (first(repo="made/unknown"), "nothing tells how its tests are run"),
        (live(log_parser="parse_log_ruby"), "there is no parser 'ruby'"),
        (first(base_commit="main; reboot"), "column base_commit"),
        ({"instance_id": "x"}, "column repo"),
        (first(instance_id="../x"), "column instance_id"),
        (first(FAIL_TO_PASS="[test_x"), "column FAIL_TO_PASS: .*must be a list, as JSON or as"),
    ],
)
def test_a_record_that_cannot_be_run_is_named(
    tmp_path: Path, row: dict[str, Any], problem: str
) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(ConfigError, match=problem):
        open_benchmark(BenchmarkConfig(name="swe_bench", path=str(path))).instances()


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, [first(), live(), first(patch="other")])))
    told = r"records\.jsonl, line 3: pallets__flask-1 stands in .*records\.jsonl, line 1 already"
    with pytest.raises(ConfigError, match=told):
        open_benchmark(BenchmarkConfig(name="swe_bench", path=str(path))).instances()


def test_parsers_by_record_and_by_repository() -> None:
    assert parser_name(record(first())) == "pytest"
    assert parser_name(record(first(repo="django/django"))) == "django"
    assert parser_name(record(first(log_parser="parse_log_pytest_v2"))) == "pytest_v2"
    assert parser_name(record(live(log_parser="def parser(log): ..."))).startswith("def")


@pytest.mark.parametrize(
    ("repository", "version", "test", "build"),
    [
        ("pallets/flask", "2.3", "pytest -rA tests/test_counter.py", "pip install -e ."),
        ("astropy/astropy", "1.3", "pytest -rA -vv -o console", ".[test] --verbose"),
        ("astropy/astropy", "v5.3", "pytest -rA tests", ".[test] --verbose"),
        ("django/django", "1.9", "./tests/runtests.py --verbosity 2 test_counter", "setup.py"),
        ("django/django", "3.1", "--parallel 1 test_counter", "pip install -e ."),
        ("matplotlib/matplotlib", "3.8", "pytest -rA", '--no-build-isolation -e ".[dev]"'),
        ("matplotlib/matplotlib", "2.1", "pytest -rA", "setup.py build"),
        ("mwaskom/seaborn", "0.11", "pytest --no-header -rA", "pip install -e ."),
        ("psf/requests", "2.27", "pytest -rA", "pip install ."),
        ("sympy/sympy", "1.12", "bin/test -C --verbose tests", "pip install -e ."),
    ],
)
def test_commands_by_repository_and_version(
    repository: str, version: str, test: str, build: str
) -> None:
    known = record(first(repo=repository, version=version))
    [command] = run_commands(known)
    assert test in command
    assert "numbers.txt" not in command
    assert build in setup_commands(known)[-1]
    assert ("export LANG=en_US.UTF-8" in setup_commands(known)) is (repository == "django/django")


def test_a_renamed_test_file_is_run_by_its_new_name() -> None:
    patch = "diff --git a/tests/old.py b/tests/new.py\nrename from tests/old.py\n"
    renamed = record(first(test_patch=patch + TEST_PATCH))
    assert run_commands(renamed) == ["pytest -rA tests/new.py tests/test_counter.py"]
    assert renamed.test_files[:2] == ("tests/old.py", "tests/new.py")


def test_an_id_that_is_cut_off_stands_for_those_that_begin_with_it() -> None:
    log = {"a[x-1]": P, "a[x-2]": P, "b[y-1]": P, "b[y-2]": F, "c": P}
    found = [status_of(test, log) for test in ("c", "d", "a[x", "b[y", "a")]
    assert found == [P, None, P, None, None]


def test_a_test_that_the_log_does_not_name_has_failed() -> None:
    assert statuses_of(["c", "d"], {"c": P}) == {"c": P, "d": F}
    assert statuses_of(["c", "d"], {}) == {"c": M, "d": M}


@pytest.mark.parametrize(
    ("name", "text"),
    [("conftest.py", "from a import b\n"), ("test_a.py", "from a import b\n")],
)
def test_what_cannot_be_imported_has_failed(tmp_path: Path, name: str, text: str) -> None:
    """By what pytest really says of it."""
    (tmp_path / "test_a.py").write_text("def test_x():\n    pass\n")
    (tmp_path / "a.py").write_text("")
    (tmp_path / name).write_text(text)
    argv = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "test_a.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    log, tests = done.stdout + done.stderr, ["test_a.py::test_x"]
    statuses = LOG_PARSERS["pytest"](log)
    unloaded = not_loaded(tests, statuses, log)
    results = TestResults(statuses_of(tests, statuses), log, not_loaded=unloaded)
    assert results.with_failed_loads().statuses == {"test_a.py::test_x": F}
    assert list(unloaded.values()) == ([str(tmp_path / name)] if name == "conftest.py" else [])


def test_a_test_that_is_skipped_on_both_sides_is_no_defect(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(first()))
    [bug] = SweBenchBenchmark(path).instances()
    before, after = TestResults({TOTAL: F, EMPTY: S}, ""), TestResults({TOTAL: P, EMPTY: S}, "")
    assert judged(bug, [before], [after]) == ()
    assert len(judged(replace(bug, skips_count=False), [before], [after])) == 1


@pytest.mark.parametrize(
    ("kept", "fixed", "resolved"),
    [(P, P, True), (S, P, True), (M, P, False), (F, P, False), (P, S, False), (P, M, False)],
)
def test_what_resolves(kept: TestStatus, fixed: TestStatus, resolved: bool) -> None:
    rows = (
        TestRow(TOTAL, "fail_to_pass", F, fixed),
        TestRow(EMPTY, "pass_to_pass", P, kept),
    )
    assert Verdict(rows, skips_count=True).resolved is resolved
    assert Verdict(rows).resolved is (resolved and kept is P)
