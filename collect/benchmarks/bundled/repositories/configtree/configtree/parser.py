"""From logical lines to a tree of raw values."""

from __future__ import annotations

import re

from .errors import ParseError
from .lexer import logical_lines
from .tree import Tree, ensure_section

_SECTION = re.compile(r"^\[\s*([\w.\s-]+?)\s*\]$")
_OPTION = re.compile(r"^([\w-]+)\s*(\+?=)\s*(.*)$")
_ESCAPE = re.compile(r"\\(.)")


class Append(str):
    """A raw value that is to be added to the list of the layer below."""


def parse(text: str) -> Tree:
    """Parse one file. Keys before the first section are at the top."""
    tree: Tree = {}
    section = tree
    for number, line in logical_lines(text):
        header = _SECTION.match(line)
        if header:
            section = ensure_section(tree, header.group(1))
            continue
        option = _OPTION.match(line)
        if not option:
            raise ParseError("line %d: expected [section] or key = value: %s" % (number, line))
        key, operator, value = option.groups()
        if isinstance(section.get(key), dict):
            raise ParseError("line %d: %s is already a section" % (number, key))
        section[key] = Append(value) if operator == "+=" else unquote(value)
    return tree


def unquote(value: str) -> str:
    """The value without quotes around the whole of it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return _ESCAPE.sub(r"\1", value[1:-1])
    return value
