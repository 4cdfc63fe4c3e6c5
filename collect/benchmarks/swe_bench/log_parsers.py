"""Test logs of SWE-bench's repositories, read as upstream reads them.

Scores are compared with those that others publish, so upstream's rules are kept, the places where
two runners write alike and mean different things included. That is why a verdict is read from a
log here, which the program under test can write to as well; `confirming` asks pytest itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from collect.benchmarks.base import TestStatus
from collect.benchmarks.swe_bench.log_parsers_java import parse_ant, parse_gradle, parse_maven

Statuses = dict[str, TestStatus]
LogParser = Callable[[str], Statuses]

WORDS = {
    "PASSED": TestStatus.PASSED,
    "XFAIL": TestStatus.PASSED,
    "FAILED": TestStatus.FAILED,
    "ERROR": TestStatus.FAILED,
    "SKIPPED": TestStatus.SKIPPED,
}
"""pytest's words; an expected failure counts as a pass."""
SKIP_COUNT = re.compile(r"\[\d+\]$")
"""Of `SKIPPED [3] file:line: reason`, which names no test."""
COLOUR = re.compile(r"\[\d+m")
CONTROL = dict.fromkeys(range(1, 32))
OPTION = re.compile(r"(?P<test>.*?)\[(?P<option>.*)\]")
DJANGO_ENDS = {
    "ok": TestStatus.PASSED,
    "OK": TestStatus.PASSED,
    "FAIL": TestStatus.FAILED,
    "ERROR": TestStatus.FAILED,
}
DJANGO_HEADS = ("FAIL:", "ERROR:")
DJANGO_VERSION = "--version is equivalent to version"
DJANGO_MIGRATION = "Applying sites.0002_alter_domain_unique...test_no_migrations"
# What a test prints between its name and its result may be several lines long.
DJANGO_INTERRUPTED = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(.*?)\s\.\.\.\sTesting against Django installed in (?s:.*?) silenced\)\.\nok$",
        r"^(.*?)\s\.\.\.\sInternal Server Error: /.*/\nok$",
        r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
    )
]
SYMPY_FAILURE = re.compile(r"_* (.*)\.py:(.*) _*")
SYMPY_ENDS = {"ok": TestStatus.PASSED, "F": TestStatus.FAILED, "E": TestStatus.FAILED}


def parse_pytest(log: str) -> Statuses:
    """The summary of `pytest -rA`: a status and a node id a line."""
    return {words[1]: status for status, words in _summary(log)}


def parse_pytest_options(log: str) -> Statuses:
    """The same, where a parameter that is an absolute path is named by its last part."""
    return {_short_option(words[1]): status for status, words in _summary(log)}


def parse_pytest_v2(log: str) -> Statuses:
    """With colours and ids that have blanks; also lines that end with the status, as older
    versions and `-v` write them."""
    statuses: Statuses = {}
    for raw in log.split("\n"):
        line = COLOUR.sub("", raw).translate(CONTROL)
        if line.startswith("FAILED"):
            # What follows is the assertion's message.
            line = line.split(" - ", 1)[0]
        words = line.split()
        if len(words) < 2:
            continue
        if any(line.startswith(word) for word in WORDS):
            if words[0] in WORDS and not _counts_skips(words):
                statuses[" ".join(words[1:])] = WORDS[words[0]]
        elif words[-1] in WORDS and line.endswith(words[-1]):
            statuses[" ".join(words[:-1])] = WORDS[words[-1]]
    return statuses


def parse_matplotlib(log: str) -> Statuses:
    """pytest's summary, where an enumeration stands in ids by its name in some versions."""
    return parse_pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def parse_seaborn(log: str) -> Statuses:
    """Failures and passes alone, the latter with the status before or after the id."""
    statuses: Statuses = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith("FAILED"):
            statuses[words[1]] = TestStatus.FAILED
        elif " PASSED " in line and words[1] == "PASSED":
            statuses[words[0]] = TestStatus.PASSED
        elif line.startswith("PASSED"):
            statuses[words[1]] = TestStatus.PASSED
    return statuses


def parse_sympy(log: str) -> Statuses:
    """`test_x ok` a line, and a heading for each failure's traceback."""
    statuses = {f"{file}.py:{test}": TestStatus.FAILED for file, test in SYMPY_FAILURE.findall(log)}
    for line in map(str.strip, log.split("\n")):
        name, _, end = line.rpartition(" ")
        if line.startswith("test_") and name and end in SYMPY_ENDS:
            statuses[name.split()[0]] = SYMPY_ENDS[end]
    return statuses


def parse_django(log: str) -> Statuses:
    """unittest's verbose output: `test (module.Class) ... ok`, where the end may come late."""
    statuses: Statuses = {}
    current: str | None = None
    for line in map(str.strip, log.split("\n")):
        if DJANGO_VERSION in line:
            statuses[DJANGO_VERSION] = TestStatus.PASSED
        if " ... " in line:
            current = line.split(" ... ")[0]
        statuses.update(_django_results(line))
        if line.startswith("ok") and current is not None:
            statuses[current] = TestStatus.PASSED
    for pattern in DJANGO_INTERRUPTED:
        statuses.update({found[1]: TestStatus.PASSED for found in pattern.finditer(log)})
    return statuses


def _django_results(line: str) -> Iterator[tuple[str, TestStatus]]:
    """What one line says of a test by itself."""
    for end, status in DJANGO_ENDS.items():
        for sign in (f" ... {end}", f" ...  {end}") if end == "OK" else (f" ... {end}",):
            if line.endswith(sign):
                text = line
                if status is TestStatus.PASSED and line.startswith(DJANGO_MIGRATION):
                    text = line.split("...", 1)[-1].strip()
                yield text.rsplit(sign, 1)[0], status
    if " ... skipped" in line:
        yield line.split(" ... skipped", maxsplit=1)[0], TestStatus.SKIPPED
    words = line.split()
    if line.startswith(DJANGO_HEADS) and len(words) > 1:
        yield words[1], TestStatus.FAILED


def _summary(log: str) -> Iterator[tuple[TestStatus, list[str]]]:
    """The lines that begin with a status, as words."""
    for line in log.split("\n"):
        words = line.split()
        named = len(words) > 1 and line.startswith(words[0]) and words[0] in WORDS
        if named and not _counts_skips(words):
            yield WORDS[words[0]], words


def _counts_skips(words: list[str]) -> bool:
    return words[0] == "SKIPPED" and SKIP_COUNT.match(words[1]) is not None


def _short_option(test: str) -> str:
    found = OPTION.search(test)
    if found is None:
        return test
    option = found["option"]
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.rpartition("/")[2]
    return f"{found['test']}[{option}]"


_OF_REPOSITORIES: Mapping[LogParser, str] = {
    parse_pytest: "astroid flask marshmallow pvlib pyvista sqlfluff xarray",
    parse_pytest_options: "pydicom requests pylint",
    parse_pytest_v2: "astropy scikit sphinx",
}
LOG_PARSERS: Mapping[str, LogParser] = {
    "pytest": parse_pytest,
    "pytest_options": parse_pytest_options,
    "pytest_v2": parse_pytest_v2,
    "django": parse_django,
    "matplotlib": parse_matplotlib,
    "seaborn": parse_seaborn,
    "sympy": parse_sympy,
    "maven": parse_maven,
    "ant": parse_ant,
    "gradle_custom": parse_gradle,
    **{name: parser for parser, names in _OF_REPOSITORIES.items() for name in names.split()},
}
"""By upstream's name, `parse_log_` left out."""
