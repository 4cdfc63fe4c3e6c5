"""The packages depend on each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("sandbox", "collect", "format", "train", "eval", "configs")
DEBUGGED = ("collect/benchmarks/bundled", "sandbox/debugger/probe")
"""Programs under test, and what is copied into a sandbox, which has relative imports alone."""


def modules() -> dict[str, Path]:
    """Every module's name and file."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            place = path.relative_to(ROOT)
            if not str(place).startswith(DEBUGGED):
                parts = (
                    place.parent.parts if path.stem == "__init__" else place.with_suffix("").parts
                )
                found[".".join(parts)] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                if inner in MODULES or node.module in MODULES:
                    yield inner if inner in MODULES else node.module


def package(module: str) -> list[str]:
    parts = module.split(".")
    return parts if MODULES[module].stem == "__init__" else parts[:-1]


def siblings(user: str, used: str) -> tuple[str, str] | None:
    """The two packages beside each other that these modules are in; None if one package holds the
    other."""
    first, second = package(user), package(used)
    for depth in range(min(len(first), len(second))):
        if first[depth] != second[depth]:
            return ".".join(first[: depth + 1]), ".".join(second[: depth + 1])
    return None


@pytest.mark.slow
def test_no_two_packages_import_each_other() -> None:
    uses: dict[tuple[str, str], list[str]] = {}
    for module, path in MODULES.items():
        for other in imported(path):
            pair = siblings(module, other)
            if pair is not None:
                uses.setdefault(pair, []).append(f"{module} -> {other}")
    mutual = {pair: uses[pair] for pair in uses if pair[::-1] in uses}
    assert not mutual


def test_the_rooms_have_their_order() -> None:
    order = {"sandbox": 0, "collect": 1, "format": 2, "train": 3, "eval": 4, "configs": 5}
    wrong = [
        f"{module} -> {other}"
        for module, path in MODULES.items()
        for other in imported(path)
        if order[module.split(".")[0]] < order[other.split(".")[0]]
    ]
    assert not wrong
