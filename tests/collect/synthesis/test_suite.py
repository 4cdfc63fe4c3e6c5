from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import Project, ProjectRefused, arrange, fetch
from collect.synthesis.making import find_candidates
from collect.synthesis.workbench import PythonWorkbench, Suite
from sandbox import SandboxConfig
from tests.collect.synthesis.sample import FILES, STOCK, write_project

CONFIG = FactoryConfig(min_tests=5)
UNRELIABLE = """\
import os
import pytest


def test_failing():
    assert False


@pytest.mark.skip(reason="not here")
def test_skipped():
    pass


def test_flaky():
    assert os.getpid() != int(os.environ.get("FLAKY", "0")) and os.urandom(1)[0] % 2
"""
ENDLESS_WITHOUT_COVERAGE = """
import sys


def test_it():
    while "stepinto_watching" not in sys.modules:
        pass
"""


def arranged(folder: Path) -> Project:
    wanted = ProjectConfig(folder=str(folder))
    return arrange(wanted, fetch(wanted, CONFIG), SandboxConfig())


def run_suite(project: Project, config: FactoryConfig = CONFIG) -> Suite:
    return PythonWorkbench(project, SandboxConfig(), config).run_suite()


def test_it_is_known_which_tests_run_which_lines(tmp_path: Path) -> None:
    suite = run_suite(arranged(write_project(tmp_path)))
    assert len(suite.tests) == 12
    line = STOCK[: STOCK.index("too many of")].count("\n") + 1
    reached = [suite.tests[number] for number in suite.lines["src/shop/stock.py"][line]]
    assert reached == ["tests/test_stock.py::test_limit"]
    unused = STOCK[: STOCK.index("sorted(things)")].count("\n") + 1
    assert unused not in suite.lines["src/shop/stock.py"]
    assert suite.seconds.keys() == set(suite.tests)


def test_only_tests_that_pass_count(tmp_path: Path) -> None:
    files = {**FILES, "tests/test_unreliable.py": UNRELIABLE}
    suite = run_suite(arranged(write_project(tmp_path, files)))
    assert not [test for test in suite.tests if "failing" in test or "skipped" in test]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({**FILES, "tests/conftest.py": "import nothing_like_it"}, "its suite does not run"),
        pytest.param(
            {**FILES, "tests/test_stock.py": "", "tests/test_prices.py": ""},
            "only 0 tests pass",
            marks=pytest.mark.slow,
        ),
        (
            {"shop.py": "", "test_it.py": "def test_it():\n    pass\n" * 1},
            "only 1 tests pass",
        ),
    ],
)
def test_a_suite_that_can_not_be_used_is_refused(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ProjectRefused, match=message):
        run_suite(arranged(write_project(tmp_path, files)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endless", "runs"),
    [("def test_it():\n    while True: pass\n", 1), (ENDLESS_WITHOUT_COVERAGE, 2)],
)
def test_a_suite_that_does_not_end_is_refused(
    endless: str, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run is the one with coverage."""
    run, ended = PythonWorkbench._run, 0

    def counted(bench: PythonWorkbench, files: Any, job: Any, timeout: float) -> Any:
        nonlocal ended
        ended += 1
        # Where the first is to end, it has the time for it on a busy machine.
        return run(bench, files, job, timeout if ended == runs else CONFIG.suite_timeout)

    monkeypatch.setattr(PythonWorkbench, "_run", counted)
    project = arranged(write_project(tmp_path, {**FILES, "tests/test_stock.py": endless}))
    config = CONFIG.model_copy(update={"suite_timeout": 3.0})
    with pytest.raises(ProjectRefused, match=r"did not end in factory\.suite_timeout \(3 s\)"):
        run_suite(project, config)
    assert ended == runs


def test_candidates_lie_in_code_that_tests_run(tmp_path: Path) -> None:
    project = arranged(write_project(tmp_path))
    suite = run_suite(project)
    found = find_candidates(project, suite, CONFIG)
    again = find_candidates(project, suite, CONFIG)
    assert [each.id for each in found.chosen] == [each.id for each in again.chosen]
    assert len({each.id for each in found.chosen}) == len(found.chosen)
    assert found.found > found.reached >= len(found.chosen) - len(_pairs(found.chosen))
    assert _pairs(found.chosen)
    for candidate in found.chosen:
        assert candidate.tests
        assert candidate.covering >= len(candidate.tests)
        assert all(part.scope != "unused" for part in candidate.parts)


def _pairs(chosen: object) -> list[object]:
    assert isinstance(chosen, list)
    return [candidate for candidate in chosen if len(candidate.parts) > 1]
