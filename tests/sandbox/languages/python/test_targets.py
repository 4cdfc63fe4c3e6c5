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
}


@pytest.mark.parametrize("text", READ)
def test_targets(text: str) -> None:
    target = parse_target(text)
    assert (target.kind, (*target.names, *target.options)) == READ[text]


@pytest.mark.parametrize(
    "text",
    ["", "python -c 'print(1)'", "pytest", "two words", "-m", "python", "uv run pytest a.py::b"],
)
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(TargetError, match="give a pytest node id"):
        parse_target(text)


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


FILES = ("tests/test_a.py", "lib/tests/test_b.py", "one/test_c.py", "two/test_c.py")


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
        ("test_b", "test_b"),
    ],
)
def test_texts_in_a_repository(text: str, named: str) -> None:
    assert in_repository(text, FILES, "/repo") == named


def test_a_deep_dotted_name_is_read_in_no_time() -> None:
    files = [f"folder/test_{number}.py" for number in range(20_000)]
    began = time.monotonic()
    in_repository("a." * 1_900 + "b", files)
    assert time.monotonic() - began < 2
