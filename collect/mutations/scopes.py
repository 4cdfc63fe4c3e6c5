"""What a program binds, function by function, and the literals that it uses as keys."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.places import Place, Places
from collect.mutations.reading import self_attribute, targets
from collect.mutations.surroundings import Scope


def opened(place: Place, outer: Scope, places: Places) -> Scope:
    """The scope that a function or class opens in another one."""
    node = place.node
    assert isinstance(node, cst.FunctionDef | cst.ClassDef)
    lines = span(place, places)
    name = f"{outer.name}.{node.name.value}" if outer.name else node.name.value
    if isinstance(node, cst.ClassDef):
        attributes = tuple(dict.fromkeys(_attributes(place, places)))
        return Scope(name, place, node, (), attributes, lines)
    bound = tuple((name.value, line) for name, line in _bound(place, places))
    return Scope(name, place, outer.owner, bound, outer.attributes, lines)


def span(place: Place, places: Places) -> tuple[int, int]:
    """The first and the last line of a block's code, without the comments below it."""
    inside = reversed(places.all[place.index : place.last])
    last = next((each for each in inside if isinstance(each.node, cst.BaseSmallStatement)), place)
    return places.line(place.code_start), places.line(last.end)


def key_literals(places: Places) -> Iterator[str]:
    """String literals in brackets, and those that a dictionary is made with."""
    for place in places.all:
        key: cst.CSTNode | None = None
        if isinstance(place.node, cst.Index):
            key = place.node.value
        elif isinstance(place.node, cst.DictElement):
            key = place.node.key
        if isinstance(key, cst.SimpleString):
            yield key.value


def _attributes(owner: Place, places: Places) -> Iterator[str]:
    for place in places.inside(owner):
        for target in targets(place.node):
            name = self_attribute(target)
            if name:
                yield name


def _bound(function: Place, places: Places) -> Iterator[tuple[cst.Name, int]]:
    """Parameters and assigned variables with their lines, without those of functions inside."""
    index = function.index + 1
    while index < function.last:
        place = places.all[index]
        if isinstance(place.node, cst.FunctionDef | cst.Lambda):
            index = place.last
            continue
        for name in _names(place.node):
            yield name, places.line(places.all[index].code_start)
        index += 1


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Param) and node.name.value not in ("self", "cls"):
        yield node.name
    elif isinstance(node, cst.AssignTarget | cst.For):
        yield from _parts(node.target)


def _parts(target: cst.BaseExpression) -> Iterator[cst.Name]:
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _parts(element.value)
