"""Language-specific terms in prompts and tool descriptions.

The values replace `{placeholders}` of the same names in `prompts/*.md` and in descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from collect.errors import ConfigError


@dataclass(frozen=True)
class Wording:
    """One language's examples."""

    glob: str
    location: str
    """A line to stop at."""
    test_id: str
    """The form of a test's name, and what else can be debugged."""
    exception: str
    run_tests: str
    """Runs the tests of one file."""
    test: str
    path: str
    """The file of the code that the test in the example runs."""

    def values(self) -> Mapping[str, str]:
        """By placeholder."""
        return asdict(self)


WORDINGS = {
    "python": Wording(
        glob="*.py",
        location="path/file.py:LINE",
        test_id="'tests/test_a.py::test_x', or a script",
        exception="KeyError",
        run_tests="python -m pytest -q tests/test_cart.py",
        test="tests/test_cart.py::test_total",
        path="shop/cart.py",
    ),
    "java": Wording(
        glob="*.java",
        location="path/File.java:LINE",
        test_id="'shop.CartTest#testTotal', or a main class",
        exception="NullPointerException",
        run_tests="mvn -q test -Dtest=CartTest",
        test="shop.CartTest#testTotal",
        path="src/main/java/shop/Cart.java",
    ),
}


def wording(language: str) -> Wording:
    """The examples for a language. Raises ConfigError for an unsupported one."""
    if language not in WORDINGS:
        raise ConfigError(
            f"the agents work on {' and '.join(sorted(WORDINGS))}, not on {language!r}"
        )
    return WORDINGS[language]
