"""Verdicts on patches where builds fail, and whose fault that is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.java_run import run_java_tests
from collect.code.patches import diff_trees
from collect.errors import FailureKind, ModelFailure
from collect.rollouts.rollout import Verdict, score
from sandbox import Sandbox, SandboxConfig
from sandbox.base import JavaConfig
from sandbox.errors import BuildFailure
from tests.sandbox.java.conftest import require_program
from tests.sandbox.java.programs import CALC, MAIN, MAVEN

BUG = Instance(
    id="calc",
    benchmark="calc",
    language="java",
    repository="calc",
    problem_statement="The total is wrong.",
    fail_to_pass=("demo.CalcTest#testTotal",),
    pass_to_pass=(),
    gold_patch="",
    files={path: text.encode() for path, text in MAVEN.items()},
)


class Calc:
    """A benchmark of one bug, or of what its test runs are said to come to, one after another."""

    name = "calc"

    def __init__(self, *said: str | None) -> None:
        self.said = list(said)
        """Each a build's failure; None where it succeeds and the test passes."""
        self.ran = 0

    def instances(self) -> list[Instance]:
        return [BUG]

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        self.ran += 1
        if not self.said:
            return run_java_tests(sandbox, list(tests), 60)
        failure = self.said.pop(0)
        status = TestStatus.PASSED if failure is None else TestStatus.MISSING
        return TestResults(dict.fromkeys(tests, status), "", build_failure=failure)


def verdict(
    benchmark: Calc, patch: str = "", maven_options: tuple[str, ...] | None = None
) -> Verdict:
    java = JavaConfig(maven_options=maven_options)
    return score(benchmark, BUG, patch, SandboxConfig(java=java))


def changing(path: str, text: str) -> str:
    return diff_trees(BUG.files, {**BUG.files, path: text.encode()})


def test_a_build_that_fails_once_is_built_again() -> None:
    benchmark = Calc("no memory", None)
    assert verdict(benchmark).resolved
    assert benchmark.ran == 2


def test_a_build_that_only_the_patch_breaks_is_its_fault() -> None:
    benchmark = Calc("a broken resource", "a broken resource", None)
    found = verdict(benchmark)
    assert not found.resolved
    assert [test.after for test in found.tests] == [TestStatus.MISSING]
    assert benchmark.ran == 3


def test_a_build_that_fails_without_the_patch_too_says_nothing_of_it() -> None:
    with pytest.raises(BuildFailure, match="without the patch, too: no repository"):
        verdict(Calc("no repository", "no repository", "no repository"))


@pytest.mark.slow
def test_real_builds_are_told_apart() -> None:
    require_program("javac")
    require_program("mvn")
    fixed = changing(MAIN, CALC.replace("sum + 1", "sum"))
    assert verdict(Calc(), fixed).resolved
    broken = Calc()
    assert not verdict(broken, changing(MAIN, CALC.replace("sum + 1", "sums"))).resolved
    assert broken.ran == 1, "errors in the sources need no second look"
    steered = Calc()
    assert not verdict(steered, changing(".mvn/maven.config", "--no-such-option\n")).resolved
    assert steered.ran == 3
    with pytest.raises(BuildFailure, match=r"settings file does not exist: /nowhere\.xml"):
        verdict(Calc(), fixed, ("-o", "-s", "/nowhere.xml"))


def test_a_file_where_the_tests_need_a_folder_is_the_patchs_fault() -> None:
    blocking = diff_trees({}, {"src": b"no folder\n"})
    with pytest.raises(ModelFailure, match="can't be laid out over the patch") as caught:
        verdict(Calc(None), blocking)
    assert caught.value.kind is FailureKind.MODEL
