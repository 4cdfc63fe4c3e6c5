from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from collect.benchmarks.trees import write_folder
from collect.factory.config import FactoryConfig, ProjectConfig
from collect.factory.layout import arrange
from collect.factory.project import Project, ProjectRefused
from collect.factory.sources import fetch
from sandbox import SandboxConfig


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
    assert project.environment.variables == {"PYTEST_ADDOPTS": "-o addopts="}


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
    assert project.notes == ("pip can't install: no-such-package",)


def test_a_project_comes_from_one_place() -> None:
    assert ProjectConfig.model_validate("toolz") == ProjectConfig(pypi="toolz")
    with pytest.raises(ValidationError, match="exactly one of pypi, git and folder"):
        ProjectConfig(pypi="toolz", folder=".")
    with pytest.raises(ValidationError, match="revision is for git"):
        ProjectConfig(pypi="toolz", revision="main")
