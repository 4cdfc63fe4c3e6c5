"""Reading what a launch names."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from sandbox.languages.python.targets import TargetError, in_repository, parse_target

READ = {
    "tests/test_a.py::test_b": ("pytest", ("tests/test_a.py::test_b",)),
    "tests/test_a.py::T::test_b[x y-'z']": ("pytest", ("tests/test_a.py::T::test_b[x y-'z']",)),
    "python -m pytest -q tests/test_a.py::test_b[a b]": (
        "pytest",
        ("tests/test_a.py::test_b[a b]",),
    ),
    "pytest -x tests -k 'one and two'": ("pytest", ("tests", "-k", "one and two")),
    "tests/test_a.py": ("pytest", ("tests/test_a.py",)),
    "tests/": ("pytest", ("tests/",)),
    "a.b.C.test_d": ("name", ("a.b.C.test_d",)),
    "python3 -m unittest -v tests/test_a.py": ("unittest", ("tests.test_a",)),
    "my tests/test_a.py::T::test_b": ("pytest", ("my tests/test_a.py::T::test_b",)),
    "my tests/test_a.py::test_b[x y]": ("pytest", ("my tests/test_a.py::test_b[x y]",)),
    "tests/test_ä.py::test_é[ü [☃] b.py::c d]": (
        "pytest",
        ("tests/test_ä.py::test_é[ü [☃] b.py::c d]",),
    ),
    "pytest -x 'my tests/test_a.py::test_b[a b]' \"c d/e.py::f\"": (
        "pytest",
        ("my tests/test_a.py::test_b[a b]", "c d/e.py::f"),
    ),
    "my tests/test_a.py": ("pytest", ("my tests/test_a.py",)),
    "a.py::b c.py::d": ("pytest", ("a.py::b", "c.py::d")),
    "run.py --fast tests/x.py": ("script", ("run.py", "--fast", "tests/x.py")),
    "python -m unittest": ("unittest", ("discover",)),
    "python -m unittest -v -k one": ("unittest", ("discover", "-k", "one")),
    "python -m unittest -k one tests.test_a -f": ("unittest", ("tests.test_a", "-k", "one")),
    "python -m unittest discover -s tests -p 'check_*.py' -t .": (
        "unittest",
        ("discover", "-s", "tests", "-p", "check_*.py", "-t", "."),
    ),
    "pytest a.py::b -p acme --ds x -n 4 --tb short": (
        "pytest",
        ("a.py::b", "-p", "acme", "--ds", "x"),
    ),
    "a/b.py::a.b.C.d": ("pytest", ("a/b.py::a.b.C.d", "--doctest-modules")),
    "docs/a.rst::a.rst": ("pytest", ("docs/a.rst::a.rst", "--doctest-glob=*a.rst")),
    "tests/test_a.py -k one": ("pytest", ("tests/test_a.py", "-k", "one")),
    "test_b": ("name", ("test_b",)),
    "run.py --fast 'a b'": ("script", ("run.py", "--fast", "a b")),
    "/usr/bin/python3.11 -u run.py": ("script", ("run.py",)),
    "test_io.py < input": ("script", ("test_io.py", "<", "input")),
    "python -m app.main x": ("module", ("app.main", "x")),
    "python -W error -X dev -m app.main": ("module", ("app.main",)),
    "pytest": ("pytest", ()),
    "python3.12 -m pytest -x": ("pytest", ()),
    "pytest -k one": ("pytest", ("-k", "one")),
    ".venv/bin/pytest a.py::b": ("pytest", ("a.py::b",)),
    "uv run pytest a.py::b": ("pytest", ("a.py::b",)),
    "uv run --with pytest -p 3.12 --frozen -- pytest a.py::b": ("pytest", ("a.py::b",)),
    "uv run -m pytest a.py::b[c d]": ("pytest", ("a.py::b[c d]",)),
    "uv run tests/test_a.py": ("pytest", ("tests/test_a.py",)),
    "poetry run python -m unittest tests.test_a": ("unittest", ("tests.test_a",)),
    "pdm run pytest tests": ("pytest", ("tests",)),
    "hatch run test.py3.12:pytest tests": ("pytest", ("tests",)),
    "pipenv run run.py --fast": ("script", ("run.py", "--fast")),
    "coverage run --branch --source acme -m pytest a.py": ("pytest", ("a.py",)),
    "python -m coverage run -m unittest tests.test_a": ("unittest", ("tests.test_a",)),
    "tox -e py312 -- tests/test_a.py -k x": ("pytest", ("tests/test_a.py", "-k", "x")),
    "nox -s tests -- a.py::b": ("pytest", ("a.py::b",)),
    "hatch test tests/test_a.py": ("pytest", ("tests/test_a.py",)),
    "uvx --with a pytest a.py": ("pytest", ("a.py",)),
    "python -W error -X dev -Wignore::UserWarning -m pytest a.py": (
        *("pytest", ("a.py", "-W", "error", "-W", "ignore::UserWarning")),
    ),
    "coverage reports/test_a.py": ("pytest", ("coverage reports/test_a.py",)),
    "cd core && python -m pytest tests/test_a.py -k x": (
        *("pytest", ("core/tests/test_a.py", "-k", "x")),
    ),
    "cd ./core/; A=1 pytest ../a.py::test_b[c d]": ("pytest", ("a.py::test_b[c d]",)),
    "cd core && pytest": ("pytest", ("core/",)),
    "cd core && tests/test_a.py": ("pytest", ("core/tests/test_a.py",)),
    "cd . && run.py --fast": ("script", ("run.py", "--fast")),
    "python -m django test --settings=a.settings a.test_b.C.test_d": (
        "name",
        ("a.test_b.C.test_d",),
    ),
    "python manage.py test a.test_b.C": ("name", ("a.test_b.C",)),
    "python manage.py test": ("script", ("manage.py", "test")),
    "python -m django test a.b c.d": ("module", ("django", "test", "a.b", "c.d")),
}


@pytest.mark.parametrize("text", READ)
def test_targets(text: str) -> None:
    target = parse_target(text)
    assert (target.kind, (*target.names, *target.options)) == READ[text]


def test_options_that_break_a_session_are_named() -> None:
    target = parse_target("pytest tests -x --lf -n 4 --randomly-seed 3 -k x")
    assert target.options == ("-k", "x")
    assert target.left_out == ("--lf", "-n 4", "--randomly-seed 3")


NOTHING = ("", "python -c 'print(1)'", "two words", "-m", "python", "uv run", "A=1", "env -u A")


@pytest.mark.parametrize("text", [*NOTHING, "uv run --env-file a pytest", "nox -s tests"])
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(TargetError, match="give a pytest node id"):
        parse_target(text)


def test_what_runs_elsewhere_than_at_the_top() -> None:
    with pytest.raises(TargetError, match="test_a would run in core"):
        parse_target("cd core && python -m unittest tests.test_a")


def test_the_variables_of_a_command() -> None:
    target = parse_target("PYTHONPATH=. env A=1 B='x y' uv run pytest tests/test_a.py")
    assert target.variables == {"PYTHONPATH": ".", "A": "1", "B": "x y"}
    assert target.names == ("tests/test_a.py",)
    with pytest.raises(TargetError, match="PYTHONHASHSEED works only from the start of"):
        parse_target("PYTHONHASHSEED=0 pytest tests/test_a.py")
    with pytest.raises(TargetError, match=r"A=\$PWD needs a shell"):
        parse_target("A=$PWD pytest tests/test_a.py")


@pytest.mark.parametrize("part", [":", "::", "a ", "'::", "[", "a.py::", " .py", "::[", "'a::b' "])
def test_odd_text_is_read_in_no_time(part: str) -> None:
    began = time.monotonic()
    with suppress(TargetError):
        parse_target(part * (4000 // len(part)))
    with suppress(TargetError):
        parse_target("[" + part * (3990 // len(part)))
    assert time.monotonic() - began < 2


def test_an_absurdly_long_test_is_refused_at_once() -> None:
    with pytest.raises(TargetError, match="200000 characters names no test"):
        parse_target("a" * 200_000)


FILES = (
    "tests/test_a.py",
    "tests/checks.py",
    "docs/use.rst",
    "lib/tests/test_b.py",
    "one/test_c.py",
    "two/test_c.py",
)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pytest tests/test_a.py::test_b -x -n 4 --cov=acme", "tests/test_a.py::test_b"),
        ("python -m pytest -q ./tests/test_a.py", "tests/test_a.py"),
        ("pytest /repo/tests/test_a.py -k 'x y'", "pytest tests/test_a.py -k 'x y'"),
        ("/repo/tests/test_a.py::test_b[/repo]", "tests/test_a.py::test_b[/repo]"),
        ("tests.test_a.T.test_b", "tests/test_a.py::T::test_b"),
        ("test_b.T", "lib/tests/test_b.py::T"),
        ("test_c.T", "test_c.T"),
        ("python -m unittest tests.test_a", "python -m unittest tests.test_a"),
        ("two words", "two words"),
        ("uv run pytest -k x", "pytest -k x"),
        ("env A='x y' uv run pytest tests/test_a.py", "A='x y' pytest tests/test_a.py"),
        ("tests", "tests/"),
        ("/repo/lib/tests", "lib/tests/"),
        ("pytest ./tests", "tests/"),
        ("docs/use.rst", "pytest docs/use.rst"),
        ("pytest docs/use.rst", "pytest docs/use.rst"),
        ("pytest tests/checks.py", "pytest tests/checks.py"),
        ("tests/checks.py", "tests/checks.py"),
        ("test_b", "test_b"),
        ("cd /repo && pytest tests/test_a.py -x", "tests/test_a.py"),
        ("cd /repo/lib && pytest tests/test_b.py::test_c", "lib/tests/test_b.py::test_c"),
    ],
)
def test_texts_in_a_repository(text: str, named: str) -> None:
    assert in_repository(text, FILES, "/repo") == named


def test_a_deep_dotted_name_is_read_in_no_time() -> None:
    files = [f"folder/test_{number}.py" for number in range(20_000)]
    began = time.monotonic()
    in_repository("a." * 1_900 + "b", files)
    assert time.monotonic() - began < 2
