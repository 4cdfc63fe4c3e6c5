"""The oracle: a scripted teacher that knows the gold patch and uses the same tools as any model.

It runs the pipeline without a key or GPU, provides cold-start data, and is an upper bound for every
score. Its results are never a model's: its rows say `teacher = "oracle"`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping

from collect.agents.config import Variant
from collect.models.base import ConversationContext
from collect.models.config import OracleConfig
from collect.oracle.answering import OracleAnswerer
from collect.oracle.baselines import OracleAutoSD, OracleLdb, OracleSweAgent
from collect.oracle.candidates import OracleMain, OraclePatchCoder, Patching
from collect.oracle.inspector import OracleInspector, OracleSimulator, TerminalInspector
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
        self.name, self._config = name, config

    def open(self, context: ConversationContext) -> ScriptedModel:
        """Deterministic by instance, attempt and conversation."""
        instance, variant, ask = context.instance, context.variant, context.ask
        # The variant is left out, so that paired variants differ in their abilities, not in luck.
        facts = f"{instance.id}\0{context.attempt}\0{context.index}"
        if ask is not None:
            facts += f"\0{ask.model_dump_json()}"
        rng = random.Random(int.from_bytes(hashlib.sha256(facts.encode()).digest()[:8], "big"))
        habits = ExplorationPolicy(rng, direct=self._config.sessions == "direct")
        script: Script
        match context.role:
            case Role.MAIN:
                script = OracleMain(instance, variant, self._config.candidates, rng)
            case Role.PATCH_CODER:
                patching = Patching(instance, self._config.candidates, rng)
                script = REPAIRS_ALONE.get(variant, OraclePatchCoder)(patching)
            case Role.INSPECTOR if variant == Variant.INSPECTCODER_NO_INSPECTWARE:
                script = TerminalInspector(instance, variant, rng)
            case Role.INSPECTOR:
                script = OracleInspector(instance, variant, rng)
            case Role.SIMULATOR:
                script = OracleSimulator()
            case _ if self._config.answer == "nothing":
                script = SilentSubagent()
            case _ if ask is not None:
                script = OracleAnswerer(instance, ask, habits, context.run_code)
            case _:
                script = OracleSubagent(instance, habits)
        return ScriptedModel(script)

    def close(self) -> None:
        """Nothing to close."""
