"""Which tests a repository has, or a test command names."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from collect.benchmarks.base import Instance
from collect.benchmarks.local_repository.java_suite import JavaSuite, java_test_paths
from collect.benchmarks.local_repository.python_suites import (
    CommandSuite,
    PytestSuite,
    split_options,
)
from collect.benchmarks.local_repository.runs import Suite
from collect.errors import ConfigError
from collect.factory.layout import find_test_paths
from sandbox.debugger.targets import TargetError, parse_target
from sandbox.java.scan import GRADLE_FILES

BUILD_FILES = ("pom.xml", *GRADLE_FILES)
BUILD_TOOLS = frozenset({"mvn", "mvnw", "gradle", "gradlew"})
BUILD_WORDS = frozenset({"clean", "test", "check", "verify", "build", "-q", "--quiet"})
"""What the command of a build tool may say: none of it changes which tests there are."""
SHELL = "|&;<>"
"""What a shell would read as more than one command, or as a file to read or write."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
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
    options, rest = split_options(words[1:]) if python else ([], list(words))
    if python and rest[:1] == ["-m"]:
        rest = rest[1:]
    if rest and rest[0] in ("pytest", "py.test"):
        if options:
            raise ConfigError(
                f"benchmark.test_command {command!r}: Python is started without {options[0]}: "
                "leave it out; pytest has a -W of its own, and benchmark.variables takes PYTHON..."
            )
        return _pytest(instance, command, rest[1:])
    if not python:
        raise ConfigError(
            f"benchmark.test_command {command!r}: no debug session can be started on it: {ACCEPTED}"
        )
    return _python(instance, command, words)


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


def _python(instance: Instance, command: str, words: Sequence[str]) -> Suite:
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
    own = [script] if script is not None else _of_module(words, instance.files)
    return CommandSuite(command, tuple(dict.fromkeys((*find_test_paths(instance.files), *own))))


def _of_module(words: Sequence[str], files: Mapping[str, bytes]) -> list[str]:
    """The files that `-m MODULE` runs, and the folder that unittest looks for tests in."""
    _, named = split_options(words[1:])
    module, arguments = named[1].replace(".", "/"), named[2:]
    places = [f"{module}.py", f"{module}/__main__.py"]
    if named[1] == "unittest":
        places = [
            word.rstrip("/")
            for before, word in pairwise(arguments)
            if before in ("-s", "--start-directory", "discover")
        ]
    return [path for path in places if path not in (".", "") and _is_there(path, files)]


def _is_there(path: str, files: Mapping[str, bytes]) -> bool:
    folder = path.rstrip("/")
    return path in (".", "./") or path in files or any(f.startswith(f"{folder}/") for f in files)


def _words(command: str) -> list[str]:
    """The words of one plain command. Raises ConfigError where it is none."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=SHELL)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        operators = [word for word in lexer if word and set(word) <= set(SHELL)]
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"benchmark.test_command {command!r}: {error}") from error
    if not words:
        raise ConfigError(f"benchmark.test_command is empty: {ACCEPTED}")
    if operators:
        raise ConfigError(
            f"benchmark.test_command {command!r}: {operators[0]!r} is for a shell, and the command "
            "is run without one: give one command, whose files the program itself opens"
        )
    if words[0] == "env" or ASSIGNMENT.match(words[0]):
        raise ConfigError(
            f"benchmark.test_command {command!r} sets variables: give them in benchmark.variables"
        )
    return words
