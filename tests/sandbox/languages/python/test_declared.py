from __future__ import annotations

import time
from pathlib import Path

import pytest

from sandbox.languages.python.declared import read_declared
from sandbox.languages.python.interpreters import choose_python
from sandbox.languages.python.metadata import own_metadata
from sandbox.languages.python.project_files import (
    own_name,
    read_setup_py,
)
from sandbox.languages.python.projects import read_needs
from tests.sandbox.languages.python.conftest import cache, tree

__all__ = ["cache"]

PLACES = {
    "PEP 621": {
        "pyproject.toml": """
            [project]
            name = "shop"
            dependencies = ["attrs", "tomli ; python_version < '3.11'", "pywin32 ; os_name == 'nt'"]
            [project.optional-dependencies]
            test = ["shop[fast]", "hypothesis", "ruff"]
            fast = ["uvloop"]
            docs = ["sphinx-theme"]
        """
    },
    "dependency groups": {
        "pyproject.toml": """
            [project]
            name = "shop"
            dependencies = ["attrs"]
            [dependency-groups]
            dev = [{ include-group = "more" }, "uvloop", { other = "x" }]
            more = ["hypothesis", { include-group = "dev" }]
            docs = ["sphinx-theme"]
        """
    },
    "Poetry": {
        "pyproject.toml": """
            [tool.poetry]
            name = "shop"
            [tool.poetry.dependencies]
            python = "^3.9"
            attrs = "*"
            near = { path = "../near" }
            uvloop = { version = "*", optional = true }
            [tool.poetry.extras]
            testing = ["uvloop"]
            [tool.poetry.group.test.dependencies]
            hypothesis = "*"
            [tool.poetry.group.docs.dependencies]
            sphinx-theme = "^1.0"
        """
    },
    "PDM": {
        "pyproject.toml": """
            [project]
            name = "shop"
            dependencies = ["attrs"]
            [tool.pdm.dev-dependencies]
            test = ["hypothesis"]
            dev = ["uvloop", "-e file:///near"]
        """
    },
    "uv": {
        "pyproject.toml": """
            [project]
            name = "shop"
            dependencies = ["attrs"]
            [tool.uv]
            dev-dependencies = ["hypothesis", "uvloop"]
        """
    },
    "Hatch": {
        "pyproject.toml": """
            [project]
            name = "shop"
            dependencies = ["attrs"]
            [project.optional-dependencies]
            fast = ["uvloop"]
            [tool.hatch.envs.hatch-test]
            extra-dependencies = ["hypothesis", "near @ {root:uri}/near"]
            features = ["fast"]
        """
    },
    "hatch.toml": {
        "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["attrs"]\n',
        "hatch.toml": '[envs.default]\ndependencies = ["hypothesis", "uvloop"]\n',
    },
    "setup.cfg": {
        "setup.cfg": """
[metadata]
name = shop
[options]
install_requires =
    attrs
[options.extras_require]
test =
    hypothesis
    uvloop
docs = sphinx-theme
"""
    },
    "setup.py": {
        "setup.py": """
from setuptools import setup
fast = ["uvloop"]
NEEDED = ["attrs"]
with open("README") as file:
    long = file.read()
setup(
    "ignored",
    name="shop",
    long_description=long,
    install_requires=NEEDED,
    extras_require={"test": ["hypothesis"] + fast, ":os_name == 'nt'": ["pywin32"]},
)
"""
    },
    "tox": {
        "setup.cfg": "[metadata]\nname = shop\n[options]\ninstall_requires = attrs\n"
        "[options.extras_require]\nfast = uvloop\n",
        "tox.ini": """
[tox]
envlist = py3
[testenv]
deps =
    -r {toxinidir}/needed/tests.txt
    pytest-cov
    {posargs}
extras = fast
[testenv:docs]
deps = sphinx-theme
""",
        "needed/tests.txt": "hypothesis\n",
    },
    "Pipfile": {
        "Pipfile": '[packages]\nattrs = "*"\n[dev-packages]\nhypothesis = "*"\n'
        'uvloop = { version = "*" }\nnear = { git = "https://example.org/near" }\n'
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_where_projects_say_what_they_need(place: str) -> None:
    files = {path: text.encode() for path, text in PLACES[place].items()}
    declared = read_declared(files)
    assert declared.requires == ("attrs",)
    assert sorted(declared.test_requires) == ["hypothesis", "uvloop"]


def test_versions_as_poetry_writes_them() -> None:
    pyproject = """
        [tool.poetry.dependencies]
        a = "^1.2"
        b = { version = "~2.3", extras = ["x"] }
        c = [{ version = "1.0", python = "<3" }, { version = "2.0", python = ">=3" }]
        d = 3
    """
    declared = read_declared({"pyproject.toml": pyproject.encode()})
    assert declared.requires == ("a<2.0,>=1.2", "b[x]<2.4,>=2.3", "c==2.0")


def test_the_version_of_python_decides() -> None:
    files = {"requirements.txt": b"tomli ; python_version < '3.11'\nold ; python_version < '3.9'\n"}
    assert read_declared(files, "3.10").requires == ("tomli",)
    assert read_declared(files, "3.8.1").requires == ("tomli", "old")


def test_of_what_only_some_environments_of_tox_have_any_version_will_do() -> None:
    tox = "[testenv]\ndeps =\n    dj4: Django>=4,<5\n    dj5: Django>=5\n    py38,py39: attrs\n"
    assert read_declared({"tox.ini": tox.encode()}).test_requires == ("attrs", "django")


@pytest.mark.parametrize(
    "marker",
    [
        *('os_name ~= "abc"', '"a" == "b"', '"x" in dependency_groups'),
        "(" * 3000 + 'os_name == "posix"' + ")" * 3000,
    ],
)
def test_a_marker_that_means_nothing_does_not_hold(marker: str) -> None:
    lines = f"Requires-Dist: attrs; {marker}\nRequires-Dist: idna\n"
    assert read_declared({"PKG-INFO": lines.encode()}).requires == ("idna",)


@pytest.mark.parametrize("value", ["[" * 5000, "9" * 5000])
def test_toml_that_can_t_be_read_says_nothing(value: str) -> None:
    assert read_declared({"pyproject.toml": f"a = {value}".encode()}).requires == ()


MEGABYTE = 1_000_000
SLOW = {
    "options": ("requirements.txt", "-r" + "=" * MEGABYTE + "x y\n"),
    "lines": ("requirements.txt", "".join(f"a{n}\n" for n in range(100_000))),
    "pytest": ("requirements.txt", "pytest\n" * 100_000),
    "gaps": ("setup.cfg", "[options]\na" + " " * MEGABYTE + "b\n"),
    "parts": ("pyproject.toml", "a." * (MEGABYTE // 2) + "a = 1\n"),
    "quoted parts": ("pyproject.toml", "[" + "'a' . " * (MEGABYTE // 6) + "a]\n"),
    "code": ("setup.py", "[" + "1," * MEGABYTE + "]"),
    "members": (
        "pyproject.toml",
        f"[tool.uv.workspace]\nmembers = {[f'x{n}*' for n in range(50_000)]}\n",
    ),
    "groups": (
        "pyproject.toml",
        "[dependency-groups]\n"
        + "".join(f"test-{n} = ['x']\n" for n in range(5000))
        + "".join(f"[tool.hatch.envs.test-{n}]\n" for n in range(5000)),
    ),
    "markers": (
        "pyproject.toml",
        "[tool.poetry.dependencies]\na.markers = '"
        + " and ".join(f'(python_version > "3.{n}" or os_name == "x")' for n in range(18))
        + "'\n",
    ),
}


@pytest.mark.parametrize("kind", SLOW)
def test_nothing_is_read_for_long(kind: str) -> None:
    name, text = SLOW[kind]
    others = {f"p{n}/setup.py": b"" for n in range(500)}
    locked = b"".join(b"a%d==1\n" % n for n in range(4000))
    started = time.process_time()
    read_needs({name: text.encode(), "requirements.lock": locked, **others})
    assert time.process_time() - started < 15


LONG_NUMBER = "1" * 5000
"""Python refuses to read it."""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", f"pytest>={LONG_NUMBER}"),
        ("requirements.txt", f"a; python_version > '{LONG_NUMBER}'"),
        ("poetry.lock", f"[[package]]\nname = 'a'\nversion = '{LONG_NUMBER}'"),
        (
            "pyproject.toml",
            f"[project]\nname = 'a'\nversion = '1'\nrequires-python = '>={LONG_NUMBER}'",
        ),
        ("pyproject.toml", f"[project]\nname = 'a'\nversion = '{LONG_NUMBER}'"),
        ("pyproject.toml", f"[tool.poetry.dependencies]\npython = '^{LONG_NUMBER}'"),
    ],
)
def test_a_number_without_end_says_nothing(name: str, text: str, cache: Path) -> None:
    files = {name: text.encode()}
    assert read_needs(files).requires == ()
    assert choose_python(files).version is None
    assert own_metadata(files).distributed == {}


HOSTILE = {
    "code": "import os\nos.mkdir('ran')\nsetup(name=os.getcwd(), install_requires=[open('x')])\n",
    "doubled": "a = ['x']\n" + "a = a + a\n" * 60 + "setup(install_requires=a)\n",
    "nested": "setup(install_requires=" + "(" * 150 + ")" * 150 + ")",
    "no Python": "setup(",
    "no text": "\0\xff",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_setup_py_runs(kind: str) -> None:
    assert "name" not in read_setup_py({"setup.py": HOSTILE[kind].encode()})


def test_groups_that_include_each_other_without_end() -> None:
    groups = [
        f'g{n} = [{{ include-group = "g{n + 1}" }}, {{ include-group = "g{n + 1}" }}]\n'
        for n in range(60)
    ]
    pyproject = f"[dependency-groups]\n{''.join(groups)}g60 = ['idna']\n".replace("g0 ", "test ")
    assert read_declared({"pyproject.toml": pyproject.encode()}).test_requires == ("idna",)


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": "[project]\nname = 'shop'\n"},
        {"pyproject.toml": "[tool.poetry]\nname = 'shop'\n"},
        {"pyproject.toml": "[tool.flit.metadata]\nmodule = 'shop'\n"},
        {"setup.cfg": "[metadata]\nname = shop\n"},
        {"setup.py": "NAME = 'shop'\nsetuptools.setup(name=NAME)\n"},
    ],
)
def test_the_projects_own_name(files: dict[str, str]) -> None:
    assert own_name({path: text.encode() for path, text in files.items()}) == "shop"


def test_the_pytest_of_a_lock_file_runs_the_tests() -> None:
    files = {
        "pyproject.toml": '[dependency-groups]\ntests = ["pytest"]\n',
        "uv.lock": '[[package]]\nname = "pytest"\nversion = "8.3.1"\n',
    }
    declared = read_declared(tree(files))
    assert (declared.test_requires, declared.constraints) == (("pytest",), ("pytest==8.3.1",))
    del files["uv.lock"]
    assert read_declared(tree(files)).test_requires == ()
