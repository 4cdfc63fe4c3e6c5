"""What is read of a project's pytest options."""

from __future__ import annotations

import shlex

import pytest

from sandbox.languages.python.pytest_options import (
    ADDOPTS,
    Option,
    ProjectOptions,
    read_project_options,
    read_words,
    with_project_options,
)

ALL = (
    "-ra -n 4 --dist loadfile --cov=acme --cov-report term-missing --import-mode=importlib "
    "-p acme.plugin -p no:cacheprovider --ds=acme.settings -m 'not slow' --doctest-modules "
    "--timeout 30 --pdb -p xdist.plugin --strict-markers tests"
)
KEPT = (
    "-ra --import-mode=importlib -p acme.plugin -p no:cacheprovider --ds=acme.settings "
    "-m 'not slow' --doctest-modules"
)
LEFT_OUT = (
    *("-n 4", "--dist loadfile", "--cov=acme", "--cov-report term-missing", "--timeout 30"),
    *("--pdb", "-p xdist.plugin", "--strict-markers", "tests"),
)


def read(files: dict[str, str], *tests: str) -> ProjectOptions:
    data = {path: text.encode() for path, text in files.items()}
    return read_project_options({"tests/test_a.py": b"", **data}, tests or ("tests/test_a.py::t",))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", f"[pytest]\naddopts = {ALL}\n"),
        ("tox.ini", f"[tox]\nenvlist = py\n[pytest]\naddopts =\n    {ALL}\n"),
        ("setup.cfg", f"[metadata]\nname = acme\n[tool:pytest]\naddopts = {ALL}\n"),
        ("pyproject.toml", f'[tool.pytest.ini_options]\naddopts = "{ALL}"\n'),
        ("pyproject.toml", f"[tool.pytest.ini_options]\naddopts = {shlex.split(ALL)!r}\n"),
        ("pyproject.toml", f"[tool.pytest]\naddopts = {shlex.split(ALL)!r}\n"),
        (".pytest.toml", f"[pytest]\naddopts = {shlex.split(ALL)!r}\n"),
    ],
)
def test_each_file_with_settings(file: str, text: str) -> None:
    options = read({file: text})
    assert options.file == file
    assert options.kept == tuple(shlex.split(KEPT))
    assert options.left_out == LEFT_OUT
    assert shlex.split(options.variable)[:1] == ["-o"]
    override = shlex.split(options.variable)[1]
    assert shlex.split(override.removeprefix("addopts=")) == shlex.split(KEPT)
    assert options.note == f"pytest options in {file}: {', '.join(LEFT_OUT)}"


def test_options_that_break_nothing_stay_with_pytest() -> None:
    options = read({"pytest.ini": "[pytest]\naddopts = -p acme -m 'not slow'\n"})
    assert (options.variable, options.note) == ("", "")


def test_the_first_file_above_the_tests_counts() -> None:
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-n 1"\n',
        "tox.ini": "[pytest]\naddopts = -n 2\n",
        "setup.cfg": "[metadata]\nname = x\n",
        "one/pytest.ini": "",
        "one/tests/test_a.py": "",
        "two/setup.cfg": "[tool:pytest]\naddopts = -n 3\n",
        "two/tests/test_a.py": "",
    }
    assert read(files).left_out == ("-n 1",)
    assert read(files, "one/tests/test_a.py::test_a").file == "one/pytest.ini"
    assert read(files, "two/tests").left_out == ("-n 3",)
    assert read(files, "one/tests/test_a.py", "two/tests/test_a.py").left_out == ("-n 1",)
    del files["pyproject.toml"], files["tox.ini"]
    assert read(files, "two/tests", "one/tests").left_out == ("-n 3",)
    assert read(files, "/etc", "../../etc/x.py::test").file == ""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options\n"),
        ("pyproject.toml", "x = " + "[" * 100_000),
        ("pyproject.toml", "[tool]\npytest = 3\n"),
        ("pytest.ini", "[pytest]\naddopts = 'no end\n"),
        ("pytest.ini", "addopts\n[[[\n"),
        ("setup.cfg", "\ufeff[tool:pytest"),
        ("pyproject.toml", "[tool.pytest]\naddopts = 3\nfilterwarnings = 4\n"),
        ("tox.ini", "[pytest]\naddopts = " + "--no x " * 100_000),
    ],
)
def test_odd_files_are_left_to_pytest(file: str, text: str) -> None:
    options = read({file: text})
    assert options.kept == ()
    assert shlex.split(options.variable) in ([], ["-o", "addopts="])


def test_what_makes_up_for_plugins_that_are_not_loaded() -> None:
    options = read({"pytest.toml": "[pytest]\nstrict = true\nfilterwarnings = ['error']\n"})
    assert "strict_config=false" in options.variable
    assert "ignore:Unknown config option" in options.variable
    assert "Unknown" in read({"pytest.ini": "[pytest]\naddopts = -W error\n"}).variable
    assert not read({"pytest.ini": "[pytest]\nfilterwarnings = ignore\n"}).variable


def test_variables_that_set_addopts_stay() -> None:
    files = {"pytest.ini": b"[pytest]\naddopts = -n 4\n"}
    stored = {ADDOPTS: "-o addopts= -k x", "A": "1"}
    options = read_project_options(files, ["test_a.py"])
    assert with_project_options(stored, options) == stored
    found = with_project_options({ADDOPTS: "-k x"}, options)
    assert shlex.split(found[ADDOPTS]) == ["-o", "addopts=", "-k", "x"]
    assert with_project_options({}, read_project_options({"a.py": b""}, ["test_a.py"])) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-k 'a b' x.py", [("-k", "a b"), "x.py"]),
        ("-kab -n4 -xvs x.py", [("-kab",), ("-n4",), ("-xvs",), "x.py"]),
        ("--cov x/y.py", [("--cov", "x/y.py")]),
        ("--cov --pdb x/y.py", [("--cov",), ("--pdb",), "x/y.py"]),
        ("--acme value x.py", [("--acme", "value"), "x.py"]),
        ("--acme x.py", [("--acme",), "x.py"]),
        ("-m -x --acme", [("-m", "-x"), ("--acme",)]),
        ("--pyargs acme.tests -", [("--pyargs",), "acme.tests", "-"]),
    ],
)
def test_words_of_a_command(text: str, words: list[str | tuple[str, ...]]) -> None:
    read = list(read_words(shlex.split(text), lambda word: word.endswith(".py")))
    assert [word.words if isinstance(word, Option) else word for word in read] == words
