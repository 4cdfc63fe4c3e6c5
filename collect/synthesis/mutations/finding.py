"""Find all mutations of a program."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from collect.errors import ConfigError
from collect.synthesis.mutations.base import Mutation, MutationKind, Replacement
from collect.synthesis.mutations.catalog import PROGRAM_KINDS, PROJECT_KINDS
from collect.synthesis.mutations.reading import (
    Place,
    Places,
    Scope,
    Surroundings,
    called_name,
    dotted,
    self_attribute,
    targets,
)

# Code to skip: a change there is no mistake, or is noticed at once.


_ALWAYS = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.Raise)
_CONDITIONS = {"TYPE_CHECKING", "__name__", "version_info", "platform", "__debug__", "DEBUG"}
_FUNCTIONS = {"__repr__", "__dir__", "__sizeof__", "__init_subclass__", "__class_getitem__"}
_DECORATORS = {"overload", "abstractmethod", "deprecated", "abstractproperty"}
_BASES = {"Protocol", "TypedDict"}
_CALLS = {"warn", "warn_explicit", "TypeVar", "ParamSpec", "NewType", "getLogger", "cast"}
_LOGGERS = re.compile(r"(?:^|\.|_)(?:log|logger|logging)\.", re.IGNORECASE)
_CONSTANTS = re.compile(r"__\w+__$|_?version|_?VERSION|_?T$")


def in_programs(node: cst.CSTNode) -> bool:
    """What to skip in single-file programs."""
    docstring = isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString)
    return docstring or isinstance(node, _ALWAYS)


def in_projects(node: cst.CSTNode) -> bool:
    """What to skip in a project's modules: also code for type checkers, people or other
    platforms."""
    if in_programs(node) or isinstance(node, cst.Assert):
        return True
    if isinstance(node, cst.BaseCompoundStatement):
        return _unreached(node)
    if isinstance(node, cst.Call):
        return called_name(node) in _CALLS or bool(_LOGGERS.search(dotted(node.func)))
    return _assigns_constant(node)


def _unreached(node: cst.BaseCompoundStatement) -> bool:
    """Whether tests never run this block, on this platform or at all."""
    if isinstance(node, cst.If):
        return not _CONDITIONS.isdisjoint(_names(node.test))
    if isinstance(node, cst.FunctionDef):
        return node.name.value in _FUNCTIONS or any(map(_is_abstract, node.decorators))
    if isinstance(node, cst.ClassDef):
        return any(dotted(base.value).rpartition(".")[2] in _BASES for base in node.bases)
    # A block that tries an import.
    first = node.body.body[0] if isinstance(node, cst.Try) and node.body.body else None
    return isinstance(first, cst.SimpleStatementLine) and isinstance(
        first.body[0], cst.Import | cst.ImportFrom
    )


def _names(test: cst.CSTNode) -> set[str]:
    if isinstance(test, cst.Name):
        return {test.value}
    if isinstance(test, cst.Attribute):
        return {test.attr.value}
    return set().union(*map(_names, test.children)) if test.children else set()


def _is_abstract(decorator: cst.Decorator) -> bool:
    called = decorator.decorator
    name = dotted(called.func if isinstance(called, cst.Call) else called)
    return name.rpartition(".")[2] in _DECORATORS


def _assigns_constant(node: cst.CSTNode) -> bool:
    """Whether it assigns `__all__`, `__version__`, a type variable, or a Python version check."""
    target: cst.CSTNode | None = None
    if isinstance(node, cst.Assign):
        compared = isinstance(node.value, cst.Comparison | cst.BooleanOperation)
        if compared and "version_info" in _names(node.value):
            return True
        target = node.targets[0].target
    elif isinstance(node, cst.AnnAssign):
        target = node.target
    return isinstance(target, cst.Name) and bool(_CONSTANTS.match(target.value))


# The variables that a program binds per function, and the literals that it uses as keys.


def opened(place: Place, outer: Scope, places: Places) -> Scope:
    """The scope that a function or class opens inside `outer`."""
    node = place.node
    assert isinstance(node, cst.FunctionDef | cst.ClassDef)
    lines = span(place, places)
    name = f"{outer.name}.{node.name.value}" if outer.name else node.name.value
    if isinstance(node, cst.ClassDef):
        assigned = [self_attribute(t) for each in places.inside(place) for t in targets(each.node)]
        return Scope(name, place, node, (), tuple(dict.fromkeys(filter(None, assigned))), lines)
    bound = tuple((name.value, line) for name, line in _bound(place, places))
    return Scope(name, place, outer.owner, bound, outer.attributes, lines)


def span(place: Place, places: Places) -> tuple[int, int]:
    """First and last line of a block's code, without trailing comments."""
    inside = reversed(places.all[place.index : place.last])
    last = next((each for each in inside if isinstance(each.node, cst.BaseSmallStatement)), place)
    return places.line(place.code_start), places.line(last.end)


def key_literals(places: Places) -> Iterator[str]:
    """String literals in subscripts and as dictionary keys."""
    for place in places.all:
        key: cst.CSTNode | None = None
        if isinstance(place.node, cst.Index):
            key = place.node.value
        elif isinstance(place.node, cst.DictElement):
            key = place.node.key
        if isinstance(key, cst.SimpleString):
            yield key.value


def _bound(function: Place, places: Places) -> Iterator[tuple[cst.Name, int]]:
    """Parameters and assigned variables with their lines, without those of nested functions."""
    index = function.index + 1
    while index < function.last:
        place = places.all[index]
        node, line = place.node, places.line(place.code_start)
        if isinstance(node, cst.FunctionDef | cst.Lambda):
            index = place.last
            continue
        if isinstance(node, cst.Param) and node.name.value not in ("self", "cls"):
            yield node.name, line
        elif isinstance(node, cst.AssignTarget | cst.For):
            yield from ((name, line) for name in _parts(node.target))
        index += 1


def _parts(target: cst.BaseExpression) -> Iterator[cst.Name]:
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _parts(element.value)


_ITSELF = re.compile(r"\s*([\w.]+) = \1\s*(?:#.*)?")


def find_mutations(
    code: str,
    kinds: Sequence[MutationKind] = PROGRAM_KINDS,
    *,
    exclusions: Callable[[cst.CSTNode], bool] = in_programs,
    path: str = "",
) -> list[Mutation]:
    """Every mutation of the program, in text order. Raises ConfigError.

    Includes module-level code, because a program that reads its input may have nothing else. `path`
    is only recorded.
    """
    try:
        module = cst.parse_module(code)
    except cst.ParserSyntaxError as error:
        where = path or "the program to break"
        raise ConfigError(f"{where} is not Python that can be parsed: {error}") from error
    return _Finder(Places(module), kinds, exclusions, path).found()


def find_project_mutations(code: str, path: str = "") -> list[Mutation]:
    """Every mutation of a project's module. Raises ConfigError."""
    found = find_mutations(code, PROJECT_KINDS, exclusions=in_projects, path=path)
    return [mutation for mutation in found if not _assigns_itself(mutation)]


def _assigns_itself(mutation: Mutation) -> bool:
    """Whether the mutation results in `x = x`, which no one writes."""
    source = mutation.source
    begin = source.rfind("\n", 0, mutation.start) + 1
    end = source.find("\n", mutation.end)
    rest = source[mutation.end : len(source) if end < 0 else end]
    return _ITSELF.fullmatch(source[begin : mutation.start] + mutation.text + rest) is not None


class _Finder:
    """At every node, asks the mutation kinds for its type."""

    def __init__(
        self,
        places: Places,
        kinds: Sequence[MutationKind],
        exclusions: Callable[[cst.CSTNode], bool],
        path: str,
    ) -> None:
        self._places = places
        self._kinds = kinds
        self._by_type: dict[type[cst.CSTNode], list[MutationKind]] = {}
        self._exclusions = exclusions
        self._path = path
        self._keys = tuple(dict.fromkeys(key_literals(places)))

    def found(self) -> list[Mutation]:
        """The mutations, ordered by the line where the changed node begins."""
        found = [
            (self._places.line(place.code_start), mutation)
            for place, scope in self._visited()
            for mutation in self._at(place, scope)
        ]
        return [mutation for _, mutation in sorted(found, key=lambda pair: pair[0])]

    def _visited(self) -> Iterator[tuple[Place, Scope]]:
        module = self._places.all[0]
        scopes = [Scope("", module, None, (), (), span(module, self._places))]
        index = 1
        while index < module.last:
            place = self._places.all[index]
            while place.index >= scopes[-1].place.last:
                scopes.pop()
            if self._exclusions(place.node):
                index = place.last
                continue
            if isinstance(place.node, cst.FunctionDef | cst.ClassDef):
                scopes.append(opened(place, scopes[-1], self._places))
            yield place, scopes[-1]
            index += 1

    def _at(self, place: Place, scope: Scope) -> Iterator[Mutation]:
        kinds = self._of(type(place.node))
        if not kinds:
            return
        around = Surroundings(place, scope, self._keys, self._places)
        for kind in kinds:
            for replacement in kind.replacements(place.node, around):
                yield self._mutation(kind, place, scope, replacement)

    def _of(self, node: type[cst.CSTNode]) -> Sequence[MutationKind]:
        if node not in self._by_type:
            self._by_type[node] = [kind for kind in self._kinds if issubclass(node, kind.nodes)]
        return self._by_type[node]

    def _mutation(
        self, kind: MutationKind, place: Place, scope: Scope, replacement: Replacement
    ) -> Mutation:
        source = self._places.source
        end = min(place.end, len(source))
        start, end, text = _narrowed(source, place.start, end, self._text(place, replacement))
        return Mutation(
            kind.name,
            kind.category,
            self._line(place, start),
            start,
            end,
            text,
            scope.name,
            scope.lines,
            self._path,
            source,
        )

    def _line(self, place: Place, start: int) -> int:
        """Start line of the changed node; for a block, of the change."""
        block = isinstance(place.node, cst.IndentedBlock)
        return self._places.line(start if block else place.code_start)

    def _text(self, place: Place, replacement: Replacement) -> str:
        if isinstance(replacement, cst.RemovalSentinel):
            return ""
        if isinstance(replacement, cst.FlattenSentinel):
            return "".join(self._places.text(place, node) for node in replacement)
        return self._places.text(place, replacement)


def _narrowed(source: str, start: int, end: int, text: str) -> tuple[int, int, str]:
    """The same edit, without unchanged text at both ends."""
    old = source[start:end]
    head = _shared(old, text)
    old, text = old[head:], text[head:]
    tail = _shared(old[::-1], text[::-1])
    return start + head, end - tail, text[: len(text) - tail]


def _shared(one: str, other: str) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


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
MAX_PER_SCOPE = 3


def shuffled(mutations: Sequence[Mutation], seed: str) -> Iterator[Mutation]:
    """All mutations in a seeded order, alternating between the kinds."""
    generator = random.Random(seed)
    by_kind = _shuffled_kinds(mutations, generator)
    kinds = sorted(by_kind)
    generator.shuffle(kinds)
    for turn in range(max(map(len, by_kind.values()), default=0)):
        yield from (by_kind[kind][turn] for kind in kinds if turn < len(by_kind[kind]))


def chosen(
    mutations: Sequence[Mutation],
    seed: str,
    count: int,
    *,
    weights: Mapping[str, float] = CATEGORY_WEIGHTS,
    per_scope: int = MAX_PER_SCOPE,
) -> list[Mutation]:
    """At most `count` mutations, alternating between kinds by their category's weight (default 1).

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
            ranked.append(((turn + phase) / weights.get(mutation.category, 1.0), mutation))
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


# Two mistakes in one program.


@dataclass(frozen=True)
class CombinedMutation:
    """Several edits of one program, in text order, whose lines do not touch."""

    parts: tuple[Mutation, ...]

    def __post_init__(self) -> None:
        for first, second in zip(self.parts, self.parts[1:], strict=False):
            if not _combine(first, second):
                raise ValueError(
                    f"mutations of lines {first.line} and {second.line} can't be combined: they "
                    "must be of one program, in the order of its text, and a line apart"
                )

    @property
    def kind(self) -> str:
        """The parts' kinds, joined by "+"."""
        return "+".join(part.kind for part in self.parts)

    @property
    def category(self) -> str:
        return "combined"

    @property
    def path(self) -> str:
        return self.parts[0].path

    @property
    def source(self) -> str:
        return self.parts[0].source

    def apply(self) -> str:
        """The broken program."""
        code = self.source
        for part in reversed(self.parts):
            code = code[: part.start] + part.text + code[part.end :]
        return code


def combined(mutations: Sequence[Mutation], seed: str, count: int) -> Iterator[CombinedMutation]:
    """At most `count` pairs in a seeded order, with no mutation in two of them.

    About half of the pairs are within one function, if there are enough; the others in two.
    """
    generator = random.Random(seed)
    left = sorted(mutations, key=lambda mutation: (mutation.path, mutation.start, mutation.text))
    generator.shuffle(left)
    while left and count > 0:
        one = left.pop()
        partner = _partner(one, left, same_scope=generator.random() < 0.5)
        if partner is not None:
            left.remove(partner)
            count -= 1
            yield CombinedMutation(_ordered(one, partner))


def _partner(one: Mutation, others: Sequence[Mutation], same_scope: bool) -> Mutation | None:
    """The first partner that fits, preferably in the requested scope."""
    fitting = [other for other in others if _combine(*_ordered(one, other))]
    wanted = (other for other in fitting if (other.scope == one.scope) == same_scope)
    return next(wanted, None) or next(iter(fitting), None)


def _ordered(one: Mutation, another: Mutation) -> tuple[Mutation, Mutation]:
    return (one, another) if one.start <= another.start else (another, one)


def _combine(first: Mutation, second: Mutation) -> bool:
    """Whether both can be applied: in separate statements, the first one before the second."""
    if first.source != second.source or first.path != second.path or first.end >= second.start:
        return False
    return "\n" in first.source[first.end : second.start]
