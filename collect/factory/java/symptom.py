"""What is seen of a Java bug from outside: the test that fails, and how."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from collect.factory.java.failures import Failure, Frame
from collect.java_tree import line_of, parse, text_of, walk, words

_WORD = re.compile(r"[A-Za-z_]\w*")
_WRAPPERS = words("try_statement for_statement while_statement enhanced_for_statement if_statement")
_BUILT_IN = words(
    "java lang util String Object Integer Long Double Math List Map Set Optional Arrays Objects "
    "Collections run accept apply get test call invoke invoke0 forEach"
)


@dataclass(frozen=True)
class JavaSymptom:
    """How one bug shows."""

    project: str
    tests: tuple[str, ...]
    failure: Failure
    method: Node | None
    """The first failing test's method; None where it can't be found."""
    statement: Node | None
    """The statement of it that fails; None where it fails before or after its own statements."""
    hidden: frozenset[str]
    """Names that the stack trace shows and the test does not: no report may have them."""


def read_java_symptom(
    project: str,
    tests: Sequence[str],
    failure: Failure,
    files: Mapping[str, bytes],
    test_files: Sequence[str],
) -> JavaSymptom:
    """The symptom of the first test's failure; `test_files` are the paths of the tests' sources."""
    class_name, _, name = tests[0].partition("#")
    path = class_name.partition("$")[0].replace(".", "/") + ".java"
    inside = next(_inside(failure.frames, name, test_files), None)
    wanted = inside.file if inside is not None else path
    file = next((each for each in test_files if f"/{each}".endswith(f"/{wanted}")), "")
    root = parse(files.get(file, b""))
    method = _method(root, name, inside)
    statement = _statement(method, inside) if inside is not None else None
    shown = set(_WORD.findall(text_of(method))) if method is not None else set()
    outside = [frame for frame in failure.frames if frame.file != wanted]
    hidden = {word for frame in outside for word in _words(frame)}
    return JavaSymptom(
        project, tuple(tests), failure, method, statement, frozenset(hidden - shown - _BUILT_IN)
    )


def margin_text(node: Node) -> str:
    """A node's text, as at the left margin."""
    return textwrap.dedent(" " * node.start_point.column + text_of(node))


def _words(frame: Frame) -> list[str]:
    return [frame.method, *re.split(r"[.$]", frame.class_name)[-2:]]


def _inside(frames: Sequence[Frame], name: str, files: Sequence[str]) -> Iterator[Frame]:
    for frame in frames:
        if frame.method == name and any(f"/{each}".endswith(f"/{frame.file}") for each in files):
            yield frame


def _method(root: Node, name: str, inside: Frame | None) -> Node | None:
    for node in walk(root):
        own = node.child_by_field_name("name")
        if node.type != "method_declaration" or own is None or text_of(own) != name:
            continue
        if inside is None or line_of(node) <= inside.line <= node.end_point.row + 1:
            return node
    return None


def _statement(method: Node | None, inside: Frame) -> Node | None:
    """The innermost statement of a test at a line, that of a lambda apart."""
    found = None
    pending = [method.child_by_field_name("body")] if method is not None else []
    while pending:
        node = pending.pop()
        if node is None or not line_of(node) <= inside.line <= node.end_point.row + 1:
            continue
        is_statement = node.type.endswith(("_statement", "_declaration"))
        if is_statement and node.type not in _WRAPPERS:
            found = node
        elif node.type in _WRAPPERS or "block" in node.type or node.type.endswith("_clause"):
            pending += reversed(node.named_children)
    return found
