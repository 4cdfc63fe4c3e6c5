"""pytest's options: those of a command, and a project's own, less those that break a session.

A project's files are read as text on the host. What they say ends in PYTEST_ADDOPTS, so that the
same options apply in verdicts, debug sessions and agents' commands.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import iniconfig

from sandbox.languages.python.project_files import MAX_BYTES, parse_toml

ADDOPTS = "PYTEST_ADDOPTS"

# The options of pytest and its usual plugins.

_OF_WORKERS = frozenset(
    {"-n", "--numprocesses", "--maxprocesses", "--dist", "-d", "--tx", "--px", "--rsyncdir"}
    | {"--rsyncignore", "--testrunuid", "--max-worker-restart", "-f", "--looponfail", "--forked"}
    | {"--boxed", "--loadscope-reorder", "--no-loadscope-reorder"}
)
_OF_MEASUREMENTS = frozenset({"--cov", "--no-cov", "--codspeed", "--pastebin"})
_OF_TIME = frozenset({"--timeout", "--timeout-method", "--timeout_method", "--session-timeout"})
_OF_RERUNS = frozenset({"--reruns", "--reruns-delay", "--only-rerun", "--rerun-except"})
_OF_PDB = frozenset({"--pdb", "--pdbcls", "--trace"})
_OF_EARLIER_RUNS = frozenset(
    {"--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first", "--lfnf"}
    | {"--last-failed-no-failures", "--sw", "--stepwise", "--sw-skip", "--stepwise-skip"}
    | {"--sw-reset", "--stepwise-reset", "--cache-clear", "--testmon"}
)
_WITHOUT_TESTS = frozenset(
    {"--co", "--collect-only", "--setup-only", "--setup-plan", "--fixtures", "--funcargs"}
    | {"--fixtures-per-test", "--markers", "--cache-show", "-h", "--help", "-V", "--version"}
)
# They refuse markers and settings of plugins that are not loaded.
_STRICT = frozenset({"--strict", "--strict-markers", "--strict-config"})
_OF_TOOLS = frozenset({"--black", "--flake8", "--isort", "--pycodestyle", "--ruff"})
_OF_RUNS = _OF_WORKERS | _OF_MEASUREMENTS | _OF_TIME | _OF_RERUNS | _OF_PDB | _OF_EARLIER_RUNS
BREAKING = _OF_RUNS | _WITHOUT_TESTS | _STRICT | _OF_TOOLS
"""Options that break a session: they move tests to other processes, stop or repeat them, run none,
shuffle them anew at each restart, or are of plugins that StepInto does not load."""
BREAKING_FAMILIES = (
    *("--cov-", "--no-cov-", "--benchmark-", "--codspeed-", "--mypy", "--pylint"),
    *("--randomly-", "--random-order"),
)
BREAKING_PLUGINS = re.compile(
    r"(pytest_)?(xdist|cov|timeout|rerunfailures|benchmark|codspeed|testmon|randomly|random_order)"
    r"(\.\w+)*"
)
"""What `-p` must not load."""
VALUED = frozenset(
    {"-k", "-m", "-p", "-o", "-c", "-r", "-W", "-n", "--override-ini", "--config-file", "--maxfail"}
    | {"--rootdir", "--confcutdir", "--basetemp", "--ignore", "--ignore-glob", "--deselect"}
    | {"--import-mode", "--tb", "--capture", "--color", "--code-highlight", "--durations"}
    | {"--durations-min", "--verbosity", "--show-capture", "--assert", "--junitxml", "--junit-xml"}
    | {"--junitprefix", "--junit-prefix", "--pastebin", "--pythonwarnings", "--doctest-report"}
    | {"--doctest-glob", "--log-level", "--log-format", "--log-date-format", "--log-cli-level"}
    | {"--log-cli-format", "--log-cli-date-format", "--log-file", "--log-file-mode"}
    | {"--log-file-level", "--log-file-format", "--log-file-date-format", "--log-auto-indent"}
    | {"--log-disable", "--lfnf", "--last-failed-no-failures", "--pdbcls", "--xfail-tb"}
    | {"--ds", "--dc", "--reruns", "--reruns-delay", "--only-rerun", "--rerun-except"}
    | {"--numprocesses", "--maxprocesses", "--dist", "--tx", "--px", "--max-worker-restart"}
    | {"--timeout", "--timeout-method", "--timeout_method", "--session-timeout"}
    | {"--cov-report", "--cov-config", "--cov-fail-under", "--cov-context", "--cov-precision"}
)
"""Options that take the next word as their value."""
_BREAKING_FLAGS = _OF_WORKERS | _OF_PDB | _OF_EARLIER_RUNS | _WITHOUT_TESTS | _STRICT | _OF_TOOLS
FLAGS = (_BREAKING_FLAGS - VALUED) | frozenset(
    {"--exitfirst", "--pyargs", "--noconftest", "--keep-duplicates", "--collect-in-virtualenv"}
    | {"--continue-on-collection-errors", "--doctest-modules", "--doctest-ignore-import-errors"}
    | {"--doctest-continue-on-failure", "--trace-config", "--setup-show", "--runxfail"}
    | {"--verbose", "--quiet", "--no-header", "--no-summary", "--no-fold-skipped"}
    | {"--force-short-summary", "--showlocals", "--no-showlocals", "--disable-warnings"}
    | {"--disable-pytest-warnings", "--full-trace", "--no-cov", "--no-cov-on-fail"}
    | {"--cov-append", "--cov-branch", "--cov-reset"}
)
"""Options without a value."""
SHORT_FLAGS = re.compile(r"-[vqsxlfdhV]+")
WITH_OR_WITHOUT = frozenset({"--cov"})
"""Options whose value may be missing."""
ATTACHED = re.compile(r"-[kmpocrWn](?!-).+", re.DOTALL)
"""A short option with its value in the same word: `-n4`."""
SHOWING = frozenset(
    {"-r", "--tb", "--color", "--code-highlight", "--durations", "--durations-min", "--capture"}
    | {"--exitfirst", "--maxfail", "--verbose", "--verbosity", "--quiet", "--showlocals"}
    | {"--no-showlocals", "--show-capture", "--no-header", "--no-summary", "--full-trace"}
)
SHOWING_FLAGS = re.compile(r"-[vqsxl]+")


@dataclass(frozen=True)
class Option:
    """One option of a command, as it was written."""

    words: tuple[str, ...]

    @property
    def name(self) -> str:
        word = self.words[0]
        return word[:2] if ATTACHED.fullmatch(word) and word[1] != "-" else word.partition("=")[0]

    @property
    def value(self) -> str:
        """Empty if it has none."""
        if len(self.words) > 1:
            return self.words[1]
        return self.words[0].removeprefix(self.name).removeprefix("=")

    @property
    def breaks_session(self) -> bool:
        if self.name == "-p":
            return BREAKING_PLUGINS.fullmatch(self.value) is not None
        return self.name in BREAKING or self.name.startswith(BREAKING_FAMILIES)

    @property
    def only_shows(self) -> bool:
        """Whether it decides what is printed, or when a run of several tests stops."""
        return self.name in SHOWING or SHOWING_FLAGS.fullmatch(self.name) is not None


def read_words(words: Iterable[str], is_place: Callable[[str], bool]) -> Iterator[str | Option]:
    """Each option of a pytest command with its value, and each other word. `is_place` tells which
    words name a file, a folder or a test: the options of unknown plugins may take a value or not.
    """
    option: str | None = None
    for word in words:
        if option is not None:
            has_value = option in VALUED or (
                not word.startswith("-") and (option in WITH_OR_WITHOUT or not is_place(word))
            )
            yield Option((option, word) if has_value else (option,))
            option = None
            if has_value:
                continue
        if not word.startswith("-") or word == "-":
            yield word
        elif _is_whole(word):
            yield Option((word,))
        else:
            option = word
    if option is not None:
        yield Option((option,))


def _is_whole(word: str) -> bool:
    """Whether an option has no value, or has it in the same word."""
    if word.startswith("--"):
        return "=" in word or word in FLAGS
    return SHORT_FLAGS.fullmatch(word) is not None or ATTACHED.fullmatch(word) is not None


# A project's own options.

FILES = (
    ("pytest.toml", ("pytest",)),
    (".pytest.toml", ("pytest",)),
    ("pytest.ini", ("pytest",)),
    (".pytest.ini", ("pytest",)),
    ("pyproject.toml", ("tool", "pytest")),
    ("tox.ini", ("pytest",)),
    ("setup.cfg", ("tool:pytest",)),
)
"""Where pytest looks for its settings in a folder, in this order, and below which name."""
MAX_WORDS = 200
STRICT_SETTINGS = frozenset({"strict", "strict_config", "strict_markers"})
_LENIENT = ("-o", "strict_config=false", "-o", "strict_markers=false")
_TOLERANT = ("-W", "ignore:Unknown config option", "-W", "ignore:Unknown pytest.mark")
"""With `filterwarnings = error` the settings and markers of plugins that are not loaded would end
the run."""


@dataclass(frozen=True)
class ProjectOptions:
    """What a project's files say of pytest's options."""

    file: str = ""
    """The file with pytest's settings; empty if there is none."""
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Each option with its value, or word, that does not apply: it breaks a session."""
    added: tuple[str, ...] = ()
    """Options that make up for plugins that are not loaded."""
    plugins: frozenset[str] = frozenset()
    """The names of plugins that they load or refuse: `-p anyio`, `-p no:anyio`."""
    test_files: tuple[str, ...] = ()
    """Patterns of test files' names, in place of pytest's own; empty if there are none."""
    test_paths: tuple[str, ...] = ()
    """Files and folders of the tests; empty if none are named."""

    @property
    def variable(self) -> str:
        """For PYTEST_ADDOPTS; empty if the project's own settings can stay as they are."""
        replaced = ("-o", f"addopts={shlex.join(self.kept)}") if self.left_out else ()
        return shlex.join((*replaced, *self.added))

    @property
    def note(self) -> str:
        """What to tell a user of the options that were left out; empty if there are none."""
        if not self.left_out:
            return ""
        return f"pytest options in {self.file}: {', '.join(self.left_out)}"


def read_project_options(files: Mapping[str, bytes], tests: Iterable[str]) -> ProjectOptions:
    """The options in the settings that pytest takes for these tests: paths or node ids."""
    for folder in _folders_of(files, tests):
        for name, section in FILES:
            path = posixpath.normpath(posixpath.join(folder, name))
            settings = _settings(files[path], name, section) if path in files else None
            if settings is not None:
                return _options_of(path, settings, files)
    return ProjectOptions()


def _folders_of(files: Mapping[str, bytes], tests: Iterable[str]) -> Iterator[str]:
    """The folders in which pytest looks for settings: from the one that holds all tests up, then
    from each test's own."""
    folders = []
    for test in tests:
        path = posixpath.normpath(test.partition("::")[0])
        folders.append(posixpath.dirname(path) if path in files else path)
    relative = [folder for folder in folders if not folder.startswith(("/", ".."))]
    starts = [posixpath.commonpath(relative or ["."]), *relative]
    yield from dict.fromkeys(folder for start in starts for folder in _upwards(start))


def _upwards(folder: str) -> Iterator[str]:
    while folder not in ("", "."):
        yield folder
        folder = posixpath.dirname(folder)
    yield "."


def _settings(data: bytes, name: str, section: Sequence[str]) -> Mapping[str, object] | None:
    """pytest's settings in a file; None if pytest would look further. A file that can't be read
    has none: pytest says what is wrong with it."""
    data = data[:MAX_BYTES]
    text = data.decode("utf-8", "replace")
    is_own = name.lstrip(".").startswith("pytest.")
    try:
        if name.endswith(".toml"):
            return _in_toml(data, section, is_own)
        read = iniconfig.IniConfig(name, data=text)
        if section[0] in read:
            return dict(read[section[0]].items())
        return {} if is_own else None
    # Also for numbers with thousands of digits, and thousands of brackets.
    except (iniconfig.ParseError, ValueError, RecursionError):
        return {} if is_own else None


def _in_toml(data: bytes, section: Sequence[str], is_own: bool) -> Mapping[str, object] | None:
    table: object = parse_toml(data)
    for key in section:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict) or not table:
        return {} if is_own else None
    inner = table.get("ini_options")
    return inner if isinstance(inner, dict) else table


def _options_of(
    file: str, settings: Mapping[str, object], files: Mapping[str, bytes]
) -> ProjectOptions:
    kept: list[str] = []
    left_out: list[str] = []
    plugins: set[str] = set()
    for word in read_words(_words(settings.get("addopts")), partial(is_among, files)):
        if isinstance(word, str):
            left_out.append(word)
        elif word.breaks_session:
            left_out.append(" ".join(word.words))
        else:
            kept += word.words
            plugins.update([word.value.removeprefix("no:")] if word.name == "-p" else ())
    added: tuple[str, ...] = _LENIENT if STRICT_SETTINGS & settings.keys() else ()
    warnings = "\n".join((*_texts(settings.get("filterwarnings")), *kept))
    added += _TOLERANT if re.search(r"(?m)^[ \t]*+(?:-W)?error\b", warnings) else ()
    patterns, paths = (_words(settings.get(name)) for name in ("python_files", "testpaths"))
    return ProjectOptions(
        file,
        tuple(kept),
        tuple(left_out),
        added,
        frozenset(plugins),
        test_files=tuple(patterns),
        test_paths=tuple(map(posixpath.normpath, paths)),
    )


def is_among(files: Iterable[str], place: str) -> bool:
    """Whether these files have a file, a folder or a test's file by this name."""
    path = posixpath.normpath(place.partition("::")[0])
    return path == "." or any(file == path or file.startswith(f"{path}/") for file in files)


def _words(value: object) -> list[str]:
    """The words of a setting: a list, or a text as in a shell. pytest refuses others, and nobody
    writes so many that it would take long to look for them among the files."""
    try:
        words = shlex.split(value) if isinstance(value, str) else _texts(value)
    except ValueError:
        return []
    return words if len(words) <= MAX_WORDS else []


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def with_project_options(variables: Mapping[str, str], options: ProjectOptions) -> dict[str, str]:
    """The variables, with what a project's options need in PYTEST_ADDOPTS. If they set `addopts`
    themselves, that stays."""
    given = variables.get(ADDOPTS, "")
    if not options.variable or "addopts=" in given:
        return dict(variables)
    return {**variables, ADDOPTS: f"{options.variable} {given}".strip()}
