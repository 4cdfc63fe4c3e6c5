"""Which interpreter and environment run the tests of a user's repository."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.local import LocalBenchmark
from collect.benchmarks.local_repository import LocalRepositoryBenchmark, open_session
from collect.benchmarks.opening import open_benchmark
from collect.errors import ConfigError
from sandbox import SandboxConfig
from sandbox.debugger import Action, Debugger
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.declared import read_declared
from sandbox.languages.python.interpreters import installed_interpreters, minor_of, own_version
from sandbox.packages import runner_python
from tests.sandbox.languages.python.environments import install, new_environment

TEST = "tests/test_shop.py::test_total"
FILES = {
    "src/shop/__init__.py": "def total(prices):\n    return sum(prices) + 1\n",
    "tests/test_shop.py": (
        "import sys\n\nimport shop\nimport shelf\n\n\ndef test_total(price):\n"
        "    assert shop.total([price]) == 1\n"
    ),
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\ndependencies = ["shelf"]\n',
}
PLUGIN = "import pytest\n\n\n@pytest.fixture\ndef price():\n    return 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with an editable install in its `.venv`, which also has a package and a plugin
    that no index has."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "shop"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    site_packages = new_environment(folder / ".venv")
    (site_packages / "shelf.py").write_text(PLUGIN)
    install(site_packages, "shelf", "[pytest11]\nshelf = shelf\n")
    about = install(site_packages, "shop")
    (about / "direct_url.json").write_text(f'{{"url": "file://{folder}"}}')
    (site_packages / "shop.pth").write_text(f"{folder}/src\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


def looked_at(folder: Path, **keys: Any) -> Instance:
    config = BenchmarkConfig(name="local", path=str(folder), **keys)
    benchmark = open_benchmark(config)
    assert isinstance(benchmark, LocalRepositoryBenchmark)
    return benchmark.installed(benchmark.look())


def value(debugger: Debugger, expression: str) -> str:
    return str(debugger.evaluate(expression))


def test_a_test_runs_in_the_users_own_environment_on_the_copy(folder: Path) -> None:
    instance = looked_at(folder)
    environment = instance.environment
    version = ".".join(map(str, sys.version_info[:3]))
    assert environment.folder == str(folder / ".venv")
    assert environment.python == minor_of(version)
    assert environment.packages == ()
    told = f"The tests run in {folder}/.venv, with CPython {version} and pytest"
    assert environment.runs()[0].startswith(told)
    with open_session(folder, TEST) as debugger:
        assert "/workspace/src/shop/__init__.py" in value(debugger, "shop.__file__")
        assert f"{folder}/.venv/lib" in value(debugger, "shelf.__file__")
        assert f"{folder}/.venv" in value(debugger, "sys.prefix")
        stop = debugger.control(Action.CONTINUE)
        assert "assert 2 == 1" in str(stop)


def test_what_is_installed_later_counts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner_python()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = FILES["tests/test_shop.py"]
    text += "\n\ndef test_more():\n    assert importlib.util.find_spec('more') is not None\n"
    text = f"import importlib.util\n{text}"
    (folder / "tests/test_shop.py").write_text(text)
    config = BenchmarkConfig(name="local", path=str(folder))
    (bug,) = open_benchmark(config).instances()
    assert bug.fail_to_pass == (TEST, TEST.replace("total", "more"))
    (site_packages,) = (folder / ".venv").glob("lib/python3*/site-packages")
    (site_packages / "more.py").touch()
    install(site_packages, "more")
    (again,) = open_benchmark(config).instances()
    assert again.fail_to_pass == (TEST,)
    # The bug is another one; that it has an environment on this machine is not part of it.
    elsewhere = replace(again, environment=replace(again.environment, folder=None))
    assert elsewhere.hash == again.hash


def test_an_environment_that_lacks_a_requirement_is_told(folder: Path) -> None:
    for path in (folder / ".venv").glob("lib/python3*/site-packages/shelf-1.0.dist-info"):
        path.rename(path.with_name("other-1.0.dist-info"))
    environment = looked_at(folder, packages=()).environment
    assert (environment.folder, environment.python) == (None, None)
    told = f"{folder}/.venv is not used: it lacks shelf, which the project requires"
    assert told in environment.notes
    assert f"The tests run in CPython {own_version()}." in environment.runs()


def test_a_setting_comes_before_the_users_environment(folder: Path) -> None:
    environment = looked_at(folder, python=own_version(), packages=()).environment
    assert (environment.folder, environment.python) == (None, own_version())
    config = BenchmarkConfig(name="local", path=str(folder), packages=())
    benchmark = open_benchmark(config, SandboxConfig(python=sys.executable))
    assert isinstance(benchmark, LocalRepositoryBenchmark)
    assert benchmark.installed(benchmark.look()).environment.folder is None
    with pytest.raises(ValueError, match="string_pattern_mismatch"):
        BenchmarkConfig(name="local", python=str(folder / "evil"))


def test_a_file_of_bugs_names_a_version_and_no_folder(folder: Path) -> None:
    line = (
        '{"id": "a", "repository": "shop", "problem_statement": "x", "fail_to_pass": ["%s"], '
        '"test_paths": ["tests"], "python": "3.9"%s}\n'
    )
    (folder.parent / "bugs.jsonl").write_text(line % (TEST, ""))
    (bug,) = LocalBenchmark(folder.parent).instances()
    assert (bug.environment.python, bug.environment.folder) == ("3.9", None)
    (folder.parent / "bugs.jsonl").write_text(line % (TEST, ', "folder": "/etc"'))
    with pytest.raises(ConfigError, match="folder"):
        LocalBenchmark(folder.parent).instances()


@pytest.mark.slow
def test_a_project_runs_in_a_version_that_it_allows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [minor_of(each) for each in installed_interpreters() if own_version() not in each]
    if not others:
        pytest.skip("there is one CPython here")
    monkeypatch.delenv("PIP_NO_INDEX")
    requires = f'requires-python = "=={others[0]}.*"\n'
    text = FILES["pyproject.toml"].partition("dependencies")[0] + requires
    (folder / "pyproject.toml").write_text(text)
    (folder / "tests/test_shop.py").write_text(
        "import shop\n\ndef test_total():\n    assert shop.total([1]) == 1\n"
    )
    try:
        environment = looked_at(folder).environment
        with open_session(folder, TEST) as debugger:
            assert others[0] in value(debugger, "__import__('sys').version")
    except SandboxUnavailable as error:
        pytest.skip(f"no index is reached: {error}")
    assert environment.python == others[0]
    assert environment.interpreter.startswith(f"CPython {others[0]}, since the project requires")
    assert any("is not used: it has Python" in note for note in environment.notes)


def test_the_pytest_that_a_project_asks_for_is_installed() -> None:
    def needed(requirement: str) -> tuple[str, ...]:
        text = f'[project]\nname = "shop"\n[dependency-groups]\ntest = ["{requirement}"]\n'
        return read_declared({"pyproject.toml": text.encode()}).test_requires

    assert needed("pytest<8") == ("pytest<8",)
    # StepInto's own one does.
    assert needed("pytest>=7") == ()
    assert needed("pytest @ https://example.org/pytest.whl") == ()


def test_classifiers_do_not_speak_against_the_users_environment(folder: Path) -> None:
    listed = 'classifiers = ["Programming Language :: Python :: 3.8"]\n'
    (folder / "pyproject.toml").write_text(FILES["pyproject.toml"] + listed)
    assert looked_at(folder).environment.folder == str(folder / ".venv")
