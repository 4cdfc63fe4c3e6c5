"""Find the mutations of a program, select among them, and see what gives them away."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

import libcst as cst

from collect.code.patches import equal_at_start
from collect.code.syntax import parse
from collect.errors import ConfigError
from collect.synthesis.mutations import flow, values
from collect.synthesis.mutations.base import (
    Mutation,
    MutationKind,
    Places,
    Replacement,
    Scope,
    Surroundings,
    called_name,
    dotted,
    kinds_in,
    mentions,
)

KINDS = {kind.name: kind for kind in kinds_in(flow, values)}
_FOR_PROGRAMS = """
    dropped_guard dropped_statement early_return wrong_comparison wrong_boolean_operator
    negated_condition dropped_condition wrong_arithmetic_operator wrong_division lost_update
    off_by_one wrong_start wrong_key wrong_variable swapped_arguments dropped_call
    missing_deduplication wrong_function dropped_branch wrong_loop_control
"""
PROGRAM_KINDS = [KINDS[name] for name in _FOR_PROGRAMS.split()]
"""For single-file programs. Self-repair benchmarks depend on these kinds and their order."""
_NOT_IN_PROJECTS = {"wrong_comparison", "wrong_key", "wrong_variable"}
"""Narrower kinds replace them: in a large module most other names and keys have another type, and
fail at once."""
PROJECT_KINDS = [kind for kind in KINDS.values() if kind.name not in _NOT_IN_PROJECTS]
"""For modules of real projects."""

# Code to skip: a change there is no mistake, or is noticed at once.


_ALWAYS = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.Raise)
_CONDITIONS = ("TYPE_CHECKING", "__name__", "version_info", "platform", "__debug__", "DEBUG")
_CALLS = {"warn", "warn_explicit", "TypeVar", "ParamSpec", "NewType", "getLogger", "cast"}
_LOGGERS = re.compile(r"(?:^|\.|_)(?:log|logger|logging)\.", re.IGNORECASE)
_CONSTANTS = re.compile(r"__\w+__$|_?version|_?VERSION|_?T$")


def _skipped_in_programs(node: cst.CSTNode) -> bool:
    docstring = isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString)
    return docstring or isinstance(node, _ALWAYS)


def _skipped_in_projects(node: cst.CSTNode) -> bool:
    """Also code for type checkers, people or other platforms."""
    skipped = False
    match node:
        case cst.Assert():
            skipped = True
        case cst.If(test):
            skipped = mentions(test, *_CONDITIONS)
        case cst.Try(cst.IndentedBlock([cst.SimpleStatementLine([first, *_]), *_])):
            skipped = isinstance(first, cst.Import | cst.ImportFrom)
        case cst.Call(func):
            skipped = called_name(node) in _CALLS or bool(_LOGGERS.search(dotted(func)))
        case cst.Assign([cst.AssignTarget(cst.Name(name)), *_]) | cst.AnnAssign(cst.Name(name)):
            skipped = bool(_CONSTANTS.match(name)) or mentions(node, "version_info")
    return skipped or _skipped_in_programs(node)


def find_mutations(code: str) -> list[Mutation]:
    """Every mutation of a single-file program, in text order. Raises ConfigError.

    Includes module-level code, because a program that reads its input may have nothing else.
    """
    return _found(code, PROGRAM_KINDS, _skipped_in_programs, "")


def find_project_mutations(code: str, path: str = "") -> list[Mutation]:
    """Every mutation of a project's module, in text order. `path` is only recorded. Raises
    ConfigError."""
    return _found(code, PROJECT_KINDS, _skipped_in_projects, path)


def _found(
    code: str, kinds: Sequence[MutationKind], skipped: Callable[[cst.CSTNode], bool], path: str
) -> list[Mutation]:
    """At every node, ask the kinds for its type. Ordered by the line where the node begins."""
    try:
        places = Places(cst.parse_module(code))
    except cst.ParserSyntaxError as error:
        where = path or "the program to break"
        raise ConfigError(f"{where} is not Python that can be parsed: {error}") from error
    keys = tuple(dict.fromkeys(_key_literals(places)))
    module = places.all[0]
    scopes = [Scope("", module, places.lines(module))]
    by_type: dict[type[cst.CSTNode], list[MutationKind]] = {}
    found: list[tuple[int, Mutation]] = []
    index = 1
    while index < module.last:
        place = places.all[index]
        node = place.node
        while index >= scopes[-1].place.last:
            scopes.pop()
        if skipped(node):
            index = place.last
            continue
        index += 1
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            scopes.append(scopes[-1].opened(place, places))
        if type(node) not in by_type:
            by_type[type(node)] = [kind for kind in kinds if isinstance(node, kind.nodes)]
        around = Surroundings(place, scopes[-1], keys, places, in_project=kinds is PROJECT_KINDS)
        for kind in by_type[type(node)]:
            for replacement in kind.find(node, around):
                mutation = _mutation(kind, around, replacement, path)
                found.append((places.line(place.code_start), mutation))
    return [mutation for _, mutation in sorted(found, key=lambda pair: pair[0])]


def _key_literals(places: Places) -> Iterator[str]:
    """String literals in subscripts and as dictionary keys."""
    for place in places.all:
        match place.node:
            case cst.Index(cst.SimpleString(text)) | cst.DictElement(cst.SimpleString(text)):
                yield text


def _mutation(
    kind: MutationKind, around: Surroundings, replacement: Replacement, path: str
) -> Mutation:
    place, places = around.place, around.places
    source, start, end = places.source, place.start, min(place.end, len(places.source))
    text = ""
    if isinstance(replacement, cst.FlattenSentinel):
        text = "".join(places.text(place, node) for node in replacement)
    elif isinstance(replacement, cst.CSTNode):
        text = places.text(place, replacement)
    # Leave out what does not change at both ends.
    head = equal_at_start(source[start:end], text)
    start, text = start + head, text[head:]
    tail = equal_at_start(source[start:end][::-1], text[::-1])
    block = isinstance(place.node, cst.IndentedBlock)
    return Mutation(
        kind=kind.name,
        category=kind.category,
        line=places.line(start if block else place.code_start),
        start=start,
        end=end - tail,
        text=text[: len(text) - tail],
        scope=around.scope.name,
        scope_lines=around.scope.lines,
        path=path,
        source=source,
    )


# Select among the mutations of a program or a project.

CATEGORY_WEIGHTS: Mapping[str, float] = {
    "state": 4.0,
    "default": 3.0,
    "iteration": 3.0,
    "unit": 3.0,
    "absence": 2.0,
    "boundary": 2.0,
    "exception": 2.0,
    "inheritance": 2.0,
    "order": 2.0,
    "call": 1.5,
    "data": 1.5,
    "name": 1.5,
    "flow": 1.0,
    "arithmetic": 0.5,
    "condition": 0.5,
}
"""How often each of a category's kinds is selected, relative to weight 1. High for bugs that a
debugger shows and a reader overlooks; low for bugs that any reader sees."""


def shuffled(mutations: Sequence[Mutation], seed: str) -> Iterator[Mutation]:
    """All mutations in a seeded order, alternating between the kinds."""
    generator = random.Random(seed)
    by_kind = _shuffled_kinds(mutations, generator)
    kinds = sorted(by_kind)
    generator.shuffle(kinds)
    for turn in range(max(map(len, by_kind.values()), default=0)):
        yield from (by_kind[kind][turn] for kind in kinds if turn < len(by_kind[kind]))


def chosen(mutations: Sequence[Mutation], seed: str, count: int, per_scope: int) -> list[Mutation]:
    """At most `count` mutations, alternating between kinds by their category's weight.

    No edit twice, and at most `per_scope` in one function. They may be from several programs. The
    order is stable: a smaller count gives a prefix of the result.
    """
    generator = random.Random(seed)
    ordered = sorted(mutations, key=lambda each: (each.path, each.start, each.end, each.text))
    by_kind = _shuffled_kinds(ordered, generator)
    ranked: list[tuple[float, Mutation]] = []
    for kind in sorted(by_kind):
        phase = generator.random()
        for turn, mutation in enumerate(by_kind[kind]):
            ranked.append(((turn + phase) / CATEGORY_WEIGHTS[mutation.category], mutation))
    ranked.sort(key=lambda pair: pair[0])
    taken: list[Mutation] = []
    edits: set[tuple[object, ...]] = set()
    scopes: Counter[tuple[str, str, str]] = Counter()
    for _, mutation in ranked:
        if len(taken) >= count:
            break
        scope = (mutation.path, mutation.source, mutation.scope)
        edit = (mutation.path, mutation.source, mutation.start, mutation.end, mutation.text)
        if scopes[scope] < per_scope and edit not in edits:
            scopes[scope] += 1
            edits.add(edit)
            taken.append(mutation)
    return taken


def _shuffled_kinds(
    mutations: Sequence[Mutation], generator: random.Random
) -> dict[str, list[Mutation]]:
    by_kind: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in mutations:
        by_kind[mutation.kind].append(mutation)
    for of_one_kind in by_kind.values():
        generator.shuffle(of_one_kind)
    return by_kind


def combined(
    mutations: Sequence[Mutation], seed: str, count: int
) -> list[tuple[Mutation, Mutation]]:
    """At most `count` pairs in a seeded order, each of one program and in text order, in separate
    statements; no mutation is in two. About half of the pairs are within one function."""
    generator = random.Random(seed)
    by_path: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in sorted(mutations, key=lambda each: (each.path, each.start, each.text)):
        by_path[mutation.path].append(mutation)
    pairs: list[tuple[Mutation, Mutation]] = []
    for own in by_path.values():
        generator.shuffle(own)
        half = len(own) // 4 * 2
        own[half:] = sorted(own[half:], key=lambda mutation: mutation.scope)
        pairs += zip(own[::2], own[1::2], strict=False)
    generator.shuffle(pairs)
    in_order = [(b, a) if b.start < a.start else (a, b) for a, b in pairs]
    return [(a, b) for a, b in in_order if "\n" in a.source[a.end : b.start]][:count]


# What an edit leaves behind that gives it away: an unused name, a comment about code that is gone.

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")


def leaves_trace(before: str, after: str) -> bool:
    """Whether, only after an edit, an import, parameter, variable or private function is unused, or
    a function's comments name what its code no longer does.

    Raises SyntaxError, ValueError.
    """
    (old_names, _), (names, words) = _words(before), _words(after)
    unused = _unused(after) - _unused(before)
    return bool(unused or (old_names - names) & words)


@lru_cache(64)
def _words(code: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The names of each function's code, and all words of its source, comments and docstring
    included; each with the function."""
    lines, names, words = code.splitlines(), set[tuple[str, str]](), set[tuple[str, str]]()
    for node in ast.walk(parse(code)):
        if isinstance(node, _FUNCTIONS):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            words.update((node.name, word) for word in _WORD.findall(text))
            own = {*_names_read(node), *_bound_in_function(node)}
            names.update((node.name, name) for name in own)
    return names, words


@lru_cache(64)
def _unused(code: str) -> Counter[tuple[str, str]]:
    """Names that nothing reads, with the function that binds them; empty for the module."""
    tree = parse(code)
    known = set(_names_read(tree))
    found = Counter(("", name) for name in _bound_in_module(tree) if name not in known)
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS):
            read = set(_names_read(function))
            bound = set(_bound_in_function(function))
            found.update((function.name, name) for name in bound - read)
    return found


def _names_read(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Global(names) | ast.Nonlocal(names):
                yield from names
            case ast.Constant(str(text)) if text.isidentifier():
                yield text  # in `__all__`, say


def _bound_in_module(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names) | ast.ImportFrom(names=names):
                yield from ((each.asname or each.name).partition(".")[0] for each in names)
            case ast.FunctionDef(name) if name.startswith("_") and not name.endswith("__"):
                yield name


def _bound_in_function(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Name(name, ast.Store()):
                yield name
            case ast.arg(name) if name not in ("self", "cls"):
                yield name
