from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.marks import verify
from collect.code.patches import apply_patch
from collect.errors import ConfigError
from sandbox import Command, SandboxConfig, open_sandbox


def test_an_instance(bundle: Path) -> None:
    (instance,) = BundledBenchmark(bundle).instances()
    assert instance.id == "counter__total"
    assert instance.repository == "counter"
    assert instance.category == "off_by_one"
    assert instance.problem_statement == "`total` forgets the last number\n"
    assert b"numbers[:-1]" in instance.files["counter/totals.py"]
    fixed = apply_patch(instance.files, instance.gold_patch)
    correct = bundle / "repositories" / "counter" / "counter" / "totals.py"
    assert fixed["counter/totals.py"] == correct.read_bytes()


def test_what_tools_leave_behind_is_no_part_of_a_bug(bundle: Path) -> None:
    (before,) = BundledBenchmark(bundle).instances()
    for cache in (".ruff_cache", ".mypy_cache", "counter/__pycache__"):
        folder = bundle / "repositories" / "counter" / cache
        folder.mkdir()
        (folder / "left").write_text("behind")
    (after,) = BundledBenchmark(bundle).instances()
    assert after.hash == before.hash


def replace(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = root / "bugs" / "counter__total" / file
        path.write_text(path.read_text().replace(old, new))

    return change


def remove(file: str) -> Callable[[Path], None]:
    return lambda root: (root / "bugs" / "counter__total" / file).unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            replace("bug.yaml", "category", "kind"),
            r"kind: there is no such key; there are: category",
        ),
        (replace("bug.yaml", "issue: |", "issue: [\n"), r"bug\.yaml: not YAML"),
        (replace("bug.yaml", "y: counter", "y: abacus"), r"bug\.yaml: repository: .*abacus"),
        (
            replace("bug.yaml", "y: counter", "y: ../bugs"),
            r"bug\.yaml: repository: .* is not below",
        ),
        (replace("gold.patch", "sum(numbers)", "0"), r"gold\.patch: can't be reversed .* hunk 1"),
        (replace("gold.patch", "counter/totals", "tests/x"), r"gold\.patch: must change the prog"),
        (remove("gold.patch"), r"gold\.patch: no such file"),
        (remove("bug.yaml"), r"bug\.yaml: no such file"),
    ],
)
def test_broken_data_is_named(bundle: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(bundle)
    with pytest.raises(ConfigError, match=message):
        BundledBenchmark(bundle).instances()


def test_a_folder_of_another_shape(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        BundledBenchmark(tmp_path).instances()


def test_ids_and_issues_of_the_bundled_bugs() -> None:
    instances = BundledBenchmark(languages=("python", "java")).instances()
    assert len({instance.id for instance in instances}) == len(instances)
    for instance in instances:
        assert instance.id.startswith(f"{instance.repository}__")
        assert not set(instance.fail_to_pass) & set(instance.pass_to_pass)


@pytest.mark.slow
def test_every_bundled_bug_is_what_it_claims() -> None:
    benchmark = BundledBenchmark()
    done = verify(benchmark, benchmark.instances(), SandboxConfig())
    problems = {verification.instance_id: verification.problems for verification in done}
    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.slow
def test_every_test_of_a_bundled_repository_is_listed() -> None:
    """What no instance lists, no verification would see change."""
    repositories = {instance.repository: instance for instance in BundledBenchmark().instances()}
    for instance in repositories.values():
        with open_sandbox(SandboxConfig()) as sandbox:
            BundledBenchmark().prepare(instance, sandbox)
            argv = [sandbox.python, "-m", "pytest", "--collect-only", "-q", "--rootdir=."]
            output = sandbox.run(Command([*argv, "-p", "no:cacheprovider", "tests"])).output
        collected = {line for line in output.splitlines() if "::" in line}
        assert collected == {*instance.fail_to_pass, *instance.pass_to_pass}, instance.id


def java_bugs() -> dict[str, list[Instance]]:
    """By repository."""
    by_repository: dict[str, list[Instance]] = {}
    for instance in BundledBenchmark(languages=("java",)).instances():
        by_repository.setdefault(instance.repository, []).append(instance)
    return by_repository


@pytest.mark.slow
@pytest.mark.parametrize("repository", sorted(java_bugs()))
def test_every_java_bug_is_what_it_claims(repository: str) -> None:
    """All bugs of a repository in one sandbox, for its build tool takes long to start."""
    benchmark = BundledBenchmark(languages=("java",))
    bugs = java_bugs()[repository]
    tool = "mvn" if "pom.xml" in bugs[0].files else "gradle"
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} on this machine")
    correct = apply_patch(bugs[0].files, bugs[0].gold_patch)
    every_test = [*bugs[0].fail_to_pass, *bugs[0].pass_to_pass]
    with open_sandbox(SandboxConfig()) as sandbox:
        for tree, failing in [(correct, ()), *((bug.files, bug.fail_to_pass) for bug in bugs)]:
            sandbox.write_files(tree)
            results = benchmark.run_tests(bugs[0], sandbox, every_test)
            expected = dict.fromkeys(every_test, "passed") | dict.fromkeys(failing, "failed")
            assert results.statuses == expected, results.output
    for bug in bugs:
        assert apply_patch(bug.files, bug.gold_patch) == correct
        assert {*bug.fail_to_pass, *bug.pass_to_pass} == set(every_test)


def test_every_test_of_a_java_repository_is_listed() -> None:
    pattern = re.compile(r"@(?:Test|ParameterizedTest)\b[^{;]*?(?:\{[^}]*\}[^{;]*?)?void (\w+)\(")
    for instance in BundledBenchmark(languages=("java",)).instances():
        sources = {
            p: data.decode() for p, data in instance.files.items() if "/src/test/" in f"/{p}"
        }
        written = {
            (path.rpartition("/")[2], name)
            for path, text in sources.items()
            for name in pattern.findall(text)
        }
        listed = {
            (f"{test.partition('#')[0].rpartition('.')[2].partition('$')[0]}.java", name)
            for test in (*instance.fail_to_pass, *instance.pass_to_pass)
            for name in [test.partition("#")[2]]
        }
        assert listed == written, instance.id


def test_the_tests_of_a_java_module_are_not_the_agents_to_change() -> None:
    paths = {
        each.repository: each.test_paths
        for each in BundledBenchmark(languages=("java",)).instances()
    }
    assert paths["parcelroute"] == ("src/test",)
    assert paths["rowpipe"] == ("records/src/test", "steps/src/test")
