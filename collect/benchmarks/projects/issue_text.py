"""Issue texts in users' style, from the symptom alone: never where the fault is, or its fix."""

from __future__ import annotations

import ast
import builtins
import random
import string
import symtable
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    body = _body(symptom.source)
    last = next((node for node in body if _holds(node, symptom)), None)
    if last is None:
        return ""
    before = [node for node in body[: body.index(last)] if not _is_check(node)]
    lines = [_text(symptom, node) for node in before]
    code = "\n".join([*lines, _shown(last, symptom, claim)])
    imports = _imports(code, symptom.imports)
    if imports is None or len(code) > MAX_CHARACTERS or code.count("\n") >= MAX_LINES:
        return ""
    return "\n".join([*imports, "", code] if imports else [code])


def _body(source: str) -> list[ast.stmt]:
    try:
        function = ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        return []
    if not isinstance(function, ast.FunctionDef):
        return []
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _holds(node: ast.stmt, symptom: Symptom) -> bool:
    """Whether the failing statement is the node or is inside it."""
    statement = _squeezed(symptom.statement)
    return bool(statement) and statement in _squeezed(_text(symptom, node))


def _is_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return isinstance(function, ast.Attribute) and function.attr.startswith("assert")
    return isinstance(node, ast.Assert)


def _shown(node: ast.stmt, symptom: Symptom, claim: Claim) -> str:
    """The last line, reduced to the expression that the assertion checks."""
    if isinstance(node, ast.With) and raising(node) is not None:
        return "\n".join(map(ast.unparse, node.body))
    if _is_check(node) and claim.call:
        if claim.outcome is Outcome.WRONG_VALUE:
            return f"print({claim.call})"
        if claim.outcome is not Outcome.UNMET:
            return claim.call
    return _text(symptom, node)


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
        given = _given(line) & needed
        if given:
            used.append(_only(line, given))
            needed -= given
    return None if needed else used


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are read before the code itself assigns them."""
    needed: set[str] = set()
    bound = set(dir(builtins))
    for statement in tree.body:
        table = symtable.symtable(ast.unparse(statement), "<snippet>", "exec")
        written = {name.get_name() for name in table.get_symbols() if _is_written(name)}
        # An assignment reads the old values before it writes the new ones.
        first = isinstance(statement, ast.Assign | ast.AugAssign)
        needed |= set(_read(table)) - bound - (set() if first else written)
        bound |= written
    return needed


def _is_written(name: symtable.Symbol) -> bool:
    return name.is_assigned() or name.is_imported()


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    """The module's variables that it reads, also in its functions and classes."""
    outermost = table.get_type() == "module"
    for name in table.get_symbols():
        if name.is_referenced() and (outermost or name.is_global()):
            yield name.get_name()
    for inner in table.get_children():
        yield from _read(inner)


def _given(line: str) -> set[str]:
    return {_bound(alias) for alias in _aliases(line)}


def _aliases(line: str) -> Iterable[ast.alias]:
    statement = ast.parse(line).body[0]
    return statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else ()


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _only(line: str, names: set[str]) -> str:
    """The import, reduced to these names."""
    statement = ast.parse(line).body[0]
    assert isinstance(statement, ast.Import | ast.ImportFrom)
    statement.names = [alias for alias in statement.names if _bound(alias) in names]
    return ast.unparse(statement)


def _text(symptom: Symptom, node: ast.stmt) -> str:
    """A statement of the test, dedented."""
    if getattr(node, "decorator_list", ()):
        return ast.unparse(node)  # a source segment begins below the decorators
    return textwrap.dedent(ast.get_source_segment(symptom.source, node, padded=True) or "")


def _squeezed(text: str) -> str:
    return "".join(text.split())


PHRASES = Path(__file__).with_name("issue_phrases.toml")
MAX_TITLE = 90
"""Limit in characters."""
_ANY = "any"
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
    """The contents of a report besides the claim."""

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
    writer = _Writer(
        {**phrases[_ANY], **phrases[language], **phrases[claim.outcome.value]},
        {name: fact for name, fact in known.items() if fact},
        random.Random(seed),
    )
    return writer.text(writer.generator.choice(structures))


class _Writer:
    """Fills in the parts of one text."""

    def __init__(
        self,
        phrases: Mapping[str, Sequence[str]],
        facts: Mapping[str, str],
        generator: random.Random,
    ) -> None:
        self.generator = generator
        self._phrases = phrases
        self._facts = facts
        self._test_named = False

    def text(self, parts: Sequence[str]) -> str:
        """The parts, one per line; a string that is not a part's name is literal text."""
        lines: list[str] = []
        for part in parts:
            line = self._line(part) if part in self._phrases else part
            if line or (not part and lines and lines[-1]):
                lines.append(line)
        return "\n".join(lines).strip() + "\n"

    def _line(self, part: str) -> str:
        """One of the part's phrases whose facts are all known; those with more facts are more
        likely."""
        if part == "snippet" and part not in self._facts:
            part = "test"
        known = set(self._facts)
        possible = [phrase for phrase in self._phrases[part] if _needs(phrase) <= known]
        if self._test_named:
            others = [phrase for phrase in possible if "test" not in _needs(phrase)]
            possible = others if others or part in _LEFT_OUT else possible
        if not possible:
            return ""
        texts = {phrase.format_map(self._facts): 1 + len(_needs(phrase)) for phrase in possible}
        if part == "title":
            short = {text: weight for text, weight in texts.items() if len(text) <= MAX_TITLE}
            texts = short or texts
        text = self.generator.choices(list(texts), list(texts.values()))[0]
        self._test_named = self._test_named or self._facts["test"] in text
        return text


def _needs(phrase: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrase) if name}


@cache
def _read_phrases() -> tuple[Sequence[Sequence[str]], Mapping[str, Mapping[str, Sequence[str]]]]:
    """The structures, and the phrases by outcome and part."""
    read = tomllib.loads(PHRASES.read_text("utf-8"))
    structures = [structure["parts"] for structure in read.pop("structures")]
    return structures, read
