"""SWE-bench and SWE-bench-Live: issues of real repositories, each in an image of its own."""

from __future__ import annotations

import ast
import base64
import hashlib
import hmac
import json
import posixpath
import re
import secrets
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from collect.benchmarks import row_files
from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.swe_bench.log_parsers import LOG_PARSERS, Statuses, is_source, run_source
from collect.benchmarks.workspace import lay_out_patch, seal_history
from collect.code.patches import renamed_files
from collect.errors import ConfigError
from sandbox import Command, ImageWorkspace, Sandbox
from sandbox.errors import SandboxFileError
from sandbox.shell import capture, scratch_folder, write_bytes
from sandbox.text import BoundedOutput

LIVE_HUB_ID = "SWE-bench-Live/SWE-bench-Live"


def _strings(value: object) -> object:
    """A list; some data sets have JSON or Python's `repr` in a string, or a single string."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return ()
    if not value.lstrip().startswith("["):
        return (value,)
    with suppress(ValueError):
        return json.loads(value)
    try:
        return ast.literal_eval(value.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError("must be a list, as JSON or as Python writes it") from error


Strings = Annotated[tuple[str, ...], BeforeValidator(_strings)]


class Record(BaseModel):
    """Only the upstream columns that we use.

    There are four generations: SWE-bench's first (repository and version determine the test
    command) and fifth (the record has its own script, parser and image), SWE-bench-Live (commands
    and a parser's name) and SWE-bench-Live/MultiLang (more commands, the parser as Python source).
    """

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    # It becomes part of an image's name.
    instance_id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*$")
    repo: str
    base_commit: str = Field(pattern=r"^[0-9a-f]{7,64}$")
    patch: str
    test_patch: str = ""
    """Empty if the image already has the tests."""
    problem_statement: str
    fail_to_pass: Strings = Field(validation_alias=AliasChoices("FAIL_TO_PASS", "fail_to_pass"))
    pass_to_pass: Strings = Field((), validation_alias=AliasChoices("PASS_TO_PASS", "pass_to_pass"))
    version: str = ""
    image: str | None = Field(None, validation_alias=AliasChoices("image", "docker_image"))
    eval_script: str = ""
    """The whole script of a test run, with two markers around the test output."""
    rebuild_cmds: Strings = ()
    test_cmds: Strings = ()
    print_cmds: Strings = ()
    """Commands that print the log if `test_cmds` do not."""
    log_parser: str = Field("", validation_alias=AliasChoices("log_parser", "parser"))
    """A parser's name, or its source."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, row: Any) -> Any:
        """In data sets where only some rows have a column, it is null in the others."""
        if not isinstance(row, dict):
            return row
        return {name: value for name, value in row.items() if value is not None}

    @property
    def is_live(self) -> bool:
        return bool(self.test_cmds)

    @property
    def image_name(self) -> str:
        """The record's own image, or the one that upstream publishes for the instance's id."""
        publisher = "starryzhang" if self.is_live else "swebench"
        name = self.instance_id.lower().replace("__", "_1776_")
        return self.image or f"{publisher}/sweb.eval.x86_64.{name}:latest"

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files that the test patch changes, by old and new name."""
        pairs = renamed_files(self.test_patch)
        return tuple(dict.fromkeys(path for pair in pairs for path in pair))

    @property
    def digest(self) -> str:
        """16 hex digits over all columns that we use."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def read_records(path: Path | None, hub_id: str | None, split: str | None) -> dict[str, Record]:
    """The records of a local file, or else of a split on the hub, by id. Raises ConfigError."""
    hub_id = hub_id or LIVE_HUB_ID
    split = split or ("lite" if hub_id == LIVE_HUB_ID else "test")
    files = None if path is None else [path]
    rows = row_files.open_rows(files, hub_id, "benchmark.path", split=split)
    published = "SWE-bench or SWE-bench-Live"
    return row_files.checked_by_id(rows, Record, published, lambda record: record.instance_id)


PLUGIN_NAME = "stepinto_confirmation"
STARTED_MODULE = "sitecustomize"
MAX_SESSIONS = 64
"""Maximum number of pytest sessions in one run of a record."""


class _Report(BaseModel):
    """What the plugin reports of one session."""

    model_config = ConfigDict(strict=True, frozen=True)

    ran: bool
    passed: frozenset[str]
    replaced: tuple[str, ...]


@dataclass(frozen=True)
class Confirmation:
    """The plugin of pytest or unittest that confirms a log, which any program can write to: for one
    run, in a folder of the sandbox.

    Upstream's rules still apply: the log is graded, and a runner that loads no plugin (SymPy's,
    tox, Java's) is trusted. If pytest loaded it, a pass counts only if pytest reported it, and a
    session that did not end confirms nothing. What it reports of replaced functions, and passes
    that unittest did not report, are doubts, which a run with the gold patch settles.
    """

    folder: str
    """Absolute path."""
    by_pytest: bool = True
    """Whether pytest runs the tests; otherwise unittest may."""
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    @property
    def stdin(self) -> bytes:
        """The key and the plugin, as the script's standard input: builds run code of the patch."""
        plugin = Path(__file__).with_name("confirming_plugin.py").read_bytes()
        return f"{self.key}\n{base64.b64encode(plugin).decode()}\n".encode()

    @property
    def first(self) -> str:
        """A command before all others, which keeps the standard input from them."""
        return "IFS= read -r stepinto_key; IFS= read -r stepinto_plugin; exec </dev/null"

    @property
    def settings(self) -> str:
        """Shell commands that write the plugin, and make every later pytest, or every Python, load
        it. A script that prints its commands must not print the key."""
        name = PLUGIN_NAME if self.by_pytest else STARTED_MODULE
        folder = shlex.quote(self.folder)
        write = (
            f"{{ command -p rm -rf {folder}; command -p mkdir -p {folder}; "
            f'printf %s "$stepinto_key" >{folder}/key; '
            f'printf %s "$stepinto_plugin" | command -p base64 -d >{folder}/{name}.py; '
            "unset stepinto_key stepinto_plugin; } 2>/dev/null"
        )
        path = f'export PYTHONPATH="{self.folder}${{PYTHONPATH:+:$PYTHONPATH}}"'
        options = f'PYTEST_ADDOPTS="-p {PLUGIN_NAME} ${{PYTEST_ADDOPTS-}}"'
        return f"{write}\n{path} {options}" if self.by_pytest else f"{write}\n{path}"

    def check(self, sandbox: Sandbox, results: TestResults) -> TestResults:
        """The results of the requested tests, as far as they are confirmed."""
        left = _read(sandbox, f"{self.folder}/key")
        if not left and TestStatus.PASSED not in results.statuses.values():
            return results  # such as after a build that ended the script
        # Each session has left the key of the next one.
        key, sessions = self.key, list[str]()
        while key != left:
            if len(sessions) >= MAX_SESSIONS:
                changed = "the program changed a file that pytest's own report rests on"
                return replace(results, tampered=changed)
            sessions.append(key)
            key = hashlib.sha256(key.encode()).hexdigest()
        reports: list[_Report] = []
        for number, key in enumerate(sessions):
            seal, _, text = _read(sandbox, f"{self.folder}/report-{number}").partition(" ")
            expected = hmac.digest(key.encode(), text.encode(), "sha256").hex()
            if not seal:
                continue
            try:
                if not hmac.compare_digest(seal.encode(), expected.encode()):
                    raise ValueError("another key")
                # Code that finds the key in pytest's process can sign anything.
                reports.append(_Report.model_validate_json(text))
            except ValueError:
                wrote = "the program wrote to the report of pytest's own plugin"
                return replace(results, tampered=wrote)
        doubts: dict[str, str] = {}
        if self.by_pytest and not sessions:
            doubts["pytest's own report"] = "there is none"
        elif not self.by_pytest and len(reports) < len(sessions):
            doubts["unittest's own report"] = "a process with it did not come to its end"
        elif not self.by_pytest and any(report.ran for report in reports):
            doubts = _unreported(results, reports)
        replaced = dict.fromkeys(name for report in reports for name in report.replaced)
        doubts |= dict.fromkeys(replaced, "the program replaced it")
        doubts = {**results.doubts, **doubts}
        results = replace(results, of_program=tuple(replaced), doubts=doubts)
        return (
            _confirmed(results, reports, len(sessions)) if sessions and self.by_pytest else results
        )


def _unreported(results: TestResults, reports: Sequence[_Report]) -> dict[str, str]:
    """Tests that passed in the log, and not for unittest. Logs and runners differ in what they call
    a test, so that this is only a doubt."""
    passed = {test for report in reports for test in report.passed}
    strange = (t for t, s in results.statuses.items() if s is TestStatus.PASSED and t not in passed)
    return dict.fromkeys(strange, "the log says that it passed, and unittest did not")


def _confirmed(results: TestResults, reports: Sequence[_Report], sessions: int) -> TestResults:
    """The results with what the plugin reported in those sessions that came to their end."""
    passed = {test for report in reports for test in report.passed}
    strange = list(_unconfirmed(results.statuses, passed))
    tampered = None
    if strange and len(reports) == sessions:
        tampered = f"the log says that {strange[0]} passed, and pytest did not"
    return replace(
        results,
        statuses={**results.statuses, **dict.fromkeys(strange, TestStatus.FAILED)},
        tampered=tampered,
    )


def _unconfirmed(statuses: Mapping[str, TestStatus], passed: set[str]) -> Iterator[str]:
    """Tests that passed in the log more often than pytest reported for their file and function:
    logs and upstream's ids cut and rewrite parameters and folders."""
    left = Counter(map(_function, passed))
    counted: set[str] = set()
    for test, status in statuses.items():
        name = test.split(" <- ")[0]
        if status is TestStatus.PASSED and "::" in test and name not in counted:
            counted.add(name)
            if left[_function(test)] < 1:
                yield test
            left[_function(test)] -= 1


def _function(test: str) -> str:
    """`test_cart.py::CartTest::test_total`, without folder and parameters."""
    path, _, names = test.partition("[")[0].replace("::()", "").partition("::")
    return f"{posixpath.basename(path)}::{names.split(' ')[0]}"


# How to run the tests of SWE-bench's own repositories if a record does not say so. The commands are
# those of swebench 4: `MAP_REPO_VERSION_TO_SPECS_PY`.

ENVIRONMENT = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
EDITABLE = "python -m pip install -e"
INSTALL = f"{EDITABLE} ."
DJANGO = "./tests/runtests.py --verbosity 2"
LOCALE = ("export LANG=en_US.UTF-8", "export LC_ALL=en_US.UTF-8", "export LANGUAGE=en_US:en")
GENERATED_LOCALE = "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen"
NO_TEST = re.compile(r"(csv|\.(json|png|txt|md|jpe?g|pkl|ya?ml|toml))$")
"""Matches files in a test patch that are not tests; upstream's list of endings."""


@dataclass(frozen=True)
class Repository:
    parser: str
    test: str = "pytest -rA"
    install: str = INSTALL


_PLAIN = ("pallets/flask", "pydata/xarray", "pylint-dev/astroid", "pytest-dev/pytest")
REPOSITORIES = {
    **dict.fromkeys((*_PLAIN, "pyvista/pyvista", "sqlfluff/sqlfluff"), Repository("pytest")),
    **dict.fromkeys(("pydicom/pydicom", "pylint-dev/pylint"), Repository("pytest_options")),
    "astropy/astropy": Repository("astropy", install=f"{EDITABLE} .[test] --verbose"),
    "django/django": Repository("django", f"{DJANGO} --settings=test_sqlite --parallel 1"),
    "marshmallow-code/marshmallow": Repository("pytest", install=f"{EDITABLE} '.[dev]'"),
    "matplotlib/matplotlib": Repository("matplotlib"),
    "mwaskom/seaborn": Repository("seaborn", "pytest --no-header -rA", f"{EDITABLE} .[dev]"),
    "psf/requests": Repository("pytest_options", install="python -m pip install ."),
    "pvlib/pvlib-python": Repository("pytest", install=f"{EDITABLE} .[all]"),
    "scikit-learn/scikit-learn": Repository(
        "scikit", install="python -m pip install -v --no-use-pep517 --no-build-isolation -e ."
    ),
    "sphinx-doc/sphinx": Repository(
        "sphinx", "tox --current-env -epy39 -v --", f"{EDITABLE} .[test]"
    ),
    "sympy/sympy": Repository(
        "sympy",
        "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
    ),
}


def run_commands(record: Record) -> list[str]:
    """The test commands, to run after `setup_commands`; for a known repository."""
    command = REPOSITORIES[record.repo].test
    if record.repo == "django/django" and record.version == "1.9":
        command = DJANGO
    elif record.repo == "astropy/astropy" and _number(record.version) < (3,):
        command = "pytest -rA -vv -o console_output_style=classic --tb=no"
    # The files in the test patch, as the repository's runner names them.
    files = [path for _, path in renamed_files(record.test_patch) if not NO_TEST.search(path)]
    if record.repo == "django/django":
        files = [path.removesuffix(".py").removeprefix("tests/") for path in files]
        files = [path.replace("/", ".") for path in files]
    return [" ".join([command, *files])]


def setup_commands(record: Record) -> list[str]:
    """Commands before the tests: activate the environment, and rebuild the program."""
    version = _number(record.version)
    settings: tuple[str, ...] = ()
    install = REPOSITORIES[record.repo].install
    if record.repo == "django/django" and version < (3,):
        install = "python setup.py install"
        if version >= (1, 7):
            settings = (*LOCALE, "export PYTHONIOENCODING=utf8")
    elif record.repo == "django/django" and version < (4,):
        settings = (GENERATED_LOCALE, *LOCALE)
    elif record.repo == "matplotlib/matplotlib" and version < (3,):
        install = "python setup.py build; python setup.py install"
    elif record.repo == "matplotlib/matplotlib" and version >= (3, 8):
        install = 'python -m pip install --no-build-isolation -e ".[dev]"'
    elif record.repo == "mwaskom/seaborn" and version < (0, 12):
        install = INSTALL
    return [*ENVIRONMENT, *settings, install]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".") if part.isdigit())


BEGIN, END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""Markers around the test output in the log of a record's own script."""
# What a script reinstalls is already installed, so pip must not look for it without a network.
# Tests in an image that was built as root rely on root's home.
_PREPARE = """\
export PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 PIP_DISABLE_PIP_VERSION_CHECK=1
if [ "$(id -u)" = 0 ] && [ -w /root ]; then export HOME=/root; fi
git config --global --add safe.directory "$PWD"
"""
_RUN = 'bash "$1/run.sh" >"$1/log" 2>&1'


def run_record_tests(
    record: Record, sandbox: Sandbox, tests: Sequence[str], timeout: float
) -> TestResults:
    """Run the record's commands, and return the statuses of these tests.

    `timeout` is in seconds for everything, the build included; a run that hits it yields no
    results. Raises PatchError if the test patch does not apply, SandboxError.
    """
    lay_out_patch(sandbox, record.test_patch, record.test_files, record.base_commit)
    with scratch_folder(sandbox, "/tmp") as folder:
        confirmation = Confirmation(f"{folder}/plugin", runs_pytest(record))
        digests = _digests(record, sandbox.workspace)
        script = _script(record, folder, confirmation, f"{digests} >{folder}/digests")
        write_bytes(sandbox, f"{folder}/run.sh", script.encode())
        laid_out = capture(sandbox, digests).output
        argv = ["sh", "-c", _RUN, "sh", folder]
        result = sandbox.run(Command(argv, stdin=confirmation.stdin, timeout=timeout))
        log, statuses = _graded(record, sandbox, folder, result.timed_out)
        results = TestResults(
            statuses_of(tests, statuses),
            "",
            result.timed_out,
            result.seconds,
            not_loaded=not_loaded(tests, statuses, log),
        ).with_failed_loads()
        if laid_out != _read(sandbox, f"{folder}/digests"):
            results = replace(results, doubts={"the tests' files": "something changed them"})
        results = confirmation.check(sandbox, results)
    shown = BoundedOutput(sandbox.config.output_limit)
    shown.add(log.encode())
    # Where a test fails, there is nothing to doubt.
    passing = set(results.statuses.values()) <= {TestStatus.PASSED, TestStatus.SKIPPED}
    return replace(results, output=shown.text(), doubts=results.doubts if passing else {})


def runs_pytest(record: Record) -> bool:
    """Whether the record's commands name it."""
    commands = [record.eval_script] if record.eval_script else record.test_cmds
    return any("pytest" in command for command in commands or run_commands(record))


def _digests(record: Record, workspace: str) -> str:
    """A shell command that prints a digest of each file in the test patch, and never fails."""
    files = shlex.join(record.test_files)
    return f"(cd {shlex.quote(workspace)} && sha256sum -- {files} 2>&1 || :)"


def check_runnable(record: Record) -> None:
    """Raise ConfigError if we don't know how to run the record's tests or read their log."""
    known = record.repo in REPOSITORIES
    if not (record.test_cmds or record.eval_script or known):
        raise ConfigError(
            f"{record.instance_id}: nothing tells how its tests are run: it has neither "
            f"eval_script nor test_cmds, and {record.repo} is not of SWE-bench's repositories"
        )
    name = parser_name(record)
    if not is_source(name) and name not in LOG_PARSERS:
        raise ConfigError(
            f"{record.instance_id}: column log_parser: there is no parser {name!r}; there are "
            f"{', '.join(sorted(LOG_PARSERS))}, and Python source with a function `parser(log)`"
        )


def parser_name(record: Record) -> str:
    """The record's parser: a name in LOG_PARSERS, or its source."""
    if record.log_parser:
        return record.log_parser.strip().removeprefix("parse_log_")
    repository = REPOSITORIES.get(record.repo)
    return repository.parser if repository else "pytest"


def statuses_of(tests: Iterable[str], statuses: Mapping[str, TestStatus]) -> dict[str, TestStatus]:
    """Statuses of these tests. A test missing from the log has failed, as has one whose file can't
    be imported. If the log names no test at all, nothing ran: all are MISSING."""
    missing = TestStatus.FAILED if statuses else TestStatus.MISSING
    return {test: status_of(test, statuses) or missing for test in tests}


CONFTEST = re.compile(r"(?m)^ImportError while loading conftest '(.+)'")


def not_loaded(
    tests: Iterable[str], statuses: Mapping[str, TestStatus], log: str
) -> dict[str, str]:
    """All tests, if pytest could not import a conftest file, and so ran none; with that file."""
    broken = None if statuses else CONFTEST.search(log)
    return {} if broken is None else dict.fromkeys(tests, broken[1])


def status_of(test: str, statuses: Mapping[str, TestStatus]) -> TestStatus | None:
    """A test's status in the log; None if it is not there.

    Some hundred ids of SWE-bench are cut off inside a parameter. Such an id matches all tests that
    begin with it, if they agree.
    """
    found = [statuses[test]] if test in statuses else []
    if not found and test.count("[") > test.count("]"):
        found = [status for name, status in statuses.items() if name.startswith(test)]
    return found[0] if len({status is TestStatus.PASSED for status in found}) == 1 else None


def _script(record: Record, folder: str, confirmation: Confirmation, last: str) -> str:
    """The whole script; the confirmation's settings come right before the tests, and the command
    `last` right after them."""
    settings = confirmation.settings
    lines: list[str] = []
    if record.eval_script:
        # The record's script, changed to keep the exit code of its test command.
        kept = f'echo "$TESTS_EXIT_CODE" >{folder}/exit'
        for line in record.eval_script.split("\n"):
            if BEGIN in line:
                lines.append(settings)
            lines += ["TESTS_EXIT_CODE=$?", line, kept, last] if END in line else [line]
    else:
        tests = [*(record.test_cmds or run_commands(record))]
        lines += [] if record.is_live else setup_commands(record)
        lines += record.rebuild_cmds
        lines.append(settings)
        if record.print_cmds:
            # The printing commands may need the same shell settings as the tests.
            lines += ["{", *tests, f"}} >{folder}/tests 2>&1"]
            lines += ["{", *record.print_cmds, f"}} >{folder}/printed 2>&1"]
        else:
            lines += ["(", *tests, f") >{folder}/tests 2>&1"]
        lines.append(last)
    return f"{confirmation.first}\n{_PREPARE}" + "\n".join(lines) + "\n"


def _graded(record: Record, sandbox: Sandbox, folder: str, timed_out: bool) -> tuple[str, Statuses]:
    """The whole log of a run, and what its part about tests says."""

    def parsed(log: str) -> Statuses:
        if timed_out:
            return {}
        name = parser_name(record)
        return run_source(sandbox, name, log) if is_source(name) else LOG_PARSERS[name](log)

    whole = _read(sandbox, f"{folder}/log")
    if not record.eval_script:
        tests = _read(sandbox, f"{folder}/{'printed' if record.print_cmds else 'tests'}")
        return f"{whole}\n{tests}".lstrip(), parsed(tests)
    marked = whole.split(BEGIN)[1].split(END)[0] if BEGIN in whole and END in whole else ""
    # Some runners write outside the markers.
    statuses = parsed(marked) or (parsed(whole) if marked else {})
    failed = _read(sandbox, f"{folder}/exit").strip() not in ("", "0")
    if marked and failed and TestStatus.FAILED not in statuses.values():
        # A failing command whose log has no failure: the log is not from that command.
        return whole, {}
    return whole, statuses


MAX_LOG = 32 * 1024 * 1024
"""Bytes; a larger log counts as none: taking it apart needs many times as much memory."""


def _read(sandbox: Sandbox, path: str) -> str:
    with suppress(SandboxFileError):
        return sandbox.read_file(path, MAX_LOG).decode("utf-8", "replace")
    return ""


TEST_TIMEOUT = 1800.0
"""Seconds, as upstream."""
WORKSPACE = ImageWorkspace("/testbed", programs=("/opt/miniconda3/envs/testbed/bin",))
"""SWE-bench's images have a conda environment with that name; SWE-bench-Live's have none."""


@dataclass(eq=False, kw_only=True)
class SweBenchBenchmark(StoredBenchmark):
    """Records from a local file or from the hub; the code of each is in its image.

    A skipped PASS_TO_PASS test counts as passed, one that the log does not name as failed.
    """

    name: ClassVar[str] = "swe_bench"
    path: Path | None = field(default=None, kw_only=False)
    hub_id: str | None = None
    hub_split: str | None = None
    test_timeout: float = TEST_TIMEOUT
    """Seconds, build included."""
    languages: Sequence[Language] = ("python",)
    show_tests: bool = False
    """Whether the workspace has the test patch, which agents otherwise don't see."""

    @cached_property
    def _records(self) -> dict[str, Record]:
        records = read_records(self.path, self.hub_id, self.hub_split)
        for record in records.values():
            check_runnable(record)
        return records

    def _read(self) -> Iterable[Instance]:
        return map(self._instance, self._records.values())

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        record = self._records[instance.id]
        seal_history(sandbox, record.base_commit)
        if self.show_tests:
            lay_out_patch(sandbox, record.test_patch, record.test_files, record.base_commit)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        record = self._records[instance.id]
        return run_record_tests(record, sandbox, list(tests), self.test_timeout)

    def _instance(self, record: Record) -> Instance:
        return Instance(
            id=record.instance_id,
            benchmark=self.name,
            language="java" if self.languages == ("java",) else "python",
            repository=record.repo,
            problem_statement=record.problem_statement,
            fail_to_pass=record.fail_to_pass,
            pass_to_pass=record.pass_to_pass,
            gold_patch=record.patch,
            test_paths=record.test_files,
            image=record.image_name,
            image_workspace=WORKSPACE,
            record=record.digest + ("+tests" if self.show_tests else ""),
            skips_count=True,
            commit=record.base_commit,
        )
