"""Parse the test logs of SWE-bench's repositories as upstream does.

Scores must be comparable with published ones, so upstream's rules are kept, even if two runners use
the same text for different things, and the program under test can write to the log too.
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

Statuses = dict[str, TestStatus]
LogParser = Callable[[str], Statuses]

WORDS = {
    **dict.fromkeys(("PASSED", "XFAIL"), TestStatus.PASSED),
    **dict.fromkeys(("FAILED", "ERROR"), TestStatus.FAILED),
    "SKIPPED": TestStatus.SKIPPED,
}
"""pytest's status words; an expected failure counts as a pass."""
CONTROL = dict.fromkeys(range(1, 32))
DJANGO_ENDS = {
    **dict.fromkeys((" ... ok", " ... OK", " ...  OK"), TestStatus.PASSED),
    **dict.fromkeys((" ... FAIL", " ... ERROR"), TestStatus.FAILED),
}
DJANGO_VERSION = "--version is equivalent to version"
DJANGO_MIGRATION = "Applying sites.0002_alter_domain_unique...test_no_migrations"
# A test's output between its name and its result may span several lines.
DJANGO_INTERRUPTED = tuple(
    re.compile(rf"^(.*?)\s\.\.\.\s{output}\nok$", re.MULTILINE)
    for output in (
        r"Testing against Django installed in (?s:.*?) silenced\)\.",
        r"Internal Server Error: /.*/",
        r"System check identified no issues \(0 silenced\)",
    )
)
DJANGO_SILENCED = re.compile(r" silenced\)\.\nok$", re.MULTILINE)
SYMPY_ENDS = {"ok": TestStatus.PASSED, "F": TestStatus.FAILED, "E": TestStatus.FAILED}


def parse_pytest(log: str) -> Statuses:
    """The summary of `pytest -rA`: lines with a status and a node id."""
    return {words[1]: status for status, words in _summary(log)}


def parse_pytest_options(log: str) -> Statuses:
    """As `parse_pytest`, but a parameter that is an absolute path is shortened to its last part."""
    statuses: Statuses = {}
    for status, words in _summary(log):
        test = words[1]
        name, _, parameters = test.partition("[")
        option, bracket, _ = parameters.rpartition("]")
        if bracket:
            if option.startswith("/") and not option.startswith("//") and "*" not in option:
                option = "/" + option.rpartition("/")[2]
            test = f"{name}[{option}]"
        statuses[test] = status
    return statuses


def parse_pytest_v2(log: str) -> Statuses:
    """As `parse_pytest`, with colours and ids with blanks; also lines that end with the status, as
    older versions and `-v` write them."""
    statuses: Statuses = {}
    for raw in log.split("\n"):
        line = re.sub(r"\[\d+m", "", raw).translate(CONTROL)
        if line.startswith("FAILED"):
            # The assertion's message follows.
            line = line.split(" - ", 1)[0]
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith(tuple(WORDS)):
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
    statuses: Statuses = {}
    for line in log.split("\n"):
        heading, space, _ = line.partition(" ")[2].rpartition(" ")
        file, suffix, test = heading.rpartition(".py:")
        if space and suffix:
            statuses[f"{file}.py:{test}"] = TestStatus.FAILED
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
        for end, status in DJANGO_ENDS.items():
            if line.endswith(end):
                text = line
                if status is TestStatus.PASSED and line.startswith(DJANGO_MIGRATION):
                    text = line.split("...", 1)[-1].strip()
                statuses[text.rsplit(end, 1)[0]] = status
        if " ... skipped" in line:
            statuses[line.split(" ... skipped", maxsplit=1)[0]] = TestStatus.SKIPPED
        words = line.split()
        if line.startswith(("FAIL:", "ERROR:")) and len(words) > 1:
            statuses[words[1]] = TestStatus.FAILED
        if line.startswith("ok") and current is not None:
            statuses[current] = TestStatus.PASSED
    # Without the rest, which a pattern that looks for such an end would read from each line.
    silenced = log[: max((found.end() for found in DJANGO_SILENCED.finditer(log)), default=0)]
    for pattern, text in zip(DJANGO_INTERRUPTED, (silenced, log, log), strict=True):
        statuses |= dict.fromkeys(pattern.findall(text), TestStatus.PASSED)
    return statuses


def _summary(log: str) -> Iterator[tuple[TestStatus, list[str]]]:
    for line in log.split("\n"):
        words = line.split()
        named = len(words) > 1 and line.startswith(words[0]) and words[0] in WORDS
        if named and not _counts_skips(words):
            yield WORDS[words[0]], words


def _counts_skips(words: list[str]) -> bool:
    return words[0] == "SKIPPED" and re.match(r"\[\d+\]$", words[1]) is not None


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
    **{name: parser for parser, names in _OF_REPOSITORIES.items() for name in names.split()},
}
"""By upstream's name, without `parse_log_`."""


# Log parsers that a record contains as Python source (SWE-bench-Live/MultiLang). A language model
# wrote them, so they run in the tests' sandbox, or in a local one if the image has no Python.

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
    try:
        words = json.loads(found or "{}")
    except (ValueError, RecursionError):
        return {}
    statuses: Statuses = {}
    for name, word in words.items() if isinstance(words, dict) else ():
        # Upstream searches for these substrings.
        failed = TestStatus.FAILED if "fail" in str(word).lower() else TestStatus.SKIPPED
        statuses[name] = TestStatus.PASSED if "pass" in str(word).lower() else failed
    return statuses


def _run(sandbox: Sandbox, source: str, log: str) -> str | None:
    """The parser's result as JSON, empty if it fails; None if there is no Python."""
    files = {"run.py": _RUN, "parser.py": source, "log": log}
    content = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    with scratch_folder(sandbox) as folder, suppress(SandboxFileError):
        sandbox.write_files({f"{folder}/{name}": data for name, data in content.items()})
        argv = [sandbox.python, "-I", f"{folder}/run.py", folder]
        result = sandbox.run(Command(argv, timeout=120.0))
        if result.exit_code in (126, 127):
            return None
        return sandbox.read_file(f"{folder}/found.json").decode()
    return ""
