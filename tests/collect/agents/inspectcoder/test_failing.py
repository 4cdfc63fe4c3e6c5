"""The failing test of a version, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collect.agents.inspectcoder.patching import first_failing, shortened
from collect.benchmarks.base import Instance
from collect.benchmarks.pytest_run import section_of
from collect.errors import InfrastructureFailure
from sandbox import SandboxConfig, open_sandbox
from tests.repair_bug import BUG, CORRECT, FAILING, RepairBugs


def failing(code: str, instance: Instance = BUG, timeout: float = 30.0) -> object:
    benchmark = RepairBugs(instance, test_timeout=timeout)
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files({**instance.files, "solution.py": code.encode()})
        return first_failing(benchmark, instance, sandbox)


def test_the_first_public_test_that_fails() -> None:
    found = failing(BUG.files["solution.py"].decode())
    assert vars(found)["id"] == FAILING
    assert vars(found)["source"].splitlines() == [
        "   8  def test_the_first_of_several():",
        '   9      assert top_word("b a b a c") == "a"',
    ]
    error = vars(found)["error"]
    assert "E   AssertionError: assert 'b' == 'a'" in error
    assert "test_each_text" not in error


def test_none_fails_of_a_correct_program() -> None:
    assert failing(CORRECT) is None


def test_a_program_that_can_t_be_imported() -> None:
    found = failing("def top_word(:\n")
    assert "SyntaxError" in vars(found)["error"]


@pytest.mark.slow
def test_an_endless_program() -> None:
    found = failing("while True: pass", timeout=2)
    assert "did not end within" in vars(found)["error"]


def test_a_bug_without_public_tests_is_the_benchmark_s_fault() -> None:
    private = tuple(test for test in BUG.fail_to_pass if "private" in test)
    hidden = replace(BUG, fail_to_pass=private, pass_to_pass=())
    with pytest.raises(InfrastructureFailure, match="no public test"):
        failing(CORRECT, hidden)


def test_output_without_sections_is_told_whole() -> None:
    assert section_of("test_a.py::test_b", "INTERNALERROR> x\n") == "INTERNALERROR> x"


def test_a_long_text_loses_its_middle() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    short = shortened(text, max_lines=10)
    assert "(90 lines left out)" in short
    assert short.startswith("line 0\n")
    assert short.endswith("line 99")
    assert len(shortened("x" * 10_000, max_chars=400)) < 460


def test_a_second_cut_counts_what_the_first_left_out() -> None:
    once = "\n".join(["row"] * 20 + ["[... 5000 bytes cut ...]"] + ["row"] * 20)
    lines = shortened(once, max_lines=10)
    assert "... (31 lines and 5000 bytes left out) ..." in lines
    assert "characters and 31 lines and 5000 bytes left out" in shortened(lines, max_chars=20)
