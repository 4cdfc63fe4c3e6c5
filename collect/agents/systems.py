"""The registry of systems: all that can be rolled out, by name, in the order of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from collect.agents import adaptive_limit, debug2fix
from collect.agents.baselines import autosd, ldb, self_debugging, swe_agent
from collect.agents.inspectcoder import inspector
from collect.agents.system import System

MODULES = (debug2fix, adaptive_limit, self_debugging, swe_agent, autosd, ldb, inspector)
SYSTEMS: Mapping[str, System] = {
    system.name: system for module in MODULES for system in module.SYSTEMS
}


def names_of(is_meant: Callable[[System], bool]) -> frozenset[str]:
    """The names of the systems for which this holds."""
    return frozenset(name for name, system in SYSTEMS.items() if is_meant(system))


def _known(name: str) -> str:
    if name not in SYSTEMS:
        names = [repr(known) for known in SYSTEMS]
        expected = f"{', '.join(names[:-1])} or {names[-1]}"
        raise PydanticKnownError("enum", {"expected": expected})
    return name


Variant = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"enum": list(SYSTEMS), "type": "string"})
]
"""A system's name in a config: a paper's system, or a variant of it."""
