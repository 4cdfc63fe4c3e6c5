"""What tests need that nothing declares."""

from __future__ import annotations

import pytest

from sandbox.languages.python.undeclared import read_undeclared

RUNNER = """\
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
"""


def test_setuptools_is_needed_by_who_imports_pkg_resources() -> None:
    files = {"shop/names.py": b"import os\n    from pkg_resources import working_set\n"}
    assert read_undeclared(files, ["attrs"]).packages == ("setuptools<67.5",)
    assert read_undeclared(files, ["setuptools"]).packages == ("setuptools<67.5",)
    assert read_undeclared(files, ["setuptools>=61"]).packages == ()
    assert read_undeclared({"setup.py": b"import pkg_resources\n"}, []).packages == ()
    assert read_undeclared({"a.py": b"# import pkg_resources\n"}, []).packages == ()


@pytest.mark.parametrize(
    ("files", "module"),
    [
        ({"runtests.py": RUNNER, "tests/settings.py": ""}, "tests.settings"),
        ({"manage.py": RUNNER, "tests/settings/__init__.py": ""}, "tests.settings"),
        (
            {
                "manage.py": 'os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"',
                "shop/settings.py": "",
                "runtests.py": RUNNER,
                "tests/settings.py": "",
            },
            "tests.settings",
        ),
        (
            {
                "tox.ini": "[testenv]\ncommands = python -m django test --settings=a.b\n",
                "a/b.py": "",
            },
            "a.b",
        ),
        (
            {"Makefile": "test:\n\tDJANGO_SETTINGS_MODULE=a.b django-admin test\n", "a/b.py": ""},
            "a.b",
        ),
        ({"tox.ini": "[testenv]\ncommands = serve --settings=a.b\n", "a/b.py": ""}, None),
        ({"runtests.py": RUNNER}, None),
        ({"example/manage.py": RUNNER, "tests/settings.py": ""}, None),
        ({"manage.py": RUNNER, "tests/settings.py": "", "conftest.py": "import django"}, None),
    ],
)
def test_djangos_settings_are_those_of_the_projects_script(
    files: dict[str, str], module: str | None
) -> None:
    needed = read_undeclared({path: text.encode() for path, text in files.items()}, [])
    assert needed.variables.get("DJANGO_SETTINGS_MODULE") == module
    assert needed.packages == (("pytest-django",) if module else ())


def test_a_project_with_pytest_django_has_its_settings() -> None:
    files = {"manage.py": RUNNER.encode(), "tests/settings.py": b""}
    assert read_undeclared(files, ["pytest-django>=4"]).variables == {}


def test_variables_of_toxs_environments() -> None:
    tox = b"""\
[testenv]
setenv =
    SHOP_BACKEND = dummy
    cov: SHOP_COVERAGE = 1
    DATA={toxinidir}/data
    PYTHONPATH = elsewhere
    LD_PRELOAD = evil.so
[testenv:py{310,311}{,-fast}]
set_env = SHOP_DEBUG=1
[testenv:docs]
setenv = SHOP_DOCS=1
"""
    found = read_undeclared({"tox.ini": tox}, []).variables
    assert found == {"SHOP_BACKEND": "dummy", "SHOP_DEBUG": "1"}
    toml = b'[tool.tox.env_run_base]\nset_env = { SHOP = "x y", HOME = "/", N = 1 }\n'
    assert read_undeclared({"pyproject.toml": toml}, []).variables == {"SHOP": "x y"}
    legacy = b'[tool.tox]\nlegacy_tox_ini = """\n[testenv]\nsetenv = SHOP=1\n"""\n'
    assert read_undeclared({"pyproject.toml": legacy}, []).variables == {"SHOP": "1"}


@pytest.mark.parametrize(
    "part", [b" ", b"environ[", b"import pkg_resources ", b"A = ", b"\t", b"django --settings "]
)
def test_odd_text_is_read_in_no_time(part: bytes) -> None:
    text = part * (1_000_000 // len(part))
    names = ("a.py", "runtests.py", "tox.ini", "pyproject.toml")
    read_undeclared(dict.fromkeys(names, b"[testenv]\nsetenv = " + text), [])
