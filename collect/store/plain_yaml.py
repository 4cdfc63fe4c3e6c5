"""YAML of others: small, also with its aliases written out, and without merge keys."""

from __future__ import annotations

from typing import Any

import yaml

MOST_BYTES = 1_000_000
"""Largest file; a run's saved config has some ten thousand bytes."""
MOST_VALUES = 100_000
"""Most values, counting each use of an alias."""


class PlainYaml(yaml.SafeLoader):
    """Reads what StepInto writes. A few lines with aliases or merge keys can stand for values
    without end. Raises ValueError or YAMLError for more than the limits."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has {len(data)} bytes, more than {MOST_BYTES}")
        super().__init__(data)
        self._sizes: dict[int, int] = {}
        """The number of values of each node, by its id."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias:
            size = self._sizes.get(id(node), MOST_VALUES + 1)  # it may be inside of itself
        else:
            size = 1 + sum(self._sizes.get(id(each), 0) for each in _inside(node))
            self._sizes[id(node)] = size
        if size > MOST_VALUES:
            raise yaml.YAMLError(
                f"it has more than {MOST_VALUES} values, with its aliases written out"
            )
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leave merge keys as they are."""


def _inside(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
