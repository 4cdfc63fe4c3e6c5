"""From a folder with Maven or Gradle to bugs that the `local` benchmark runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from collect.benchmarks.local import LocalBenchmark, LocalBug, read_local_bugs
from collect.benchmarks.marks import verify
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import ProjectRefused, arrange, fetch
from collect.config import RunnerConfig, RuntimeConfig
from collect.errors import ConfigError
from collect.synthesis.java.workbench import JavaWorkbench
from collect.synthesis.making import CARD_FILE, Card, find_candidates, make_bugs
from sandbox import SandboxConfig
from tests.collect.synthesis.java.sample import write_project

pytestmark = [
    pytest.mark.skipif(shutil.which("mvn") is None, reason="no Maven on this machine"),
    pytest.mark.skipif(
        not Path("/usr/share/maven-repo/org/junit/jupiter").exists(),
        reason="no JUnit 5 in the distribution's Maven repository",
    ),
]
WANTED = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of bugs."""
    with pytest.MonkeyPatch.context() as patch:
        # The probe's jar is compiled once for all tests; only verifications are the test's own.
        folder = tmp_path_factory.mktemp("factory")
        project = write_project(folder / "shop")
        (project / "target" / "classes").mkdir(parents=True)
        (project / "target" / "classes" / "old.txt").write_text("of an earlier build")
        config = FactoryConfig(
            projects=(ProjectConfig(folder=str(project), name="shop"),),
            bugs_per_project=WANTED,
            candidates_per_project=5,
        )
        patch.chdir(folder)
        card = make_bugs(RuntimeConfig(runner=RunnerConfig(concurrency=2)), config, folder).card
        assert card is not None
        assert card.bugs == WANTED
        yield folder / "factory"


@pytest.fixture
def bugs(made: Path) -> list[LocalBug]:
    return read_local_bugs(made / "bugs.jsonl")


@pytest.mark.slow
def test_every_bug_is_what_it_claims(made: Path) -> None:
    benchmark = LocalBenchmark(made, languages=("java",))
    instances = benchmark.instances()
    [verified] = verify(benchmark, instances[:1], SandboxConfig())
    assert verified.problems == ()
    for instance in instances:
        assert instance.language == "java"
        assert instance.test_paths == ("src/test",)
        assert instance.pass_to_pass
        assert "target/classes/old.txt" not in instance.files
    with pytest.raises(ConfigError, match=r"set benchmark\.language=java"):
        LocalBenchmark(made).instances()


@pytest.mark.slow
def test_what_is_not_measured_is_not_made_up(bugs: list[LocalBug]) -> None:
    for bug in bugs:
        assert bug.failure is not None
        assert bug.difficulty is not None
        assert bug.difficulty.failing_tests == len(bug.fail_to_pass)
        assert bug.difficulty.covering_tests >= len(bug.fail_to_pass)
        in_method = all("." in edit.scope for edit in bug.edits)
        assert (bug.difficulty.entries is not None) == in_method
        if in_method:
            assert bug.difficulty.call_depth is not None
            assert bug.difficulty.call_depth >= 1
        assert not any(edit.scope == "Stock.unused" for edit in bug.edits)


@pytest.mark.slow
def test_an_issue_names_no_place(bugs: list[LocalBug]) -> None:
    for bug in bugs:
        assert ".java:" not in bug.problem_statement
        assert "src/main" not in bug.problem_statement
        assert "pytest" not in bug.problem_statement


@pytest.mark.slow
def test_the_card_counts_every_edit_once(made: Path) -> None:
    card = Card.model_validate_json((made / CARD_FILE).read_text("utf-8"))
    [project] = card.projects
    assert project.tests == 23
    assert project.edits_found > project.edits_reached >= project.edits_tried
    assert sum(step.dropped for step in card.steps) + card.bugs == project.edits_tried
    assert project.license == "MIT"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gradle") is None, reason="no Gradle on this machine")
def test_gradle(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", "gradle")
    wanted, config = ProjectConfig(folder=str(folder)), FactoryConfig()
    project = arrange(wanted, fetch(wanted, config), SandboxConfig())
    workbench = JavaWorkbench(project, SandboxConfig(), config)
    suite = workbench.run_suite()
    assert len(suite.tests) == 23
    [guard] = [
        candidate
        for candidate in find_candidates(project, suite, config).chosen
        if candidate.kind == "dropped_guard" and candidate.parts[0].scope == "Stock.add"
    ]
    above = "shop.StockTest#aboveTheLimit"
    assert above in guard.tests
    assert guard.covering == 5
    edited = workbench.edited(guard.parts)
    assert edited is not None
    run = workbench.run(edited, guard.tests, 60, (guard.parts, above))
    assert set(run.reasons) == {above}
    assert run.reasons[above].type == "AssertionError"
    expected = {"calls_to_failure": 1, "entries": 1, "call_depth": 2, "on_traceback": False}
    assert run.distance == expected


@pytest.mark.slow
def test_a_project_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop")
    (folder / "src/main/java/shop/Broken.java").write_text("class Broken { int x = y; }")
    wanted, config = ProjectConfig(folder=str(folder)), FactoryConfig()
    project = arrange(wanted, fetch(wanted, config), SandboxConfig())
    with pytest.raises(ProjectRefused, match=r"(?s)the build failed.*Broken\.java"):
        JavaWorkbench(project, SandboxConfig(), config).run_suite()


def test_no_tests(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop")
    shutil.rmtree(folder / "src/test")
    wanted = ProjectConfig(folder=str(folder))
    with pytest.raises(ProjectRefused, match="no Java tests among its"):
        arrange(wanted, fetch(wanted, FactoryConfig()), SandboxConfig())
