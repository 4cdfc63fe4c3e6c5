from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.marks import (
    Mark,
    Verification,
    Verifications,
    old_python,
    verification_table,
    verify,
    verify_instance,
)
from collect.benchmarks.workspace import open_instance_sandbox
from sandbox import SandboxConfig
from tests.interpreters import find_interpreter

TOTAL = "tests/test_counter.py::test_total"
EMPTY = "tests/test_counter.py::test_empty"


def verified(
    bundle: Path, changes: Mapping[str, Any], timeout: float = 60, repeats: int = 1
) -> Verification:
    benchmark = BundledBenchmark(bundle, timeout)
    instance = replace(benchmark.instances()[0], **changes)
    return verify_instance(benchmark, instance, SandboxConfig(), repeats)


@pytest.mark.slow
def test_a_sound_instance(bundle: Path) -> None:
    done = verified(bundle, {}, repeats=2)
    assert (done.problems, done.marks, done.repeats) == ((), (Mark.OK,), 2)
    assert done.ran_in == f"local, Python {platform.python_version()}"


@pytest.mark.parametrize(
    ("changes", "mark", "expected"),
    [
        (
            {"fail_to_pass": (EMPTY,), "pass_to_pass": ()},
            Mark.BROKEN,
            [f"does not fail before: {EMPTY} is pass"],
        ),
        pytest.param(
            {"pass_to_pass": (TOTAL,)},
            Mark.BROKEN,
            [f"other test: {TOTAL} is failed before and passed after"],
            marks=pytest.mark.slow,
        ),
        ({"fail_to_pass": ()}, Mark.ZERO_TESTS, ["zero tests"]),
        (
            {"fail_to_pass": ("tests/test_x.py::test_y",), "pass_to_pass": ()},
            Mark.ZERO_TESTS,
            ["before: zero tests"],
        ),
        (
            {"gold_patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"},
            Mark.BROKEN,
            ["PatchError: x: "],
        ),
        ({"files": {"counter/totals.py": b"", "counter/totals.py/x": b""}}, Mark.BROKEN, ["Error"]),
    ],
)
def test_what_is_wrong_is_named(
    bundle: Path, changes: dict[str, object], mark: Mark, expected: list[str]
) -> None:
    done = verified(bundle, changes)
    assert done.marks == (mark,)
    for text in expected:
        assert any(text in problem for problem in done.problems), done


def test_a_patch_that_does_not_mend(bundle: Path) -> None:
    patch = (
        BundledBenchmark(bundle).instances()[0].gold_patch.replace("+    return sum", "+    sum")
    )
    assert verified(bundle, {"gold_patch": patch}).problems == (
        f"does not pass after: {TOTAL} is failed",
        f"other test: {EMPTY} is passed before and failed after",
    )


@pytest.mark.slow
def test_a_program_that_never_ends(bundle: Path) -> None:
    files = dict(BundledBenchmark(bundle).instances()[0].files)
    files["tests/conftest.py"] = (
        b"import pathlib\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef endless():\n"
        b"    while '[:-1]' in pathlib.Path('counter/totals.py').read_text():\n        pass\n"
    )
    done = verified(bundle, {"files": files}, timeout=5)
    assert (done.problems, done.marks) == (("before: timed out",), (Mark.SLOW,))


@pytest.mark.slow
def test_a_flaky_test(bundle: Path) -> None:
    files = dict(BundledBenchmark(bundle).instances()[0].files)
    files["tests/test_counter.py"] += b"""

def test_by_the_clock():
    import os

    assert os.urandom(1)[0] % 2
"""
    flaky = "tests/test_counter.py::test_by_the_clock"
    done = verified(bundle, {"files": files, "pass_to_pass": (flaky,)}, repeats=8)
    assert set(done.problems) <= {f"before: flaky: {flaky}", f"after: flaky: {flaky}"}
    assert done.marks == (Mark.FLAKY,)


def test_what_does_not_run_here_is_no_mark(bundle: Path, tmp_path: Path) -> None:
    benchmark = BundledBenchmark(bundle)
    nowhere = SandboxConfig(python="/nowhere/python")
    kept = Verifications(tmp_path / "kept")
    [done] = verify(benchmark, benchmark.instances(), nowhere, verifications=kept)
    assert (done.marks, done.ok) == ((), False)
    assert "SandboxUnavailable" in done.failure
    assert not kept.folder.exists()


def test_a_full_disk_is_no_mark(bundle: Path) -> None:
    files = dict(BundledBenchmark(bundle).instances()[0].files)
    files["tests/conftest.py"] = b"import errno, os\nraise OSError(28, os.strerror(errno.ENOSPC))\n"
    done = verified(bundle, {"files": files})
    assert done.marks == ()
    assert done.failure.startswith("No space left on device: make room")


def test_many_at_once_and_the_table(bundle: Path) -> None:
    benchmark = BundledBenchmark(bundle)
    sound = benchmark.instances()[0]
    wrong = replace(sound, id="wrong", fail_to_pass=())
    heard: list[Verification] = []
    done = verify(benchmark, [sound, wrong], SandboxConfig(), on_done=heard.append)
    assert [verification.ok for verification in done] == [True, False]
    assert {verification.instance_id for verification in heard} == {sound.id, "wrong"}
    console = Console(width=120)
    with console.capture() as capture:
        console.print(verification_table(done))
    assert "1 of 2 instances" in capture.get()
    assert "fail_to_pass is empty" in capture.get()


@pytest.mark.slow
def test_a_run_that_is_cut_short_is_told(bundle: Path) -> None:
    tests = bundle / "repositories" / "counter" / "tests" / "test_counter.py"
    ends = "\n\ndef test_ends():\n    import os\n    os._exit(total([1, 2]) != 3)\n"
    tests.write_text(tests.read_text() + ends)
    done = verified(bundle, {"pass_to_pass": (EMPTY, "tests/test_counter.py::test_ends")})
    assert done.marks == (Mark.BROKEN,)
    assert any(
        "pytest's process ended during tests/test_counter.py::test_ends" in p for p in done.problems
    )


def test_a_sandbox_whose_python_is_too_old(bundle: Path) -> None:
    old = find_interpreter("3.7")
    if old is None:
        pytest.skip("CPython 3.7 is not on this machine")
    sandbox = SandboxConfig(python=old.path, readable_paths=old.readable_paths)
    instance = BundledBenchmark(bundle, 60).instances()[0]
    with open_instance_sandbox(sandbox, instance) as opened:
        [found] = old_python(instance, opened)
    assert found.mark is Mark.OLD_PYTHON
    assert found.text.startswith("the debugger needs CPython 3.8 or later, and ")
