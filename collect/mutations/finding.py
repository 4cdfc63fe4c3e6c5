"""Find where a program can be broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from collect.errors import ConfigError
from collect.mutations.base import Mutation, MutationKind, Replacement
from collect.mutations.catalog import PROGRAM_KINDS, PROJECT_KINDS
from collect.mutations.left_alone import in_programs, in_projects
from collect.mutations.places import Place, Places
from collect.mutations.scopes import key_literals, opened, span
from collect.mutations.surroundings import Scope, Surroundings

_ITSELF = re.compile(r"\s*([\w.]+) = \1\s*(?:#.*)?")


def find_mutations(
    code: str,
    kinds: Sequence[MutationKind] = PROGRAM_KINDS,
    *,
    left_alone: Callable[[cst.CSTNode], bool] = in_programs,
    path: str = "",
) -> list[Mutation]:
    """Every mutation of the program, in the order of its text. Raises ConfigError.

    Module level code is included: a program that reads its input may be nothing else. `path` is
    only noted.
    """
    try:
        module = cst.parse_module(code)
    except cst.ParserSyntaxError as error:
        where = path or "the program to break"
        raise ConfigError(f"{where} is not Python that can be parsed: {error}") from error
    return _Finder(Places(module), kinds, left_alone, path).found()


def find_project_mutations(code: str, path: str = "") -> list[Mutation]:
    """Every mutation of a project's module. Raises ConfigError."""
    found = find_mutations(code, PROJECT_KINDS, left_alone=in_projects, path=path)
    return [mutation for mutation in found if not _assigns_itself(mutation)]


def _assigns_itself(mutation: Mutation) -> bool:
    """Whether `x = x` is left, as no one writes it."""
    source = mutation.source
    begin = source.rfind("\n", 0, mutation.start) + 1
    end = source.find("\n", mutation.end)
    rest = source[mutation.end : len(source) if end < 0 else end]
    return _ITSELF.fullmatch(source[begin : mutation.start] + mutation.text + rest) is not None


class _Finder:
    """Asks at every node the kinds that look at its type."""

    def __init__(
        self,
        places: Places,
        kinds: Sequence[MutationKind],
        left_alone: Callable[[cst.CSTNode], bool],
        path: str,
    ) -> None:
        self._places = places
        self._kinds = kinds
        self._by_type: dict[type[cst.CSTNode], list[MutationKind]] = {}
        self._left_alone = left_alone
        self._path = path
        self._keys = tuple(dict.fromkeys(key_literals(places)))

    def found(self) -> list[Mutation]:
        """In the order of the lines where the changed nodes begin."""
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
            if self._left_alone(place.node):
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
        """Where the changed node begins; of a block, where the change does."""
        block = isinstance(place.node, cst.IndentedBlock)
        return self._places.line(start if block else place.code_start)

    def _text(self, place: Place, replacement: Replacement) -> str:
        if isinstance(replacement, cst.RemovalSentinel):
            return ""
        if isinstance(replacement, cst.FlattenSentinel):
            return "".join(self._places.text(place, node) for node in replacement)
        return self._places.text(place, replacement)


def _narrowed(source: str, start: int, end: int, text: str) -> tuple[int, int, str]:
    """The same edit, without the text that stays at its two ends."""
    old = source[start:end]
    head = _shared(old, text)
    old, text = old[head:], text[head:]
    tail = _shared(old[::-1], text[::-1])
    return start + head, end - tail, text[: len(text) - tail]


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    for count, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return count
    return min(len(one), len(other))
