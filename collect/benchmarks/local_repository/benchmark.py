"""A repository of the user's own whose tests fail, as a benchmark of one bug."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from collect.benchmarks.base import Environment, Instance, TestResults
from collect.benchmarks.local_repository.config import RepositoryConfig
from collect.benchmarks.local_repository.finding import Finder
from collect.benchmarks.local_repository.runs import Suite
from collect.benchmarks.local_repository.statement import read_statement
from collect.benchmarks.local_repository.suites import choose_suite
from collect.benchmarks.testing import runner_in
from collect.errors import ConfigError
from collect.factory.config import FactoryConfig, ProjectConfig
from collect.factory.java.layout import without_outputs
from collect.factory.layout import arrange
from collect.factory.project import ProjectRefused, Source
from collect.factory.sources import fetch
from collect.git_clones import is_git_url
from collect.telling import tell
from sandbox import Sandbox, SandboxConfig

ADDOPTS = "PYTEST_ADDOPTS"


class LocalRepositoryBenchmark:
    """The bug of a folder or a git URL."""

    name = "local"

    def __init__(
        self,
        place: str,
        config: RepositoryConfig,
        sandbox: SandboxConfig,
        *,
        test_timeout: float,
        java: bool = False,
    ) -> None:
        """`sandbox` is where the tests are run to find those that fail; `test_timeout` is in
        seconds, for one run of them; `java`: its Java tests, whatever other tests there are."""
        self.place = place
        self.config = config
        self.sandbox = sandbox
        self.test_timeout = test_timeout
        self.java = java

    def instances(self) -> Sequence[Instance]:
        return (self._found[0],)

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return self._found[1].run(instance, sandbox, list(tests), self.test_timeout)

    @cached_property
    def _found(self) -> tuple[Instance, Suite]:
        """The bug and its tests. Raises ConfigError, SandboxError."""
        told = self.config.problem_statement
        statement = None if told is None else read_statement(told)
        project = self._project()
        source = fetch(project, FactoryConfig(max_tree_mb=self.config.max_tree_mb))
        bare = _without_tests(source)
        suite = choose_suite(bare, self.config.test_command, self.java)
        environment = self._environment(project, source, suite)
        if suite.language == "python":
            self._refuse_own_runner(source.files, environment.import_paths)
        bare = replace(
            bare, language=suite.language, test_paths=suite.test_paths, environment=environment
        )
        finder = Finder(suite, self.sandbox, self.test_timeout, self.config.fail_to_pass)
        found = finder.find(bare)
        instance = replace(
            bare,
            problem_statement=statement or found.statement,
            fail_to_pass=found.fail_to_pass,
            pass_to_pass=found.pass_to_pass,
        )
        return instance, suite

    def _project(self) -> ProjectConfig:
        config = self.config
        from_git = is_git_url(self.place) or config.commit is not None
        return ProjectConfig(
            git=self.place if from_git else None,
            revision=config.commit,
            folder=None if from_git else self.place,
            packages=config.packages,
            import_paths=config.import_paths,
        )

    def _refuse_own_runner(self, files: Iterable[str], import_paths: Sequence[str]) -> None:
        own = runner_in(files, import_paths)
        if own is not None:
            raise ConfigError(
                f"{self.place}: {own}: the tests of pytest, and of the packages it is made of, "
                "can't be judged: they would be run by, and test, the pytest that is installed; "
                "take another repository, or rename this module if it is none of pytest's"
            )

    def _environment(self, project: ProjectConfig, source: Source, suite: Suite) -> Environment:
        """What the tests need, installed where it is in Python. Raises ConfigError."""
        own = self.config.variables
        if suite.language == "java":
            return Environment(variables=own)
        tests = suite.test_paths or (".",)
        wanted = project.model_copy(update={"tests": tests})
        try:
            arranged = arrange(wanted, source, self.sandbox)
        except ProjectRefused as error:
            told = "benchmark.packages says what to install instead, [] for nothing"
            raise ConfigError(f"{error}; {told}") from error
        for note in arranged.notes:
            tell(f"{source.name}: {note}; benchmark.packages says what to install instead")
        environment = arranged.environment
        variables = _variables(environment.variables, suite.options, own)
        return replace(environment, variables=variables)


def _without_tests(source: Source) -> Instance:
    """The bug as far as its files tell."""
    return Instance(
        id=re.sub(r"[^\w.-]+", "-", source.slug),
        benchmark=LocalRepositoryBenchmark.name,
        language="python",
        repository=source.name,
        problem_statement="",
        fail_to_pass=(),
        pass_to_pass=(),
        gold_patch="",
        files=without_outputs(source.files),
        commit=source.origin.rpartition("@")[2] if source.origin.startswith("git:") else "",
    )


def _variables(
    needed: Mapping[str, str], options: Sequence[str], own: Mapping[str, str]
) -> dict[str, str]:
    """What pytest needs, the command's options and the user's variables, which come last."""
    options_of_all = (needed.get(ADDOPTS, ""), shlex.join(options), own.get(ADDOPTS, ""))
    return {**needed, **own, ADDOPTS: " ".join(filter(None, options_of_all))}
