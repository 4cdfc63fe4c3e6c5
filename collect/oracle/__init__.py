"""The oracle: a scripted teacher that knows the gold patch and uses the same tools as any model.

It runs the pipeline without a key or GPU, provides cold-start data, and is an upper bound for every
score. Its results are never a model's: its rows say `teacher = "oracle"`.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Lock

from collect.agents.baselines import autosd, ldb, swe_agent
from collect.agents.inspectcoder.ablations import Ablation
from collect.errors import ConfigError
from collect.models.base import ConversationContext
from collect.models.config import OracleConfig
from collect.oracle.answering import OracleAnswerer
from collect.oracle.baselines import OracleAutoSD, OracleLdb, OracleSweAgent
from collect.oracle.candidates import (
    Candidate,
    Kind,
    Line,
    OracleMain,
    OraclePatchCoder,
    Patching,
    Reached,
    make_candidates,
    watch,
)
from collect.oracle.inspector import (
    OracleInspector,
    OracleSimulator,
    SilentInspector,
    TerminalInspector,
)
from collect.oracle.scripted import ExplorationPolicy, Script, ScriptedModel
from collect.oracle.subagent import OracleSubagent, ReferenceSubagent
from collect.store.records import Role

REPAIRS_ALONE: Mapping[str, Callable[[Patching], Script]] = {
    **{system.name: OracleAutoSD for system in autosd.SYSTEMS},
    **{system.name: OracleSweAgent for system in swe_agent.SYSTEMS},
    **{system.name: OracleLdb for system in ldb.SYSTEMS},
}
"""By system: the script that finds the cause with the Patch Coder's own model. What the oracle does
in any other system follows from the role that it plays, and from the tools of that."""


class OracleBackend:
    """Opens a scripted conversation for the requested role."""

    def __init__(self, name: str, config: OracleConfig) -> None:
        self.name, self._config = name, config
        self._reached: dict[tuple[str, str], Reached] = {}
        """By the bug's hash and the failing test."""
        self._watching: dict[tuple[str, str], Lock] = {}
        """By the same: the arms of an evaluation begin a bug at the same time."""

    def open(self, context: ConversationContext) -> ScriptedModel:
        """Deterministic by instance, attempt and conversation."""
        instance, variant, ask = context.instance, context.variant, context.ask
        # The variant is left out, so that paired variants differ in their abilities, not in luck.
        facts = f"{instance.id}\0{context.attempt}\0{context.index}"
        if ask is not None:
            facts += f"\0{ask.model_dump_json()}"
        rng = random.Random(int.from_bytes(hashlib.sha256(facts.encode()).digest()[:8], "big"))
        habits = ExplorationPolicy(rng, direct=self._config.sessions == "direct")
        answer = self._config.answer
        script: Script
        match context.role:
            case Role.MAIN:
                candidates = partial(self._candidates, context, rng)
                script = OracleMain(instance, variant, rng, candidates)
            case Role.PATCH_CODER:
                patching = Patching(instance, self._config.candidates, rng)
                script = REPAIRS_ALONE.get(variant, OraclePatchCoder)(patching)
            case Role.SIMULATOR:
                script = OracleSimulator()
            case Role.INSPECTOR if answer == "nothing":
                script = SilentInspector()
            case Role.INSPECTOR if answer != "full":
                raise ConfigError(
                    f"models.{self.name}.answer: {answer} names one of the places that a Debug "
                    "Subagent is asked about, and an Inspector is told none: take full or nothing"
                )
            case Role.INSPECTOR if variant == Ablation.NO_INSPECTWARE:
                script = TerminalInspector(instance, variant, rng)
            case Role.INSPECTOR:
                script = OracleInspector(instance, variant, rng)
            case _ if answer != "full":
                script = ReferenceSubagent(instance, answer, habits)
            case _ if ask is not None:
                script = OracleAnswerer(instance, ask, habits, context.run_code, context.compare)
            case _:
                script = OracleSubagent(instance, habits, context.compare)
        return ScriptedModel(script)

    def _candidates(
        self, context: ConversationContext, rng: random.Random, test: str
    ) -> list[Candidate]:
        """The candidate patches, chosen by what the test does, which is measured once per bug."""
        instance, key = context.instance, (context.instance.hash, test)

        def watched(lines: Iterable[Line]) -> Reached:
            with self._watching.setdefault(key, Lock()):
                if key not in self._reached and context.fresh_debugger is not None:
                    with context.fresh_debugger() as debugger:
                        self._reached[key] = watch(debugger, test, lines)
            return self._reached.get(key, Reached())

        made = make_candidates(instance, self._config.candidates, rng, watched)
        kinds = Counter(each.kind for each in made)
        context.log.note("suspects_chosen", **{kind.value: kinds[kind] for kind in Kind})
        return made

    def close(self) -> None:
        """Nothing to close."""
