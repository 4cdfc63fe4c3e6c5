"""The classes and methods of a Java source file, as far as finding a test needs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_NOISE = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/',
    re.DOTALL,
)
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_TYPE = re.compile(
    r"\b(?P<kind>class|interface|enum|record|@interface)\s+(?P<name>\w+)"
    r"(?:\s*<[^{]*?>)?(?:\s*\([^{]*\))?(?:[^{;]*?\bextends\s+(?P<parent>[\w.]+))?[^{;]*$",
    re.DOTALL,
)
_METHOD = re.compile(
    r"(?:^|[\s>\]])(?P<name>\w+)\s*\((?P<parameters>[^{}]*)\)\s*(?:throws[\w\s.,@<>]+)?$",
    re.DOTALL,
)
_ANNOTATION = re.compile(r"@(?:[\w.]+\.)?(\w+)")
_KEYWORDS = frozenset(
    ["if", "for", "while", "switch", "catch", "synchronized", "try", "new", "return", "do", "else"]
)
TEST_ANNOTATIONS = frozenset(
    [
        "Test",
        "ParameterizedTest",
        "RepeatedTest",
        "TestFactory",
        "TestTemplate",
        "Theory",
        "Property",
    ]
)


@dataclass(frozen=True)
class Method:
    """One method that has a body."""

    name: str
    test: bool
    """Whether a test framework's annotation marks it."""
    entry: bool
    """Whether a program can start there."""


@dataclass
class JavaClass:
    """One class of a file."""

    name: str
    """As the JVM names it, with its package and its outer classes: `demo.Outer$Inner`."""
    parent: str | None
    """What it extends, as written."""
    concrete: bool
    methods: list[Method] = field(default_factory=list)

    def method(self, name: str) -> Method | None:
        return next((method for method in self.methods if method.name == name), None)

    @property
    def simple_name(self) -> str:
        return re.split(r"[.$]", self.name)[-1]


@dataclass(frozen=True)
class Outline:
    """One source file."""

    package: str
    classes: tuple[JavaClass, ...]
    """Outer classes before their inner ones."""
    imports: tuple[str, ...] = ()


def outline(text: str) -> Outline:
    """Read a file. What is no Java gives few classes or none, never an error."""
    plain = _NOISE.sub(_blank, text)
    match = _PACKAGE.search(plain)
    package = match[1] if match else ""
    imports = re.findall(r"^\s*import\s+(?:static\s+)?([\w.]+)", plain, re.MULTILINE)
    return Outline(package, tuple(_classes(plain, package)), tuple(imports))


def _blank(match: re.Match[str]) -> str:
    """A literal or a comment without what could be taken for code."""
    return '""' if match[0][0] == '"' else " "


def _classes(text: str, package: str) -> Iterator[JavaClass]:
    """Walk the blocks; the text before a block's brace tells what it is.

    What stands in parentheses is passed over: the array of an annotation, a lambda's body.
    """
    open_blocks: list[JavaClass | Literal["other"]] = []
    start = depth = 0
    for match in re.finditer(r"[{}();]", text):
        if match[0] in "()":
            depth = max(0, depth + (1 if match[0] == "(" else -1))
            continue
        if depth:
            continue
        if match[0] == "{":
            block = _block(text[start : match.start()], open_blocks, package)
            open_blocks.append(block or "other")
            if block is not None:
                yield block
        elif match[0] == "}" and open_blocks:
            open_blocks.pop()
        start = match.end()


def _block(head: str, around: list[JavaClass | Literal["other"]], package: str) -> JavaClass | None:
    """The class that a block is the body of; a method is noted with its class."""
    outer = around[-1] if around else None
    if outer == "other":
        return None
    if (declared := _TYPE.search(head)) is not None:
        prefix = f"{outer.name}$" if isinstance(outer, JavaClass) else f"{package}." * bool(package)
        concrete = declared["kind"] in ("class", "record") and "abstract" not in head.split()
        return JavaClass(prefix + declared["name"], declared["parent"], concrete)
    found = _METHOD.search(head)
    if isinstance(outer, JavaClass) and found is not None and found["name"] not in _KEYWORDS:
        outer.methods.append(_method(found["name"], found["parameters"], head))
    return None


def _method(name: str, parameters: str, head: str) -> Method:
    annotations = set(_ANNOTATION.findall(head))
    entry = name == "main" and "static" in head.split() and "String" in parameters
    return Method(name, bool(annotations & TEST_ANNOTATIONS), entry)
