"""The CPythons of the machine, and what projects say of theirs."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.interpreters import (
    SUPPORTED,
    choose_python,
    find_version,
    installed_interpreters,
    known_executables,
    marker_environment,
    minor_of,
    own_version,
    required_python,
)

SETUP_CFG = "[metadata]\nclassifiers =\n    Programming Language :: Python :: 3.9\n"
SAID = {
    "PEP 621": ("pyproject.toml", '[project]\nrequires-python = ">=3.8,<3.11"'),
    "poetry's caret": ("pyproject.toml", '[tool.poetry.dependencies]\npython = ">=3.8, <3.11"'),
    "setup.cfg": ("setup.cfg", "[options]\npython_requires = >=3.8, !=3.11.*, <3.12\n"),
    "setup.py": ("setup.py", "from setuptools import setup\nsetup(python_requires='<3.11')\n"),
    "a constant": ("setup.py", "P = '>=3.8,<3.11'\nsetup(name='x', python_requires=P)\n"),
    "an sdist": ("PKG-INFO", "Metadata-Version: 2.1\nName: x\nRequires-Python: <3.11\n"),
    "classifiers": ("setup.cfg", SETUP_CFG),
}


@pytest.mark.parametrize(("name", "text"), SAID.values(), ids=SAID)
def test_what_a_project_requires(name: str, text: str) -> None:
    required = required_python({name: text.encode()})
    assert required is not None
    assert required.allows("3.9.18")
    assert not required.allows("3.11.7")


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused"),
    [
        ("^3.8", ["3.8.1", "3.13.0"], ["3.7.9", "4.0.0"]),
        ("~3.9", ["3.9.18"], ["3.8.1", "3.10.0"]),
        ("^3.9,<3.12", ["3.11.7"], ["3.12.1"]),
    ],
)
def test_constraints_of_poetry(constraint: str, allowed: list[str], refused: list[str]) -> None:
    text = f'[tool.poetry.dependencies]\npython = "{constraint}"\n'
    required = required_python({"pyproject.toml": text.encode()})
    assert required is not None
    assert [version for version in allowed + refused if required.allows(version)] == allowed


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("pyproject.toml", b"[project\nrequires-python = 3"),
        ("pyproject.toml", b'[project]\nrequires-python = "three"'),
        ("pyproject.toml", b"a = " + b"[" * 100_000),
        ("setup.cfg", b"no section"),
        ("setup.py", b"(" * 100_000),
        ("setup.py", b"import os\nos.abort()\nsetup(python_requires=os.name)\n"),
        ("PKG-INFO", b"\xff\xfe"),
    ],
)
def test_what_can_not_be_read_requires_nothing(name: str, data: bytes) -> None:
    assert required_python({name: data}) is None


def test_the_own_version_comes_first_then_the_nearest() -> None:
    def chosen(requires: str) -> str | None:
        text = f'[project]\nrequires-python = "{requires}"'
        return choose_python({"pyproject.toml": text.encode()}).version

    assert chosen(">=3.8") is None
    others = [minor_of(each) for each in installed_interpreters() if own_version() not in each]
    if not others:
        pytest.skip("there is one CPython here")
    minors = sorted(others, key=lambda each: abs(int(each[2:]) - int(own_version()[2:])))
    assert chosen(f"!={own_version()}.*") in minors[:2]


def test_what_no_interpreter_fits_is_told() -> None:
    told = choose_python({"setup.cfg": b"[options]\npython_requires = >=3.99\n"})
    assert told.version is None
    assert "requires Python >=3.99, and this machine has only" in told.note


def test_a_marker_sees_the_version_that_runs_the_tests() -> None:
    assert marker_environment(None) == marker_environment(own_version()) == {}
    marker = Requirement("tomli; python_version < '3.9' and python_full_version < '3.9'").marker
    assert marker is not None
    assert marker.evaluate(marker_environment("3.8"))
    assert not marker.evaluate(marker_environment("3.10"))


def test_no_script_and_nothing_of_the_current_folder_is_an_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims, tools, project = (tmp_path / name for name in ("shims", "tools", "project"))
    binary = Path(os.path.realpath(sys.executable)).read_bytes()
    for folder in (shims, tools, project / "tools", project / ".venv" / "bin"):
        folder.mkdir(parents=True)
        (folder / "python3").write_bytes(binary)
        (folder / "python3").chmod(0o755)
    (shims / "python3").write_text("#!/bin/sh\ntouch ran\n")
    (project / ".venv" / "pyvenv.cfg").touch()
    path = f"{shims}:{tools}:{project}/tools:tools:{project}/.venv/bin:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(project)
    known_executables.cache_clear()
    try:
        here = {each for each in known_executables() if Path(each).is_relative_to(tmp_path)}
        assert here == {str(tools / "python3")}
    finally:
        known_executables.cache_clear()


def test_a_version_that_is_not_there_is_refused_with_those_that_are() -> None:
    missing = next((each for each in SUPPORTED if find_version(each) is None), "3.99")
    with pytest.raises(SandboxUnavailable, match=f"no CPython {missing}, only .*{own_version()}"):
        open_sandbox(SandboxConfig(python_version=missing))


@pytest.mark.slow
@pytest.mark.parametrize("version", [each for each in SUPPORTED if each != own_version()])
def test_another_version_has_a_test_runner_of_its_own(version: str) -> None:
    if find_version(version) is None:
        pytest.skip(f"there is no CPython {version} here")
    code = "import sys, pytest, coverage; print(sys.version)"
    try:
        with open_sandbox(SandboxConfig(python_version=version)) as sandbox:
            assert sandbox.run(Command(["python", "-c", code])).output.startswith(f"{version}.")
            assert sandbox.run(Command(["pytest", "--version"])).exit_code == 0
    except SandboxUnavailable as error:
        pytest.skip(f"no index is reached: {error}")


def test_the_own_version_needs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with open_sandbox(SandboxConfig(python_version=own_version())) as sandbox:
        assert platform.python_version() in sandbox.run(Command(["python", "-V"])).output
