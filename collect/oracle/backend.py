"""The oracle as a model backend."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping

from collect.agents.config import Variant
from collect.models.base import ConversationContext
from collect.models.config import OracleConfig
from collect.oracle.baselines import OracleAutoSD, OracleLdb, OracleSweAgent
from collect.oracle.inspector import OracleInspector, OracleSimulator, TerminalInspector
from collect.oracle.main_agent import OracleMain
from collect.oracle.patching import OraclePatchCoder, Patching
from collect.oracle.questions import OracleAnswerer
from collect.oracle.scripted import ExplorationPolicy, Script, ScriptedModel
from collect.oracle.subagent import OracleSubagent, SilentSubagent
from collect.store.records import Role

REPAIRS_ALONE: Mapping[str, Callable[[Patching], Script]] = {
    Variant.AUTOSD: OracleAutoSD,
    Variant.SWE_AGENT: OracleSweAgent,
    Variant.LDB_LINE: OracleLdb,
    Variant.LDB_BLOCK: OracleLdb,
    Variant.LDB_FUNCTION: OracleLdb,
}
"""By variant: the script that finds the cause with the Patch Coder's own model."""


class OracleBackend:
    """Opens a scripted conversation for the requested role."""

    def __init__(self, name: str, config: OracleConfig) -> None:
        self._name = name
        self._config = config

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._name

    def open(self, context: ConversationContext) -> ScriptedModel:
        """Deterministic by instance, attempt and conversation."""
        return ScriptedModel(self._script(context))

    def close(self) -> None:
        """Nothing to close."""

    def _script(self, context: ConversationContext) -> Script:
        rng = random.Random(_seed(context))
        count = self._config.candidates
        if context.role == Role.MAIN:
            return OracleMain(context.instance, context.variant, count, rng)
        if context.role == Role.PATCH_CODER:
            patches = REPAIRS_ALONE.get(context.variant, OraclePatchCoder)
            return patches(Patching(context.instance, count, rng))
        if context.role == Role.INSPECTOR:
            in_terminal = context.variant == Variant.INSPECTCODER_NO_INSPECTWARE
            kind = TerminalInspector if in_terminal else OracleInspector
            return kind(context.instance, context.variant, rng)
        if context.role == Role.SIMULATOR:
            return OracleSimulator()
        return self._subagent(context, rng)

    def _subagent(self, context: ConversationContext, rng: random.Random) -> Script:
        if self._config.answer == "nothing":
            return SilentSubagent()
        habits = ExplorationPolicy(rng, direct=self._config.sessions == "direct")
        if context.ask is not None:
            return OracleAnswerer(context.instance, context.ask, habits, context.run_code)
        return OracleSubagent(context.instance, habits)


def _seed(context: ConversationContext) -> int:
    # The variant is left out, so that paired variants differ in their abilities, not in luck.
    facts = f"{context.instance.id}\0{context.attempt}\0{context.index}"
    if context.ask is not None:
        facts += f"\0{context.ask.model_dump_json()}"
    return int.from_bytes(hashlib.sha256(facts.encode()).digest()[:8], "big")
