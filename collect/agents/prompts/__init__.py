"""The prompts, one text file each, with `{name}` placeholders, and the language-specific terms that
replace some of these."""

import re
from collections.abc import Mapping
from importlib.resources import files as resources
from types import MappingProxyType

from collect.errors import ConfigError
from sandbox.java.project import GRADLE_FILES, SETTINGS_FILES


def prompt(name: str, **values: str) -> str:
    """The prompt `NAME.md` with its placeholders filled in. Other braces stay.

    A name may include a folder: `inspectcoder/task`.
    """
    text = resources(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return fill(text, values).strip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in; inserted text is not expanded again."""
    return re.sub(r"\{(\w+)\}", lambda mark: values.get(mark[1], mark[0]), text)


WORDINGS = {
    "python": {
        "glob": "*.py",
        "location": "path/file.py:LINE",
        "test_id": "'tests/test_a.py::test_x', or a script (one below /tmp can import from the "
        "repository root; in bash it needs PYTHONPATH=.)",
        "own_test_id": "'tests/test_a.py::test_x', or a script of the repository",
        "lambda": " ('build.<lambda>': all lambdas in build)",
        "exception": "KeyError",
        "run_tests": "python -m pytest -q tests/test_cart.py",
        "test": "tests/test_cart.py::test_total",
        "path": "shop/cart.py",
        "temporary_script": " (a script there needs PYTHONPATH=. to import the project)",
    },
    "java": {
        "glob": "*.java",
        "location": "path/File.java:LINE",
        "test_id": "'shop.CartTest#testTotal', or a main class",
        "own_test_id": "'shop.CartTest#testTotal', or a main class",
        "lambda": "",
        "exception": "NullPointerException",
        "run_tests": "mvn -q test -Dtest=CartTest",
        "test": "shop.CartTest#testTotal",
        "path": "src/main/java/shop/Cart.java",
        "temporary_script": "",
    },
}
"""Examples by language: how the files are called, a line to stop at, the form of a test's name and
what else can be debugged, the same for a client that can put no file into the sandbox, how a lambda
is named, an exception, how the tests of one file are run; a test, and the file of the code that it
runs; what a script outside the project needs."""


def wording(language: str, files: Mapping[str, bytes] = MappingProxyType({})) -> Mapping[str, str]:
    """The examples for a project with these files, by placeholder.

    Raises ConfigError for an unsupported language.
    """
    if language not in WORDINGS:
        raise ConfigError(
            f"the agents work on {' and '.join(sorted(WORDINGS))}, not on {language!r}"
        )
    by_gradle = "pom.xml" not in files and any(name in files for name in GRADLE_FILES)
    if language == "java" and by_gradle:
        # A module without the test would fail the build before the test's own is reached.
        modules = any(b"include" in files.get(name, b"") for name in SETTINGS_FILES)
        task = ":MODULE:test" if modules else "test"
        return {**WORDINGS[language], "run_tests": f"gradle {task} --tests shop.CartTest"}
    return WORDINGS[language]
