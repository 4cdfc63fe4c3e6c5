"""The test classes of a project, by their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from collect.factory.layout import is_below
from collect.java_tree import has_modifier, parse, text_of, walk, words

_NAMED = re.compile(r"Test\w*|\w+(?:Test|Tests|TestCase)")
"""Surefire's own patterns."""
_ANNOTATIONS = words("Test ParameterizedTest RepeatedTest TestFactory TestTemplate")


def test_classes(files: Mapping[str, bytes], folder: str) -> Iterator[str]:
    """The top-level classes below a folder that hold tests, with their packages, in the order of
    their paths."""
    for path in sorted(files):
        if path.endswith(".java") and is_below(path, (folder,)):
            root = parse(files[path])
            package = package_of(root)
            yield from (f"{package}.{name}".lstrip(".") for name in _classes(root))


def package_of(root: Node) -> str:
    """The package that a file declares; empty for none."""
    for node in root.named_children:
        if node.type == "package_declaration":
            return text_of(node.named_children[-1])
    return ""


def _classes(root: Node) -> Iterator[str]:
    for node in root.named_children:
        name = node.child_by_field_name("name")
        if node.type != "class_declaration" or name is None or has_modifier(node, "abstract"):
            continue
        if _NAMED.fullmatch(text_of(name)) or _has_tests(node):
            yield text_of(name)


def _has_tests(node: Node) -> bool:
    return any(
        part.type in ("marker_annotation", "annotation")
        and (name := part.child_by_field_name("name")) is not None
        and text_of(name) in _ANNOTATIONS
        for part in walk(node)
    )
