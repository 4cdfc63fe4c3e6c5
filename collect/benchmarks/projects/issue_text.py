"""Issue texts in users' style, from the symptom alone: never where the fault is, or its fix."""

from __future__ import annotations

import ast
import builtins
import random
import string
import symtable
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from collect.benchmarks.base import Language
from collect.benchmarks.projects.symptom import (
    Claim,
    Outcome,
    Symptom,
    raising,
    read_claim,
    read_symptom,
)

# A short code snippet that shows a bug, from the failing test.

MAX_LINES = 12
MAX_CHARACTERS = 700


def snippet(symptom: Symptom, claim: Claim) -> str:
    """The test's lines up to the failing one, with the imports that they need.

    Empty if there are too many, or if they need more, such as fixtures.
    """
    try:
        function = ast.parse(symptom.source).body[0]
    except (SyntaxError, IndexError):
        return ""
    if not isinstance(function, ast.FunctionDef):
        return ""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    failing = "".join(symptom.statement.split())
    lines: list[str] = []
    for node in body:
        text = _text(symptom, node)
        if failing and failing in "".join(text.split()):
            break
        if not _is_check(node):
            lines.append(text)
    else:
        return ""
    if isinstance(node, ast.With) and raising(node) is not None:
        last = "\n".join(map(ast.unparse, node.body))
    elif not _is_check(node) or not claim.call or claim.outcome is Outcome.UNMET:
        last = text
    else:
        # Only the expression that the assertion checks.
        wrong = claim.outcome is Outcome.WRONG_VALUE
        last = f"print({claim.call})" if wrong else claim.call
    code = "\n".join([*lines, last])
    imports = _imports(code, symptom.imports)
    if imports is None or len(code) > MAX_CHARACTERS or code.count("\n") >= MAX_LINES:
        return ""
    return "\n".join([*imports, "", code] if imports else [code])


def _is_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return isinstance(function, ast.Attribute) and function.attr.startswith("assert")
    return isinstance(node, ast.Assert)


def _imports(code: str, imports: Sequence[str]) -> list[str] | None:
    """The imports that the code needs; None if it needs names that none of them provides."""
    try:
        compile(code, "<snippet>", "exec")
    except SyntaxError:
        return None
    tree = ast.parse(code)
    if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)):
        return None  # of the tests' own package
    needed = _unbound(tree)
    used: list[str] = []
    for line in imports:
        statement = ast.parse(line).body[0]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            given = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
            pairs = zip(given, statement.names, strict=True)
            statement.names = [alias for name, alias in pairs if name in needed]
            if statement.names:
                used.append(ast.unparse(statement))
                needed.difference_update(given)
    return None if needed else used


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are read before the code itself assigns them."""
    needed: set[str] = set()
    bound = set(dir(builtins))
    for statement in tree.body:
        table = symtable.symtable(ast.unparse(statement), "<snippet>", "exec")
        symbols = table.get_symbols()
        written = {name.get_name() for name in symbols if name.is_assigned() or name.is_imported()}
        # An assignment reads the old values before it writes the new ones.
        first = isinstance(statement, ast.Assign | ast.AugAssign)
        needed |= set(_read(table)) - bound - (set() if first else written)
        bound |= written
    return needed


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    """The module's variables that it reads, also in its functions and classes."""
    outermost = table.get_type() == "module"
    for name in table.get_symbols():
        if name.is_referenced() and (outermost or name.is_global()):
            yield name.get_name()
    for inner in table.get_children():
        yield from _read(inner)


def _text(symptom: Symptom, node: ast.stmt) -> str:
    if getattr(node, "decorator_list", ()):
        return ast.unparse(node)  # a source segment begins below the decorators
    return textwrap.dedent(ast.get_source_segment(symptom.source, node, padded=True) or "")


PHRASES = Path(__file__).with_name("issue_phrases.toml")
MAX_TITLE = 90
"""Limit in characters."""
_LEFT_OUT = ("found", "closing")
"""Optional parts of a text once it has named the test."""

__all__ = ["Symptom", "read_symptom", "write_issue"]


def write_issue(symptom: Symptom, seed: str) -> str:
    """A bug report: what was called, what happened, what was expected. Deterministic for a seed.

    It has no name that only the traceback shows, and no message or value that contains one.
    """
    claim = read_claim(symptom)
    shown = Shown(symptom.project, symptom.tests, symptom.exception, snippet(symptom, claim))
    return compose(claim, shown, seed)


@dataclass(frozen=True)
class Shown:
    project: str
    tests: Sequence[str]
    """The failing tests."""
    exception: str
    """The exception class of the first failing test."""
    snippet: str
    """Empty if there is none."""


def compose(claim: Claim, shown: Shown, seed: str, language: Language = "python") -> str:
    """A report of a claim. Skips phrases that need a missing part."""
    structures, phrases = _read_phrases()
    possible = {**phrases["any"], **phrases[language], **phrases[claim.outcome.value]}
    known = {
        "project": shown.project,
        "test": shown.tests[0],
        "count": str(len(shown.tests)) if len(shown.tests) > 1 else "",
        "exception": shown.exception,
        "snippet": shown.snippet,
        "call": claim.call,
        "function": claim.function,
        "expected": claim.expected,
        "actual": claim.actual,
        "condition": claim.condition,
        "message": claim.message,
    }
    facts = {name: fact for name, fact in known.items() if fact}
    generator = random.Random(seed)
    test_named = False
    lines: list[str] = []
    for part in generator.choice(structures):
        # A string that is not a part's name is literal text.
        line = part
        if part in possible:
            line = _phrase(part, possible, facts, test_named, generator)
            test_named = test_named or facts["test"] in line
        if line or (not part and lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def _phrase(
    part: str,
    phrases: Mapping[str, Sequence[str]],
    facts: Mapping[str, str],
    test_named: bool,
    generator: random.Random,
) -> str:
    """One of the part's phrases whose facts are all known, or nothing; those with more facts are
    more likely."""
    if part == "snippet" and part not in facts:
        part = "test"
    possible = [phrase for phrase in phrases[part] if _needs(phrase) <= facts.keys()]
    if test_named:
        others = [phrase for phrase in possible if "test" not in _needs(phrase)]
        possible = others if others or part in _LEFT_OUT else possible
    if not possible:
        return ""
    texts = {phrase.format_map(facts): 1 + len(_needs(phrase)) for phrase in possible}
    if part == "title":
        short = {text: weight for text, weight in texts.items() if len(text) <= MAX_TITLE}
        texts = short or texts
    return generator.choices(list(texts), list(texts.values()))[0]


def _needs(phrase: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrase) if name}


@cache
def _read_phrases() -> tuple[Sequence[Sequence[str]], Mapping[str, Mapping[str, Sequence[str]]]]:
    """The structures, and the phrases by outcome and part."""
    read = tomllib.loads(PHRASES.read_text("utf-8"))
    structures = [structure["parts"] for structure in read.pop("structures")]
    return structures, read
