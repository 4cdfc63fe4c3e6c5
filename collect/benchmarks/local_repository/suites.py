"""Which tests a repository has, or a test command names."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from collect.benchmarks.base import Instance
from collect.benchmarks.local_repository.java_suite import JavaSuite, java_test_paths
from collect.benchmarks.local_repository.python_suites import CommandSuite, PytestSuite
from collect.benchmarks.local_repository.runs import Suite
from collect.errors import ConfigError
from collect.factory.layout import find_test_paths
from sandbox.debugger.targets import TargetError, parse_target
from sandbox.java.scan import GRADLE_FILES

BUILD_FILES = ("pom.xml", *GRADLE_FILES)
BUILD_TOOLS = frozenset({"mvn", "mvnw", "gradle", "gradlew"})
BUILD_WORDS = frozenset({"clean", "test", "check", "verify", "build", "-q", "--quiet"})
"""What the command of a build tool may say: none of it changes which tests there are."""
ACCEPTED = (
    "give `pytest`, `python FILE` or `python -m MODULE`, with arguments, or `mvn test` or "
    "`gradle test`; variables have a key of their own, benchmark.variables"
)


def choose_suite(instance: Instance, command: str | None, java: bool) -> Suite:
    """The tests of a repository's tree, which `instance` has; `java`: those in Java.

    Raises ConfigError where there are none, or no debug session could be started on the command.
    """
    if command is None:
        return _found(instance, java)
    suite = _named(instance, command, _words(command))
    if java and suite.language != "java":
        raise ConfigError(
            f"benchmark.test_command {command!r} runs tests in Python, and benchmark.language is "
            "java: leave one of them out"
        )
    return suite


def _found(instance: Instance, java: bool) -> Suite:
    paths = tuple(find_test_paths(instance.files))
    if paths and not java:
        return PytestSuite(paths, paths)
    if java or any(posixpath.basename(path) in BUILD_FILES for path in instance.files):
        return _java(instance)
    raise ConfigError(
        f"{instance.repository}: no tests among its {len(instance.files)} files: there is no "
        "test_*.py or *_test.py, and no Java build file; benchmark.path names a bugs.jsonl, its "
        "folder, or a repository, and benchmark.test_command says how else its tests are run"
    )


def _java(instance: Instance) -> Suite:
    if not java_test_paths(instance.files):
        raise ConfigError(
            f"{instance.repository}: no Java tests among its {len(instance.files)} files: none of "
            "JUnit's or TestNG's annotations stands in a .java file"
        )
    return JavaSuite(replace(instance, language="java"))


def _named(instance: Instance, command: str, words: Sequence[str]) -> Suite:
    if posixpath.basename(words[0]) in BUILD_TOOLS:
        strange = [word for word in words[1:] if word not in BUILD_WORDS]
        if strange:
            raise ConfigError(
                f"benchmark.test_command {command!r}: {strange[0]} is not passed on: all tests are "
                "run; name some in benchmark.fail_to_pass, and give options of the build tool in "
                "sandbox.java"
            )
        return _java(instance)
    python = posixpath.basename(words[0]).startswith("python")
    rest = list(words[1:] if python else words)
    if python and rest[:1] == ["-m"]:
        rest = rest[1:]
    if rest and rest[0] in ("pytest", "py.test"):
        return _pytest(instance, command, rest[1:])
    if not python:
        raise ConfigError(
            f"benchmark.test_command {command!r}: no debug session can be started on it: {ACCEPTED}"
        )
    return _python(instance, command)


def _pytest(instance: Instance, command: str, words: Sequence[str]) -> PytestSuite:
    """pytest's paths, and the options that every run of it gets."""
    paths, options = [], []
    before = ""
    for word in words:
        if _is_there(word.partition("::")[0], instance.files):
            paths.append(word.rstrip("/"))
        elif word.startswith("-") or (before.startswith("-") and "=" not in before):
            options.append(word)
        else:
            raise ConfigError(
                f"benchmark.test_command {command!r}: {word} is no file, folder or test of "
                f"{instance.repository}"
            )
        before = word
    known = tuple(find_test_paths(instance.files))
    named = [path.partition("::")[0] for path in paths if path != "."]
    if not known and not named:
        raise ConfigError(
            f"{instance.repository}: no test_*.py or *_test.py among its {len(instance.files)} "
            "files; name the files or folders of its tests in benchmark.test_command"
        )
    every = tuple(dict.fromkeys((*known, *named)))
    return PytestSuite(tuple(paths) or known, every, tuple(options))


def _python(instance: Instance, command: str) -> Suite:
    try:
        target = parse_target(command)
    except TargetError as error:
        raise ConfigError(
            f"benchmark.test_command {command!r}: {error}; unittest's tests are run by pytest, "
            f"without any benchmark.test_command; else {ACCEPTED}"
        ) from error
    script = target.names[0] if target.kind in ("script", "pytest") else None
    if script is not None and script not in instance.files:
        raise ConfigError(
            f"benchmark.test_command {command!r}: {script} is no file of {instance.repository}"
        )
    own = [script] if script is not None else []
    return CommandSuite(command, tuple(dict.fromkeys((*find_test_paths(instance.files), *own))))


def _is_there(path: str, files: Mapping[str, bytes]) -> bool:
    folder = path.rstrip("/")
    return path in (".", "./") or path in files or any(f.startswith(f"{folder}/") for f in files)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"benchmark.test_command {command!r}: {error}") from error
    if not words:
        raise ConfigError(f"benchmark.test_command is empty: {ACCEPTED}")
    return words
