"""How often the oracle, as Debug Subagent, says something about a bug that is not so.

    python -m benchmarks.oracle_claims humanevalfix python.jsonl --language python --bugs 20
    python -m benchmarks.oracle_claims local FACTORY_FOLDER

For each bug it is asked where the failing test goes wrong, with four suspects. Its answer is then
compared with a buggy and a fixed run of the test, made anew in fresh sandboxes: the place, the
visit and the values. Answers that its own check refutes are counted as false, too: they would be
dropped.
"""

from __future__ import annotations

import argparse
import random
import threading
from collections import Counter
from functools import partial

from rich.console import Console
from rich.table import Table

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import run_subagent
from collect.agents.rollout_context import RoleModel, RolloutContext
from collect.agents.subagent_task import DebugSubagentArguments, parse_answer
from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.comparison import false_claims
from collect.errors import ModelFailure
from collect.models.base import Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.oracle.candidates import make_candidates
from collect.rollouts.rollout import RolloutSettings
from collect.store.records import ORACLE_TEACHER, Role
from sandbox import SandboxConfig

ORACLE = RoleModel(
    OracleBackend("oracle", OracleConfig(backend="oracle")),
    Sampling(),
    ORACLE_TEACHER,
    must_be_true=True,
)
TRUE, FALSE, REFUTED, UNKNOWN = "true", "false", "refuted by its own check", "not known"


def judged(instance: Instance, settings: RolloutSettings) -> tuple[str, str]:
    """What became of the oracle's answer about a bug, and why."""
    test = instance.fail_to_pass[0]
    suspects = ", ".join(each.place for each in make_candidates(instance, 4, random.Random(0)))
    question = f"Where does this go wrong? I suspect one of these places: {suspects}."
    with settings.open_sandbox(instance) as sandbox:
        settings.prepare(instance, sandbox)
        context = RolloutContext(
            instance=instance,
            variant="debug2fix",
            attempt=0,
            sandbox=sandbox,
            config=settings.agents,
            role_models={Role.DEBUG_SUBAGENT: ORACLE},
            stop=settings.stop,
            compare=partial(settings.compare, instance),
        )
        try:
            log = run_subagent(context, DebugSubagentArguments(question=question, test=test))
        except ModelFailure as failure:
            return REFUTED, str(failure)
    settings.comparisons.clear()
    answer, comparison = parse_answer(log.final_answer), settings.compare(instance, test)
    if answer is None or comparison is None or comparison.visit is None:
        return UNKNOWN, answer.answer if answer is not None else ""
    false = false_claims(answer, comparison)
    return (FALSE, "; ".join(false)) if false else (TRUE, answer.answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("benchmark", choices=("humanevalfix", "local", "bundled"))
    parser.add_argument("path", nargs="?")
    parser.add_argument("--language", choices=("python", "java"), default="python")
    parser.add_argument("--bugs", type=int, help="at most so many, drawn at random")
    options = parser.parse_args()
    given = {"path": options.path, "language": options.language, "limit": options.bugs}
    told = {name: value for name, value in given.items() if value is not None}
    config = BenchmarkConfig(name=options.benchmark, shuffle_seed=0, **told)
    settings = RolloutSettings(
        open_benchmark(config), SandboxConfig(), AgentsConfig(), {}, threading.Event()
    )
    counts = Counter[str]()
    for instance in select_instances(config, settings.benchmark):
        result, why = judged(instance, settings)
        counts[result] += 1
        print(f"{instance.id}: {result}: {why}", flush=True)
    table = Table("answers", "", title="what the oracle says of place, visit and value")
    for name in (TRUE, FALSE, REFUTED, UNKNOWN):
        table.add_row(name, str(counts[name]))
    Console().print(table)


if __name__ == "__main__":
    main()
