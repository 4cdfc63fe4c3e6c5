"""What a client sets for its own next starts: the interpreter, packages, pytest's options,
variables and a time limit. Only MCP clients have this tool; no model is trained on it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from collect.agents.tools import Arguments, ToolReply
from collect.benchmarks.config import RepositoryConfig
from collect.errors import ConfigError, wrong_fields
from collect.store.records import ToolOutcome
from sandbox.base import PackageName
from sandbox.errors import SandboxError
from sandbox.languages.python.pytest_options import ADDOPTS

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
STEERING = re.compile(r"PATH|HOME|TMPDIR|LD_\w+|CLASSPATH|MAVEN_\w+|GRADLE_\w+")
"""Variables by which StepInto's own programs in a sandbox find what they run and load."""
MOST_CHARACTERS = 30_000
"""Of all variables, and of all options of pytest."""
LONGEST_CALL = 600.0


def _require_variables(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Returns them. Raises ValueError."""
    for name in variables:
        is_steering = STEERING.fullmatch(name) or "JAVA" in name or name == ADDOPTS
        if not VARIABLE.fullmatch(name) or is_steering:
            raise ValueError(f"{name!r} can't be set: give `pytest_options`, or another variable")
    _require_texts(variables.values())
    return variables


def _require_texts(texts: Collection[str]) -> Collection[str]:
    """Returns them. Raises ValueError for what no program can be given."""
    if any("\0" in text for text in texts):
        raise ValueError("it holds a NUL character: leave it out")
    if sum(map(len, texts)) > MOST_CHARACTERS:
        raise ValueError(f"it has more than {MOST_CHARACTERS} characters: put them into a file")
    return texts


Variables = Annotated[Mapping[str, str], AfterValidator(_require_variables)]


class EnvironmentArguments(Arguments):
    python: Annotated[
        str | None,
        Field(pattern=r"^3\.\d{1,2}$", description="CPython on this machine, such as '3.11'."),
    ] = None
    packages: Annotated[
        tuple[PackageName, ...],
        Field(
            max_length=200,
            description="Installed besides what the repository declares, by name and version "
            "bounds, such as 'numpy>=2'.",
        ),
    ] = ()
    pytest_options: Annotated[
        tuple[str, ...],
        AfterValidator(_require_texts),
        Field(description="Added to pytest's options, such as '-p', 'acme.plugin'."),
    ] = ()
    variables: Annotated[
        Variables | None, Field(description="Environment variables of the tests, by name.")
    ] = None
    seconds: Annotated[
        float | None,
        Field(
            gt=0,
            le=LONGEST_CALL,
            description="Time limit of one call: of a start to its first stop, and of any other "
            "action, after which the program is interrupted.",
        ),
    ] = None

    def applied_to(self, config: RepositoryConfig) -> RepositoryConfig:
        """The server's own settings with these. Raises ConfigError."""
        given = {**(self.variables or {})}
        options = (config.variables.get(ADDOPTS, ""), shlex.join(self.pytest_options))
        if self.pytest_options:
            given[ADDOPTS] = " ".join(filter(None, options))
        changed: dict[str, object] = {"variables": {**config.variables, **given}}
        changed["more_packages"] = (*config.more_packages, *self.packages)
        changed |= {} if self.python is None else {"python": self.python}
        try:
            return type(config).model_validate({**config.model_dump(), **changed})
        except ValidationError as error:
            raise ConfigError("; ".join(wrong_fields(error, type(config)))) from error

    @property
    def is_for_python(self) -> bool:
        return self.python is not None or self.packages != () or self.pytest_options != ()

    def __str__(self) -> str:
        given = self.model_dump(mode="json", exclude_defaults=True)
        return ", ".join(f"{name} = {value}" for name, value in given.items()) or "nothing of yours"


@dataclass(frozen=True)
class SetEnvironment:
    """The tool. `use` carries it out, and returns what else there is to say."""

    use: Callable[[EnvironmentArguments], str]
    name: str = "debug_environment"
    description: str = (
        "Set what the tests run with in your next starts and questions, if a start shows that they "
        "lack something. Each call sets all of it: what it leaves out is as the server was started "
        "with. Packages are installed at once, which may take minutes."
    )
    arguments: type[Arguments] = EnvironmentArguments

    def call(self, arguments: EnvironmentArguments, call_id: str) -> ToolReply:
        try:
            more = self.use(arguments)
        except (ConfigError, SandboxError) as error:
            told = f"Error: {error}. Nothing has changed."
            return ToolReply(told, ToolOutcome.ERROR)
        return ToolReply(f"Set for your next starts: {arguments}.{more}")
