"""The files in which a Python project describes itself, read as text: no code of it runs."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

MAX_BYTES = 1024 * 1024
"""A larger file is not read: parsing takes many times its size in memory."""
MAX_CODE_BYTES = 256 * 1024
"""The same for code."""
LONGEST_TEXT = 2_000
"""Characters of a version, or of bounds for one. Python refuses to read a number that is much
longer."""
MOST_LISTED = 2000
"""Elements of a list in setup.py, which can be made of itself."""
Table = Mapping[str, object]
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""")
"""A key of so many parts that tomllib would take hours."""
_WIDE_GAP = re.compile(r"[^\S\n]{50,}")
"""configparser looks for the end of each from each of its places."""


def read_pyproject(files: Mapping[str, bytes]) -> Table:
    """The content of pyproject.toml; empty if it can't be read."""
    return read_toml(files, "pyproject.toml")


def read_toml(files: Mapping[str, bytes], path: str) -> Table:
    """The content of a file; empty if there is none, or it can't be read."""
    return _parsed(files.get(path, b""))


@lru_cache(maxsize=64)
def _parsed(data: bytes) -> Table:
    """Many ask for the same file. Nobody changes the tables."""
    return parse_toml(data[:MAX_BYTES])


def table_of(table: Table, *keys: str) -> Table:
    """The table below these keys; empty if there is none."""
    for key in keys:
        inner = table.get(key)
        table = inner if isinstance(inner, dict) else {}
    return table


def parse_toml(data: bytes) -> Table:
    """Empty if it can't be read."""
    text = data.decode("utf-8", "replace")
    if _DEEP_KEY.search(text):
        return {}
    try:
        return tomllib.loads(text)
    # Also for numbers with thousands of digits, and thousands of brackets.
    except (ValueError, RecursionError):
        return {}


def texts_of(value: object) -> list[str]:
    """The texts of a list; none of anything else."""
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def read_setup_cfg(files: Mapping[str, bytes]) -> configparser.RawConfigParser:
    return parse_ini(files.get("setup.cfg", b""))


@lru_cache(maxsize=64)
def parse_ini(data: bytes) -> configparser.RawConfigParser:
    """Empty if it can't be read. Nobody changes it."""
    parser = configparser.RawConfigParser(strict=False)
    with suppress(configparser.Error):
        parser.read_string(without_gaps(data[:MAX_BYTES].decode("utf-8", "replace")))
        return parser
    return configparser.RawConfigParser()


def without_gaps(text: str) -> str:
    """Text for configparser, which takes hours for a gap of a million spaces."""
    return _WIDE_GAP.sub(" ", text)


def read_tox(
    files: Mapping[str, bytes],
) -> tuple[dict[str, configparser.RawConfigParser], dict[str, Table]]:
    """The settings of tox by file, as INI and as TOML; pyproject.toml can hold both."""
    in_pyproject = table_of(read_pyproject(files), "tool", "tox")
    text = in_pyproject.get("legacy_tox_ini")
    legacy = text.encode() if isinstance(text, str) else b""
    return (
        {"tox.ini": parse_ini(files.get("tox.ini", b"")), "pyproject.toml": parse_ini(legacy)},
        {"tox.toml": read_toml(files, "tox.toml"), "pyproject.toml": in_pyproject},
    )


def read_setup_py(files: Mapping[str, bytes]) -> Mapping[str, object]:
    """The arguments of setup.py's `setup(...)` that are literals, or made of literals of the
    module."""
    return _setup_arguments(files.get("setup.py", b""))


def parse_code(data: bytes) -> ast.Module | None:
    """None if it can't be read, or is too large."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.parse(data) if len(data) <= MAX_CODE_BYTES else None
    return None


@lru_cache(maxsize=64)
def _setup_arguments(source: bytes) -> Mapping[str, object]:
    module = parse_code(source)
    if module is None:
        return {}
    known: dict[str, object] = {}
    arguments: dict[str, object] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with suppress(ValueError, TypeError, RecursionError):
                known[node.targets[0].id] = _literal(node.value, known)
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _called(node) == "setup":
            for keyword in node.keywords:
                with suppress(ValueError, TypeError, RecursionError):
                    value = _literal(keyword.value, known)
                    given = {keyword.arg: value} if keyword.arg else value
                    arguments |= given if isinstance(given, dict) else {}
    return arguments


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _literal(node: ast.expr, known: Mapping[str, object]) -> object:
    """Raises ValueError if its value is not in the text."""
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (_literal(side, known) for side in (node.left, node.right))
        if isinstance(left, list) and isinstance(right, list):
            if len(left) + len(right) > MOST_LISTED:
                raise ValueError(f"more than {MOST_LISTED} elements")
            return [*left, *right]
    if isinstance(node, ast.Call) and _called(node) == "dict" and not node.args:
        return {word.arg: _literal(word.value, known) for word in node.keywords if word.arg}
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [_literal(key, known) for key in node.keys if key is not None]
        return dict(zip(keys, [_literal(value, known) for value in node.values], strict=True))
    return ast.literal_eval(node)


def own_name(files: Mapping[str, bytes]) -> str:
    """The project's name as its files declare it; empty if none does."""
    pyproject = read_pyproject(files)
    names = (
        table_of(pyproject, "project").get("name"),
        table_of(pyproject, "tool", "poetry").get("name"),
        table_of(pyproject, "tool", "flit", "metadata").get("dist-name"),
        table_of(pyproject, "tool", "flit", "metadata").get("module"),
        read_setup_cfg(files).get("metadata", "name", fallback=None),
        read_setup_py(files).get("name"),
    )
    return next((name for name in names if isinstance(name, str) and name), "")
