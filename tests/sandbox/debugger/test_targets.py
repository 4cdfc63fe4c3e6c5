"""Reading what a launch names."""

from __future__ import annotations

import pytest

from sandbox.debugger.targets import TargetError, parse_target

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
    "a.b.C.test_d": ("unittest", ("a.b.C.test_d",)),
    "python3 -m unittest -v tests/test_a.py": ("unittest", ("tests.test_a",)),
    "test_b": ("name", ("test_b",)),
    "run.py --fast 'a b'": ("script", ("run.py", "--fast", "a b")),
    "/usr/bin/python3.11 -u run.py": ("script", ("run.py",)),
    "test_io.py < input": ("script", ("test_io.py", "<", "input")),
    "python -m app.main x": ("module", ("app.main", "x")),
}


@pytest.mark.parametrize("text", READ)
def test_targets(text: str) -> None:
    target = parse_target(text)
    assert (target.kind, target.names) == READ[text]


@pytest.mark.parametrize(
    "text", ["", "python -c 'print(1)'", "pytest", "two words", "-m", "python"]
)
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(TargetError, match="give a pytest node id"):
        parse_target(text)


def test_an_absurdly_long_test_is_refused_at_once() -> None:
    with pytest.raises(TargetError, match="200000 characters names no test"):
        parse_target("a" * 200_000)
