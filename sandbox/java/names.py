"""Reads what a launch names: a test, a main class, or the build tool's command for a test."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass

from sandbox.java.errors import NoSuchTest

ACCEPTED = (
    "give a test (demo.CartTest#testTotal, CartTest, src/test/java/demo/CartTest.java::testTotal), "
    "the command that runs it (mvn test -Dtest=..., gradle test --tests ...), or a main class or "
    "its file with its arguments (demo.Main 1 2)"
)
MAX_CHARACTERS = 4_000
NAME = re.compile(r"[\w.$/*-]+")


@dataclass(frozen=True)
class Named:
    """What a text names, not looked up yet."""

    name: str
    """A class, a class and a method joined by a dot, a method, or a file's path."""
    method: str | None = None
    """Where it is told apart from the class."""
    arguments: tuple[str, ...] = ()
    """Of a main class."""
    main: bool = False
    """Whether it can only be a main class."""
    module: str | None = None
    """A build tool's module: its folder, or its path with colons as slashes."""


def parse_name(text: str) -> Named:
    """Read a launch's `test`. Raises NoSuchTest where it names nothing."""
    if len(text) > MAX_CHARACTERS:
        raise NoSuchTest(f"a test of {len(text)} characters names no test: {ACCEPTED}")
    words = _words(text)
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if not words:
        raise NoSuchTest(f"{text!r} names no test: {ACCEPTED}")
    program = posixpath.basename(words[0])
    if program in ("mvn", "mvnw"):
        return _maven(words[1:])
    if program in ("gradle", "gradlew"):
        return _gradle(words[1:])
    if program == "java" and len(words) > 1:
        return _java(words[1:])
    named = _split_method(words[0])
    arguments = tuple(words[1:])
    return Named(named.name, named.method, arguments, main=bool(arguments))


def _words(text: str) -> list[str]:
    """Words as a shell splits them; one test's parameter list stays in one."""
    joined = re.sub(r"\([^()]*\)\s*$", "", text.strip())
    try:
        return shlex.split(joined)
    except ValueError:
        return joined.split()


def _split_method(text: str) -> Named:
    """`Class#method`, `Class::method`, with a parameter list, an invocation's index or a line."""
    plain = re.sub(r"(\(.*\)|\[.*\]|(?<=\.java):\d+)+$", "", text.strip())
    name, _, method = plain.replace("::", "#").partition("#")
    if not NAME.fullmatch(name) or (method and not re.fullmatch(r"[\w$*]+", method)):
        raise NoSuchTest(f"{text!r} names no test: {ACCEPTED}")
    return Named(name, method or None)


def _maven(words: list[str]) -> Named:
    test = module = None
    rest = iter(words)
    for word in rest:
        if match := re.match(r"-D(?:it\.)?test=(.+)", word):
            test = re.split(r"[,+]", match[1])[0]
        elif word in ("-pl", "--projects"):
            module = next(rest, "").split(",")[0]
        elif word in ("-f", "--file"):
            module = posixpath.dirname(next(rest, ""))
    if not test:
        raise NoSuchTest(f"the command names no test: add -Dtest=Class#method, or {ACCEPTED}")
    return _in_module(test, module)


def _gradle(words: list[str]) -> Named:
    test = module = None
    rest = iter(words)
    for word in rest:
        if word == "--tests":
            test = next(rest, "")
        elif word.startswith("--tests="):
            test = word.removeprefix("--tests=")
        elif word in ("-p", "--project-dir"):
            module = next(rest, "")
        elif ":" in word and not word.startswith("-"):
            module = word.rpartition(":")[0]
    if not test:
        raise NoSuchTest(f"the command names no test: add --tests Class.method, or {ACCEPTED}")
    return _in_module(test, module)


def _in_module(test: str, module: str | None) -> Named:
    named = _split_method(test)
    folder = module.strip(":./").replace(":", "/") if module else None
    return Named(named.name, named.method, module=folder or None)


def _java(words: list[str]) -> Named:
    rest = iter(words)
    for word in rest:
        if word in ("-cp", "-classpath", "--class-path"):
            next(rest, None)
        elif word == "-jar":
            raise NoSuchTest(f"a jar can't be debugged from its sources: {ACCEPTED}")
        elif not word.startswith("-"):
            named = _split_method(word)
            return Named(named.name, named.method, tuple(rest), main=True)
    raise NoSuchTest(f"the command names no main class: {ACCEPTED}")
