from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.verify import Verification, verification_table, verify, verify_instance
from sandbox import SandboxConfig

TOTAL = "tests/test_counter.py::test_total"
EMPTY = "tests/test_counter.py::test_empty"


def problems(
    bundle: Path, changes: Mapping[str, Any], timeout: float = 60, repeats: int = 1
) -> list[str]:
    benchmark = BundledBenchmark(bundle, timeout)
    instance = replace(benchmark.instances()[0], **changes)
    return list(verify_instance(benchmark, instance, SandboxConfig(), repeats).problems)


def test_a_sound_instance(bundle: Path) -> None:
    assert problems(bundle, {}, repeats=2) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"fail_to_pass": (EMPTY,), "pass_to_pass": ()},
            [f"does not fail before: {EMPTY} is pass"],
        ),
        ({"pass_to_pass": (TOTAL,)}, [f"other test: {TOTAL} is failed before and passed after"]),
        ({"fail_to_pass": ()}, ["zero tests"]),
        (
            {"fail_to_pass": ("tests/test_x.py::test_y",), "pass_to_pass": ()},
            ["before: zero tests"],
        ),
        ({"gold_patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"}, ["PatchError: x: "]),
    ],
)
def test_what_is_wrong_is_named(
    bundle: Path, changes: dict[str, object], expected: list[str]
) -> None:
    found = problems(bundle, changes)
    for text in expected:
        assert any(text in problem for problem in found), found


def test_a_patch_that_does_not_mend(bundle: Path) -> None:
    patch = (
        BundledBenchmark(bundle).instances()[0].gold_patch.replace("+    return sum", "+    sum")
    )
    assert problems(bundle, {"gold_patch": patch}) == [
        f"does not pass after: {TOTAL} is failed",
        f"other test: {EMPTY} is passed before and failed after",
    ]


def test_a_program_that_never_ends(bundle: Path) -> None:
    files = dict(BundledBenchmark(bundle).instances()[0].files)
    files["tests/conftest.py"] = (
        b"import pathlib\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef endless():\n"
        b"    while '[:-1]' in pathlib.Path('counter/totals.py').read_text():\n        pass\n"
    )
    found = problems(bundle, {"files": files, "pass_to_pass": ()}, timeout=5)
    assert found == ["before: timed out"]


def test_a_flaky_test(bundle: Path) -> None:
    files = dict(BundledBenchmark(bundle).instances()[0].files)
    files["tests/test_counter.py"] += b"""

def test_by_the_clock():
    import os

    assert os.urandom(1)[0] % 2
"""
    flaky = "tests/test_counter.py::test_by_the_clock"
    found = problems(bundle, {"files": files, "pass_to_pass": (flaky,)}, repeats=8)
    assert f"before: flaky: {flaky}" in found or f"after: flaky: {flaky}" in found


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
