"""Find where a program can be broken, and choose among the places."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from collect.errors import ConfigError
from collect.mutations.base import Mutation, MutationKind, Surroundings
from collect.mutations.catalog import KINDS

_LEFT_ALONE = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.Raise)
"""What no mutation looks into: changes there are not mistakes, or are seen at once."""


def find_mutations(code: str, kinds: Sequence[MutationKind] = KINDS) -> list[Mutation]:
    """Every mutation of the program, in the order of its text. Raises ConfigError.

    Module level code is included: a program that reads its input may be nothing else.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(code))
    except cst.ParserSyntaxError as error:
        raise ConfigError(f"the program to break is not Python: {error}") from error
    finder = _Finder(wrapper, kinds)
    wrapper.module.visit(finder)
    return sorted(finder.found, key=lambda mutation: mutation.line)


def shuffled(mutations: Sequence[Mutation], seed: str) -> Iterator[Mutation]:
    """All of them in an order that the seed decides, taking turns between the kinds."""
    generator = random.Random(seed)
    by_kind: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in mutations:
        by_kind[mutation.kind].append(mutation)
    for of_one_kind in by_kind.values():
        generator.shuffle(of_one_kind)
    kinds = sorted(by_kind)
    generator.shuffle(kinds)
    for turn in range(max(map(len, by_kind.values()), default=0)):
        yield from (by_kind[kind][turn] for kind in kinds if turn < len(by_kind[kind]))


class _Finder(cst.CSTVisitor):
    """Asks every kind at every node."""

    def __init__(self, wrapper: MetadataWrapper, kinds: Sequence[MutationKind]) -> None:
        super().__init__()
        self.found: list[Mutation] = []
        self._module = wrapper.module
        self._kinds = kinds
        self._positions = wrapper.resolve(PositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self._keys = tuple(dict.fromkeys(_keys(wrapper.module)))
        self._scopes: list[list[tuple[str, int]]] = [[]]

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _LEFT_ALONE) or _is_docstring(node):
            return False
        if isinstance(node, cst.FunctionDef):
            self._scopes.append(list(self._bound(node)))
        if node is not self._module:
            self._ask(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef):
            self._scopes.pop()

    def _ask(self, node: cst.CSTNode) -> None:
        line = self._line(node)
        names = dict.fromkeys(name for name, bound in self._scopes[-1] if bound < line)
        around = Surroundings(tuple(self._ancestors(node)), tuple(names), self._keys)
        for kind in self._kinds:
            for replacement in kind.replacements(node, around):
                at = self._changed_line(node, replacement)
                self.found.append(
                    Mutation(kind.name, kind.category, at, self._module, node, replacement)
                )

    def _changed_line(self, node: cst.CSTNode, replacement: cst.CSTNode) -> int:
        """Of a block: the line of the first statement that differs."""
        if isinstance(node, cst.IndentedBlock) and isinstance(replacement, cst.IndentedBlock):
            for old, new in zip(node.body, replacement.body, strict=False):
                if old is not new:
                    return self._line(old)
            return self._line(node.body[len(replacement.body)])
        return self._line(node)

    def _line(self, node: cst.CSTNode) -> int:
        return int(self._positions[node].start.line)

    def _ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        while node is not self._module:
            node = self._parents[node]
            yield node

    def _bound(self, function: cst.FunctionDef) -> Iterator[tuple[str, int]]:
        """The function's own variables, and the line that binds each."""
        collector = _BoundNames()
        function.params.visit(collector)
        function.body.visit(collector)
        for name in collector.names:
            yield name.value, self._line(name)


class _BoundNames(cst.CSTVisitor):
    """Parameters and assigned variables, without those of functions inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[cst.Name] = []

    def visit_Param(self, node: cst.Param) -> bool:  # noqa: N802
        if node.name.value != "self":
            self.names.append(node.name)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:  # noqa: N802
        self._note(node.target)

    def visit_For(self, node: cst.For) -> None:  # noqa: N802
        self._note(node.target)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:  # noqa: N802
        return False

    def _note(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Name):
            self.names.append(target)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._note(element.value)


class _Keys(cst.CSTVisitor):
    """String literals in brackets, and those that a dictionary is made with."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def visit_Index(self, node: cst.Index) -> None:  # noqa: N802
        self._note(node.value)

    def visit_DictElement(self, node: cst.DictElement) -> None:  # noqa: N802
        self._note(node.key)

    def _note(self, key: cst.BaseExpression) -> None:
        if isinstance(key, cst.SimpleString):
            self.found.append(key.value)


def _keys(module: cst.Module) -> list[str]:
    collector = _Keys()
    module.visit(collector)
    return collector.found


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString)
