from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from collect.benchmarks.base import TestStatus
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import Project, ProjectRefused, arrange, fetch
from collect.benchmarks.pytest_run import PytestJob, run_job, statuses
from collect.benchmarks.workspace import with_environment, write_folder
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.debugger import DebugLimits, open_debugger
from sandbox.debugger.records import Launch
from sandbox.languages.python.pytest_options import read_project_options, with_project_options


def arranged(folder: Path, files: dict[str, str], **settings: object) -> Project:
    write_folder(folder, {path: text.encode() for path, text in files.items()})
    wanted = ProjectConfig.model_validate({"folder": str(folder), **settings})
    return arrange(wanted, fetch(wanted, FactoryConfig()), SandboxConfig())


def test_tests_and_code_are_told_apart(tmp_path: Path) -> None:
    project = arranged(
        tmp_path,
        {
            "setup.py": "",
            "docs/conf.py": "",
            "docs/test_docs.py": "",
            "shop/__init__.py": "",
            "shop/stock.py": "",
            "shop/_version.py": "",
            "shop/_vendor/six.py": "",
            "shop/tests/helper.py": "",
            "shop/tests/test_stock.py": "",
            "shop/pricing_test.py": "",
            "test_all.py": "",
            "conftest.py": "",
        },
    )
    assert project.test_paths == ("shop/pricing_test.py", "shop/tests", "test_all.py")
    assert project.code_paths == ("shop/__init__.py", "shop/stock.py")
    assert project.environment.import_paths == (".",)
    assert project.environment.variables == {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@pytest.mark.parametrize(
    ("settings", "tests"),
    [
        ("testpaths = tests\npython_files = *", ("tests",)),
        ("python_files = check_*.py tests.py", ("app/check_shop.py", "app/tests.py")),
        ("python_files = unit/*.py", ("spec/unit/stock.py",)),
        ("testpaths = spec/unit\npython_files = *.py", ("spec/unit/stock.py",)),
        ("python_files = **/[", ()),
    ],
)
def test_the_projects_settings_name_test_files(
    settings: str, tests: tuple[str, ...], tmp_path: Path
) -> None:
    files = dict.fromkeys(
        ("tests/stock.py", "app/check_shop.py", "app/tests.py", "app/shop.py"), "one = 1\n"
    )
    files |= {"spec/unit/stock.py": "", "pytest.ini": f"[pytest]\n{settings}\n"}
    if not tests:
        with pytest.raises(ProjectRefused, match="no tests among"):
            arranged(tmp_path, files)
        return
    project = arranged(tmp_path, files)
    assert project.test_paths == tests
    assert "app/shop.py" in project.code_paths
    assert not set(tests).intersection(project.code_paths)


@pytest.mark.parametrize(
    ("places", "suite"),
    [
        ("test", ("test",)),
        ("test/unit", ("test/unit",)),
        ("plugins/*/test", ("plugins/dbt/test",)),
        ("test shop_test.py", ("shop_test.py", "test")),
        (".", ("plugins/dbt/test", "shop_test.py", "test")),
        ("gone", ("plugins/dbt/test", "shop_test.py", "test")),
    ],
)
def test_the_suite_is_what_pytest_runs_without_a_path(
    places: str, suite: tuple[str, ...], tmp_path: Path
) -> None:
    tests = ("test/unit/test_one.py", "plugins/dbt/test/test_two.py", "shop_test.py")
    files = dict.fromkeys((*tests, "shop.py"), "one = 1\n")
    project = arranged(tmp_path, {**files, "pytest.ini": f"[pytest]\ntestpaths = {places}\n"})
    assert project.test_paths == ("plugins/dbt/test", "shop_test.py", "test")
    assert sorted(project.suite_paths) == sorted(suite)
    assert project.code_paths == ("shop.py",)


def test_unittest_files_with_names_of_their_own_are_given_one_by_one(tmp_path: Path) -> None:
    tests = "import unittest\nclass Shop(unittest.TestCase):\n    def test_one(self): ...\n"
    files = {"app/tests.py": tests, "app/tests/shop_tests.py": tests, "app/old/tests.py": ""}
    files |= {"app/tests/base.py": "", "app/tests/test_more.py": "def test_two(): ...\n"}
    project = arranged(tmp_path, {**files, "app/shop.py": "one = 1\n"})
    assert project.test_paths == ("app/tests", "app/tests.py")
    suite = ("app/tests/shop_tests.py", "app/tests/test_more.py", "app/tests.py")
    assert project.suite_paths == suite
    assert project.code_paths == ("app/old/tests.py", "app/shop.py")
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files(project.source.files)
        run = run_job(sandbox, PytestJob(project.suite_paths), timeout=60)
    names = (f"{suite[0]}::Shop::test_one", f"{suite[1]}::test_two", f"{suite[2]}::Shop::test_one")
    assert statuses(run.reports) == dict.fromkeys(names, TestStatus.PASSED)


def test_the_config_has_the_last_word(tmp_path: Path) -> None:
    project = arranged(
        tmp_path,
        {"lib/shop.py": "", "lib/old.py": "", "checks/all.py": ""},
        tests=["checks"],
        import_paths=["lib"],
        exclude=["*/old.py"],
    )
    assert project.test_paths == ("checks",)
    assert project.code_paths == ("lib/shop.py",)
    assert project.environment.import_paths == ("lib",)


def test_a_project_without_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProjectRefused, match=r"no tests among its 1 files .*name another version"):
        arranged(tmp_path, {"shop.py": ""})


@pytest.mark.slow
def test_packages_that_pip_does_not_find_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    files = {"shop.py": "", "test_shop.py": ""}
    with pytest.raises(ProjectRefused, match=r"its packages: .*no-such-package"):
        arranged(tmp_path / "a", files, packages=["no-such-package"])
    # What only the tests name can be done without.
    groups = '[dependency-groups]\ntest = ["no-such-package"]\n'
    project = arranged(tmp_path / "b", {**files, "pyproject.toml": groups})
    assert project.environment.packages == ()
    why = "No matching distribution found for no-such-package"
    assert project.environment.missing == {"no-such-package": why}
    assert project.notes == (f"no-such-package is not installed: {why}",)


def wheel(folder: Path) -> None:
    """A pytest plugin, as pip installs it."""
    with zipfile.ZipFile(folder / "shop_plugin-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(
            "shop_plugin.py",
            "import pytest\n\n\n@pytest.fixture\ndef pens():\n    return 3\n",
        )
        metadata = "Metadata-Version: 2.1\nName: shop-plugin\nVersion: 1.0\n"
        archive.writestr("shop_plugin-1.0.dist-info/METADATA", metadata)
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("shop_plugin-1.0.dist-info/WHEEL", tag)
        entry = "[pytest11]\nshop = shop_plugin\n"
        archive.writestr("shop_plugin-1.0.dist-info/entry_points.txt", entry)
        archive.writestr("shop_plugin-1.0.dist-info/RECORD", "")


@pytest.mark.slow
def test_the_packages_pytest_plugins_are_loaded_however_pytest_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel(tmp_path)
    files = {
        "shop.py": "",
        "test_shop.py": "def test_it(pens):\n    assert pens == 3\n",
        # Options of plugins that are not there.
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--cov -n 3"\n',
    }
    project = arranged(tmp_path / "shop", files, packages=["shop-plugin"])
    assert project.environment.variables["PYTEST_PLUGINS"] == "shop_plugin"
    tree = project.source.files
    config = with_environment(SandboxConfig(), project.environment, tree)
    variables = with_project_options(
        config.environment, read_project_options(tree, project.test_paths)
    )
    with open_sandbox(config.model_copy(update={"environment": variables})) as sandbox:
        sandbox.write_files(tree)
        plain = sandbox.run(Command([sandbox.python, "-m", "pytest", "-q"]))
        assert plain.exit_code == 0, plain.output
        run = run_job(sandbox, PytestJob(["test_shop.py"]), 60)
        assert list(statuses(run.reports).values()) == [TestStatus.PASSED]
        debugger = open_debugger("python", sandbox, DebugLimits())
        started = debugger.start(Launch("test_shop.py::test_it"))
        assert (started.file, started.line) == ("test_shop.py", 2), started
        debugger.close()


def test_a_project_comes_from_one_place() -> None:
    assert ProjectConfig.model_validate("toolz") == ProjectConfig(pypi="toolz")
    with pytest.raises(ValidationError, match="exactly one of pypi, git and folder"):
        ProjectConfig(pypi="toolz", folder=".")
    with pytest.raises(ValidationError, match="revision is for git"):
        ProjectConfig(pypi="toolz", revision="main")
