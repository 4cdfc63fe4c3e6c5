"""The registry of systems: all others ask it, and name none themselves."""

from __future__ import annotations

import ast

from collect.agents.systems import MODULES, SYSTEMS
from tests.test_structure import MODULES as OF_THE_PROJECT
from tests.test_structure import imported

WORDS = {"baseline", "debug2fix", "inspectcoder"}
"""Names of systems that also name other things."""
DEFAULTS = {
    ("collect.config", "debug2fix_tool_limit"),
    ("eval.config", "debug2fix_tool_limit"),
}


def test_every_system_has_a_name_and_a_title_of_its_own() -> None:
    systems = [system for module in MODULES for system in module.SYSTEMS]
    assert len(SYSTEMS) == len(systems)
    assert len({system.title for system in systems}) == len(systems)
    for system in systems:
        assert system.without_subagent is None or system.without_subagent in SYSTEMS


def test_no_module_but_a_system_s_own_names_it() -> None:
    named = {
        (module, node.value)
        for module, path in OF_THE_PROJECT.items()
        if not module.startswith("collect.agents")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in SYSTEMS.keys() - WORDS
    }
    assert named == DEFAULTS


def test_the_loop_knows_no_debug_tool() -> None:
    modules = set(imported(OF_THE_PROJECT["collect.agents.conversation"]))
    assert "collect.agents.debug_tools" not in modules
    assert "collect.agents.debug2fix" not in modules
