"""Real projects at pinned revisions: which of them start at the first try, and how fast.

    python -m benchmarks.projects
    python -m benchmarks.projects --only anyio --only gson --no-plain
    python -m benchmarks.projects --language python --factory > listed.yaml

Each project of projects.yaml is cloned, and its named test started by an MCP client of
`stepinto mcp --repo FOLDER`, with no setting. For the comparison the same test also runs as its
developers run it: in another clone, by pytest in an environment that the project's own means made,
or by Maven or Gradle. That runs the projects' code on this machine, outside a sandbox: `--no-plain`
leaves it out. `--factory` only prints a config with which `stepinto bench make` makes bugs of them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Literal

import yaml
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import BaseModel, ConfigDict, TypeAdapter
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from sandbox.debugger import State
from sandbox.debugger.rendering import read_state

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".yaml")
FOLDER = ROOT / ".cache" / "projects"
GRADLE_FILES = ("build.gradle", "build.gradle.kts")
CALL_LIMIT, PLAIN_LIMIT, INSTALL_LIMIT = 900.0, 600.0, 1800.0
"""Seconds for one call of a tool, one plain run, and the making of an environment."""
SHOWN = 4000
"""Characters of an answer or an output that are kept."""
SETTINGS = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHON", "PYTEST", "STEPINTO", "MAVEN", "GRADLE")
"""Variables whose names begin so would be a setting."""
EDITS = {"python": "\n# Edited.\n", "java": "\n// Edited.\n"}
HAS = (
    "{each.name.lower().replace('_', '-') for each in "
    "__import__('importlib.metadata').metadata.distributions() if each.name}"
)
"""In Python, the names of the installed distributions."""


class Project(BaseModel):
    """One entry of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    language: Literal["python", "java"] = "python"
    url: str
    """Of its git repository."""
    revision: str
    test: str
    """As its runner names it: a node id of pytest's, or `package.Class#method`."""
    install: str = ""
    """The command that makes an environment for the tests of what it declares, by uv (Python)."""
    python: str | None = None
    """The version of CPython that it needs, if not the one that runs this."""
    shows: str
    """Why it is in the list."""

    def test_file(self, checkout: Path) -> str:
        """The path of its test's file. Raises FileNotFoundError."""
        if self.language == "python":
            return self.test.partition("::")[0]
        name = re.split("[#$]", self.test)[0].replace(".", "/")
        for path in sorted(checkout.rglob(f"{name}.java")):
            return str(path.relative_to(checkout))
        raise FileNotFoundError(f"{self.name}: no {name}.java in {checkout}")


class Outcome(BaseModel):
    """What was measured of one project. Times are in seconds."""

    project: Project
    started: bool = False
    """At the first try: paused in the test's own file."""
    answer: str = ""
    """The first answer."""
    log: str = ""
    """What the first server wrote to stderr."""
    cold: float | None = None
    """The first start of all, which installs what is missing and is not yet cached."""
    stops: list[float] = []
    """First stops of later servers, the environment being ready."""
    restarts: list[float] = []
    """Starts after an edit, by the same servers."""
    plain: list[float] = []
    """Runs by the project's own runner."""
    plain_error: str
    """Why there is no plain run; empty if there are some."""
    installed: str = ""
    """How many distributions the session has."""
    lacks: str = ""
    """Those of the plain environment that the session lacks."""

    @property
    def why_not(self) -> str:
        """Why it did not start, in a few words."""
        if self.started:
            return ""
        lines = [line for line in (self.answer or self.log).splitlines() if line.strip()]
        words = " ".join(lines) if self.answer else "".join(lines[-1:])
        return words[:300] or "no answer"


def read_list(path: Path) -> list[Project]:
    """The projects of a list. Raises ValidationError."""
    return TypeAdapter(list[Project]).validate_python(yaml.safe_load(path.read_text("utf-8")))


# Clones.


def git(*arguments: str, folder: Path) -> None:
    """Run git. Raises CalledProcessError."""
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def clone(project: Project, mirrors: Path | None, folder: Path) -> None:
    """Make the folder a clone of the project at its revision, and of nothing else. Raises
    CalledProcessError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    git("clone", "--quiet", "--no-checkout", source(project, mirrors), ".", folder=folder)
    git("checkout", "--quiet", "--detach", project.revision, folder=folder)


def source(project: Project, mirrors: Path | None) -> str:
    """Where to clone from: the URL, or its mirror, a folder named OWNER+NAME or the folder `repo`
    in it."""
    if mirrors is None:
        return project.url
    mirror = mirrors / "+".join(project.url.removesuffix(".git").split("/")[-2:])
    return str(mirror / "repo" if (mirror / "repo").is_dir() else mirror)


# Our door.


@asynccontextmanager
async def serving(checkout: Path, log: Path) -> AsyncIterator[Client]:
    """A client of a server on the repository that has no setting. What the server writes to stderr
    goes to the log."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)
    }
    command = [str(ROOT / "stepinto.py"), "mcp", "--repo", str(checkout)]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment)
    with log.open("w") as errors:
        async with Client(stdio_client(server, errlog=errors), mode="legacy") as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a tool's answer. Raises TimeoutError."""
    async with asyncio.timeout(CALL_LIMIT):
        result = await client.call_tool(tool, arguments)
    return "".join(each.text for each in result.content if each.type == "text")


async def start(client: Client, project: Project) -> tuple[float, str]:
    """Start a session on the project's test: the seconds to its first stop, and the answer."""
    began = time.perf_counter()
    answer = await call(client, "debug_start_session", test=project.test)
    return time.perf_counter() - began, answer


async def evaluate(client: Client, expression: str) -> str:
    """The expression's value in the paused program, as Python writes it."""
    answer = await call(client, "debug_inspect", what="evaluate", expression=expression)
    return answer.partition(" = ")[2].partition("  (")[0]


def is_in_test(answer: str, file: str) -> bool:
    """Whether a start's answer is a pause in the test's own file, or in a doctest."""
    if read_state(answer, start=True) is not State.RUNTIME:
        return False
    return answer.startswith((f"Paused at {file}:", "Paused at <doctest "))


async def first_try(outcome: Outcome, checkout: Path, log: Path, plain: Sequence[str]) -> None:
    """Start the test for the first time. `plain` has the distributions of the environment to
    compare with."""
    project = outcome.project
    async with serving(checkout, log) as client:
        outcome.cold, answer = await start(client, project)
        outcome.answer = answer[:SHOWN]
        outcome.started = is_in_test(answer, project.test_file(checkout))
        if outcome.started and project.language == "python":
            outcome.installed = await evaluate(client, f"len({HAS})")
            lacking = f"' '.join(sorted(set({' '.join(plain)!r}.split()) - {HAS}))"
            outcome.lacks = await evaluate(client, lacking) if plain else ""


async def later_try(outcome: Outcome, checkout: Path, log: Path) -> None:
    """Time a start by a new server, and one after an edit of the test's file."""
    project = outcome.project
    file = project.test_file(checkout)
    async with serving(checkout, log) as client:
        seconds, answer = await start(client, project)
        if is_in_test(answer, file):
            outcome.stops.append(seconds)
        with (checkout / file).open("a") as edited:
            edited.write(EDITS[project.language])
        seconds, answer = await start(client, project)
        if is_in_test(answer, file):
            outcome.restarts.append(seconds)


# The projects' own runners.


def run(command: Sequence[str], folder: Path, limit: float, **variables: str) -> float:
    """Run a command of the project's on this machine, and give the seconds. Raises PlainFailed."""
    began = time.perf_counter()
    try:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **variables},
            timeout=limit,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except subprocess.CalledProcessError as error:
        raise PlainFailed(f"{' '.join(command)}: {error.output[-SHOWN:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlainFailed(str(error)) from error
    return time.perf_counter() - began


class PlainFailed(Exception):
    """A project can't be run by its own means here; the message is the program's."""


class Plain:
    """A project as its developers run it. The first use sets it up, which may take minutes."""

    def __init__(self, project: Project, mirrors: Path | None, folder: Path) -> None:
        self.project, self.mirrors = project, mirrors
        self.checkout = folder / "plain" / project.name
        self.environment = folder / "environments" / project.name
        self.tools, self.maven = folder / "tools", folder / "maven"

    def prepare(self) -> None:
        """Set it up, if that is not done, and run the test once, which compiles. Raises
        PlainFailed, CalledProcessError."""
        ready = self.environment / "ready"
        made_of = f"{self.project.revision}\n{self.project.python}\n{self.project.install}"
        if not ready.exists() or ready.read_text() != made_of:
            clone(self.project, self.mirrors, self.checkout)
            shutil.rmtree(self.environment, ignore_errors=True)
            self.environment.mkdir(parents=True)
            if self.project.language == "python":
                self._install()
            ready.write_text(made_of)
        self.test(INSTALL_LIMIT)

    def test(self, limit: float = PLAIN_LIMIT) -> float:
        """Run the test, and give the seconds; `limit` is in seconds. Raises PlainFailed."""
        if self.project.language == "python":
            return self._in_environment(["pytest", self.project.test], limit)
        return run(self.build(), self.checkout, limit)

    def distributions(self) -> list[str]:
        """The names of what is installed in the environment, without pip."""
        if self.project.language != "python":
            return []
        python = str(self.environment / "bin" / "python")
        code = f"print(*sorted({HAS} - {{'pip', 'setuptools', 'wheel'}}))"
        return subprocess.check_output([python, "-c", code], text=True).split()

    def _install(self) -> None:
        if self.project.install.startswith("uv ") and not self.tools.exists():
            subprocess.run([sys.executable, "-m", "venv", self.tools], check=True)
            subprocess.run([self.tools / "bin" / "pip", "install", "-q", "uv"], check=True)
        python = find_python(self.project.python) if self.project.python else sys.executable
        run([python, "-m", "venv", str(self.environment)], self.checkout, INSTALL_LIMIT)
        self._in_environment(["sh", "-c", self.project.install], INSTALL_LIMIT)

    def _in_environment(self, command: Sequence[str], limit: float) -> float:
        """Run a command as in a shell in which the environment is active."""
        path = f"{self.environment / 'bin'}:{self.tools / 'bin'}:{os.environ['PATH']}"
        home = str(self.environment)
        variables = {"VIRTUAL_ENV": home, "UV_PROJECT_ENVIRONMENT": home, "PATH": path}
        return run(command, self.checkout, limit, **variables)

    def build(self) -> list[str]:
        """The command of Maven or Gradle for the test alone."""
        file = self.checkout / self.project.test_file(self.checkout)
        module = next(folder for folder in file.parents if builds(folder))
        inside = module.relative_to(self.checkout)
        test = self.project.test
        if (module / "pom.xml").exists():
            choice = [f"-Dtest={test}", "-Dsurefire.failIfNoSpecifiedTests=false"]
            options = ["-B", "-q", f"-Dmaven.repo.local={self.maven}", *choice]
            return ["mvn", *options, "-pl", str(inside), "-am", "test"]
        wrapper = self.checkout / "gradlew"
        gradle = str(wrapper) if wrapper.exists() else "gradle"
        task = ":".join(["", *inside.parts, "test"])
        return [gradle, "-q", task, "--rerun-tasks", "--tests", test.replace("#", ".")]


def builds(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("pom.xml", *GRADLE_FILES))


def find_python(version: str) -> str:
    """A CPython of this version, on PATH or of pyenv's. Raises PlainFailed."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}", path=os.environ["PATH"])
    pyenv = [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"))]
    for python in [*pyenv, *([found] if found else [])]:
        return python
    raise PlainFailed(f"there is no python{version} on this machine")


# One project, and all.


def measure(
    project: Project, folder: Path, mirrors: Path | None, rounds: int, with_plain: bool
) -> Outcome:
    """Start a project for the first time; then, in turn with plain runs, some times more. Raises
    CalledProcessError if it can't be cloned."""
    outcome = Outcome(project=project, plain_error="" if with_plain else "left out")
    plain, distributions = Plain(project, mirrors, folder), list[str]()
    if with_plain:
        with plain_errors(outcome):
            plain.prepare()
            distributions = plain.distributions()
    checkout, log = folder / "repositories" / project.name, folder / "server.log"
    clone(project, mirrors, checkout)
    with server_errors(outcome):
        asyncio.run(first_try(outcome, checkout, log, distributions))
    outcome.log = log.read_text(errors="replace")[-SHOWN:]
    for _ in range(rounds if outcome.started else 0):
        if not outcome.plain_error:
            with plain_errors(outcome):
                outcome.plain.append(plain.test())
        with server_errors(outcome):
            asyncio.run(later_try(outcome, checkout, log))
    return outcome


@contextmanager
def plain_errors(outcome: Outcome) -> Iterator[None]:
    """Note why a project does not run by its own means."""
    try:
        yield
    except PlainFailed as error:
        outcome.plain_error = str(error)


@contextmanager
def server_errors(outcome: Outcome) -> Iterator[None]:
    """Tell of a server that ends or does not answer: the project has not started, then."""
    try:
        yield
    except Exception as error:  # of the client, in groups
        print(f"{outcome.project.name}: {error!r}", file=sys.stderr)


def seconds(values: Sequence[float]) -> str:
    return f"{median(values):.1f}" if values else ""


def ratio(values: Sequence[float], plain: Sequence[float]) -> str:
    return f"{median(values) / median(plain):.2f}" if values and plain else ""


COLUMNS: Mapping[str, Callable[[Outcome], str]] = {
    "project": lambda each: each.project.name,
    "started": lambda each: "yes" if each.started else "no",
    "very first, s": lambda each: "" if each.cold is None else f"{each.cold:.1f}",
    "plain, s": lambda each: seconds(each.plain),
    "first stop, s": lambda each: seconds(each.stops),
    "ratio": lambda each: ratio(each.stops, each.plain),
    "after an edit, s": lambda each: seconds(each.restarts),
    "ratio of it": lambda each: ratio(each.restarts, each.plain),
    "distributions": lambda each: each.installed,
    "why not, or what is lacking": lambda each: each.why_not or each.lacks,
}


def table(outcomes: Sequence[Outcome]) -> Table:
    """A row a project, in Markdown."""
    shown = Table(*COLUMNS, box=MARKDOWN)
    for outcome in outcomes:
        shown.add_row(*(cell(outcome).replace("|", "\\|") for cell in COLUMNS.values()))
    return shown


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many started, by language."""
    lines = []
    for language in ("python", "java"):
        tried = [each for each in outcomes if each.project.language == language]
        started = sum(each.started for each in tried)
        if tried:
            lines.append(f"{language}: {started} of {len(tried)} started at the first try")
    return "\n".join(lines)


def factory_config(projects: Sequence[Project], mirrors: Path | None) -> dict[str, object]:
    """A config with which `stepinto bench make` makes bugs of these projects."""
    listed = [
        {"git": source(project, mirrors), "revision": project.revision, "name": project.name}
        for project in projects
    ]
    return {"run": "listed", "stages": ["make"], "factory": {"projects": listed}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.projects", description=__doc__)
    parser.add_argument("--list", type=Path, default=LIST, help="the projects")
    parser.add_argument("--only", action="append", metavar="NAME", help="one project, repeatable")
    parser.add_argument("--language", choices=["python", "java"])
    parser.add_argument("--no-plain", action="store_true", help="no runs outside the sandbox")
    parser.add_argument("--mirrors", type=Path, metavar="FOLDER", help="clones, as OWNER+NAME")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for clones and environments")
    parser.add_argument("--factory", action="store_true", help="print a config of bench make")
    parser.add_argument("--rounds", type=int, default=3, help="after the first try")
    options = parser.parse_args()
    projects = [
        each
        for each in read_list(options.list)
        if each.name in (options.only or [each.name])
        and each.language == (options.language or each.language)
    ]
    if options.factory:
        print(yaml.safe_dump(factory_config(projects, options.mirrors), sort_keys=False), end="")
        return
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for number, project in enumerate(projects, 1):
        print(f"{number} of {len(projects)}: {project.name}", file=sys.stderr)
        mirrors = options.mirrors.resolve() if options.mirrors else None
        outcomes.append(measure(project, folder, mirrors, options.rounds, not options.no_plain))
        stored = TypeAdapter(list[Outcome]).dump_json(outcomes, indent=1)
        (folder / "results.json").write_bytes(stored)
    print(f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}\n")
    Console(width=240).print(table(outcomes))
    print(f"\n{summary(outcomes)}\n{folder / 'results.json'} has the answers whole")


if __name__ == "__main__":
    main()
