"""Parse the test logs of SWE-bench's repositories as upstream does.

Scores must be comparable with published ones, so upstream's rules are kept, even if two runners use
the same text for different things. That is why a verdict comes from a log, which the program under
test can also write to; `confirming` asks pytest itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from collect.benchmarks.base import TestStatus
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError
from sandbox.shell import scratch_folder

# Parse the test logs of SWE-bench's Java repositories as upstream does.


MAVEN_COMMAND = re.compile(r".*-Dtest=(\S+)")
MAVEN_END = re.compile(r".*BUILD (SUCCESS|FAILURE)$")
ANT_RESULT = re.compile(r"\s*\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)$")
GRADLE_RESULT = re.compile(r"([^>].+)\s+(PASSED|FAILED)$")
GRADLE_TEST = re.compile(r"[^>]\S*\s+>\s+\S+$")
PASSES = {"SUCCESS", "PASS", "PASSED"}


def parse_maven(log: str) -> dict[str, TestStatus]:
    """Maven does not name passing tests. The log has one command per test, echoed by the shell, and
    the end of each build. The two kinds of lines may interleave, but each is in order."""
    tests: list[str] = []
    statuses: dict[str, TestStatus] = {}
    early: list[TestStatus] = []
    for line in map(str.strip, log.split("\n")):
        named, ended = MAVEN_COMMAND.match(line), MAVEN_END.match(line)
        if named:
            tests.append(named[1])
        if ended and tests:
            statuses[tests.pop(0)] = _status(ended[1])
        elif ended:
            early.append(_status(ended[1]))
    return {**statuses, **dict(zip(tests, early, strict=False))}


def parse_ant(log: str) -> dict[str, TestStatus]:
    """Reads lines such as `[junit] [PASS] test`."""
    found = (ANT_RESULT.match(line.strip()) for line in log.split("\n"))
    return {result[2]: _status(result[1]) for result in found if result}


def parse_gradle(log: str) -> dict[str, TestStatus]:
    """Reads lines such as `Class > test PASSED`; the test's own output may come between, on
    separate lines."""
    statuses: dict[str, TestStatus] = {}
    current: str | None = None
    for line in map(str.strip, log.split("\n")):
        whole = GRADLE_RESULT.match(line)
        if whole:
            statuses[whole[1]] = _status(whole[2])
            current = None
        elif GRADLE_TEST.match(line):
            current = line
        elif current is not None and line in ("PASSED", "FAILED"):
            statuses[current] = _status(line)
            current = None
    return statuses


def _status(word: str) -> TestStatus:
    return TestStatus.PASSED if word in PASSES else TestStatus.FAILED


Statuses = dict[str, TestStatus]
LogParser = Callable[[str], Statuses]

WORDS = {
    "PASSED": TestStatus.PASSED,
    "XFAIL": TestStatus.PASSED,
    "FAILED": TestStatus.FAILED,
    "ERROR": TestStatus.FAILED,
    "SKIPPED": TestStatus.SKIPPED,
}
"""pytest's status words; an expected failure counts as a pass."""
SKIP_COUNT = re.compile(r"\[\d+\]$")
"""The count in `SKIPPED [3] file:line: reason`, which names no test."""
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
# A test's output between its name and its result may span several lines.
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
    """The summary of `pytest -rA`: lines with a status and a node id."""
    return {words[1]: status for status, words in _summary(log)}


def parse_pytest_options(log: str) -> Statuses:
    """As `parse_pytest`, but a parameter that is an absolute path is shortened to its last part."""
    return {_short_option(words[1]): status for status, words in _summary(log)}


def parse_pytest_v2(log: str) -> Statuses:
    """As `parse_pytest`, with colours and ids with blanks; also lines that end with the status, as
    older versions and `-v` write them."""
    statuses: Statuses = {}
    for raw in log.split("\n"):
        line = COLOUR.sub("", raw).translate(CONTROL)
        if line.startswith("FAILED"):
            # The assertion's message follows.
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
    """pytest's summary; some versions write an enumeration in ids by its name."""
    return parse_pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def parse_seaborn(log: str) -> Statuses:
    """Only failures and passes; for passes the status is before or after the id."""
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
    """Reads lines such as `test_x ok`, and a heading for each failure's traceback."""
    statuses = {f"{file}.py:{test}": TestStatus.FAILED for file, test in SYMPY_FAILURE.findall(log)}
    for line in map(str.strip, log.split("\n")):
        name, _, end = line.rpartition(" ")
        if line.startswith("test_") and name and end in SYMPY_ENDS:
            statuses[name.split()[0]] = SYMPY_ENDS[end]
    return statuses


def parse_django(log: str) -> Statuses:
    """Reads unittest's verbose output: `test (module.Class) ... ok`, where `ok` may come later."""
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
    """The result of a test that one line contains by itself."""
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
    """The lines that begin with a status, split into words."""
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
"""By upstream's name, without `parse_log_`."""


# Log parsers that a record contains as Python source (SWE-bench-Live/MultiLang).
#
# A language model wrote them, so they run inside a sandbox, never in StepInto's process: in the
# tests' sandbox, or in a fresh local one if the image has no Python.


TIMEOUT = 120.0
"""Time limit in seconds to parse one log."""
NOT_FOUND = (126, 127)
_RUN = """\
import json, sys

folder = sys.argv[1]
log = open(folder + "/log", encoding="utf-8", errors="replace", newline="").read()
namespace = {}
exec(compile(open(folder + "/parser.py", encoding="utf-8").read(), "parser", "exec"), namespace)
found = namespace["parser"](log) or {}
with open(folder + "/found.json", "w") as file:
    json.dump({str(name): str(status) for name, status in found.items()}, file)
"""


def is_source(parser: str) -> bool:
    """Whether a record's parser is source code rather than a name."""
    return "def parser" in parser


def run_source(sandbox: Sandbox, source: str, log: str) -> dict[str, TestStatus]:
    """The parser's result for a log; empty if it fails. Raises SandboxError."""
    found = _run(sandbox, source, log)
    if found is None:
        with open_sandbox(SandboxConfig(backend="local")) as local:
            found = _run(local, source, log)
    return {name: _parsed_status(word) for name, word in _pairs(found or "")}


def _run(sandbox: Sandbox, source: str, log: str) -> str | None:
    """The parser's result as JSON, empty if it fails; None if there is no Python."""
    files = {"run.py": _RUN, "parser.py": source, "log": log}
    content = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    with scratch_folder(sandbox) as folder, suppress(SandboxFileError):
        sandbox.write_files({f"{folder}/{name}": data for name, data in content.items()})
        argv = [sandbox.python, "-I", f"{folder}/run.py", folder]
        result = sandbox.run(Command(argv, timeout=TIMEOUT))
        if result.exit_code in NOT_FOUND:
            return None
        return sandbox.read_file(f"{folder}/found.json").decode()
    return ""


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [(name, str(word)) for name, word in found.items()] if isinstance(found, dict) else []


def _parsed_status(word: str) -> TestStatus:
    """Upstream searches for these substrings."""
    word = word.lower()
    if "pass" in word:
        return TestStatus.PASSED
    return TestStatus.FAILED if "fail" in word else TestStatus.SKIPPED
