"""What no value of a config can be, whichever setting it is of: told before any work starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import yaml

from collect.errors import ConfigError
from sandbox.text import storable

MOST_VALUES = 100_000
"""Of one config, with each of its YAML aliases written out."""
DEEPEST = 100
"""Levels of lists and mappings in each other."""
LARGEST_WHOLE = 2**62
"""With an attempt's number added, a seed must still fit the 64 bits of a row."""
LARGEST = 1e9
"""As seconds some 30 years, more than the system's clocks can wait is a thousand times that."""


def read_yaml(text: str) -> Any:
    """What a YAML text says. Raises ValueError, yaml.YAMLError."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        # Aliases are still one node each: written out, a few lines can have billions of values.
        if node is not None and _values(node, {}, 0) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values, with its aliases written out")
        return yaml.safe_load(text)
    except RecursionError as error:
        raise ValueError("its lists and mappings are nested too deeply") from error


def _values(node: yaml.Node, known: dict[int, int], depth: int) -> int:
    """How many values a node has; `known` are those that were counted."""
    if depth > DEEPEST:
        raise ValueError(f"its lists and mappings are nested more than {DEEPEST} deep")
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        inner = node.value
        if isinstance(node, yaml.MappingNode):
            inner = [each for pair in node.value for each in pair]
        known[id(node)] = 1 + sum(_values(each, known, depth + 1) for each in inner)
    return known[id(node)]


def refuse_texts(config: Any, where: str) -> None:
    """Raises ConfigError where a key or a text holds what no file name or file can."""
    for place, value in _leaves(config, ""):
        for text in (place, value):
            if isinstance(text, str) and ("\0" in text or storable(text) != text):
                shown = ascii(place)[1:-1]
                raise ConfigError(
                    f"{where}: {shown} holds a NUL or half a character (such as \\ud83d), which no "
                    "file and no command can: take it out"
                )


def refuse_numbers(config: Any, where: str) -> None:
    """Raises ConfigError where a number is none that rows, clocks and programs can take."""
    for place, value in _leaves(config, ""):
        if isinstance(value, float) and not abs(value) <= LARGEST:
            told = "is no number" if math.isnan(value) else f"must lie within {LARGEST:.0e} of 0"
        elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
            told = "must lie within 2^62 of 0"
        else:
            continue
        raise ConfigError(
            f"{where}: {place} {told}; give a smaller number, or leave the setting out for its "
            "default"
        )


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Values by dotted names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple | set | frozenset):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}.{index}")
    else:
        yield place, value
