"""Golden trajectories: what the oracle's agents say and see on a few bugs, kept to the letter.

`python -m tests.golden` writes them anew; look at the difference before you commit it.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

from collect.agents.config import AgentsConfig
from collect.agents.rollout_context import RoleModel
from collect.agents.systems import SYSTEMS
from collect.benchmarks.bundled import BundledBenchmark
from collect.models.base import Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, RolloutTrace, run_rollout
from collect.store.messages import to_openai
from collect.store.records import ORACLE_TEACHER
from sandbox import SandboxConfig
from tests.repair_bug import repair

FOLDER = Path(__file__).parent
PYTHON = ("shopcart__negative-base", "queryfilter__ghost-record")
JAVA = ("parcelroute__cheap-sofa",)
INSTANCES = (*PYTHON, *JAVA)
REPAIRS = {
    **{name: (name, "react") for name, system in SYSTEMS.items() if system.one_file},
    "inspectcoder-tools": ("inspectcoder", "tools"),
}
"""InspectCoder's systems, all on the bug of `tests.repair_bug`: variant, and form of acting."""
VOLATILE = [
    (re.compile(r"\b\d+\.\d+s\b"), "TIMEs"),
    (re.compile(r"(?<=Time elapsed: )[\d.]+(?= s\b)"), "TIME"),
    (re.compile(r"0x[0-9a-f]+"), "0xADDRESS"),
    (re.compile(r"(?<![\w/])/[^\s\"']*/site-packages(?=/)"), "SITE-PACKAGES"),
    (re.compile(r"(?<=in )\d+\.\d+s"), "TIMEs"),
]


def trajectory(instance_id: str) -> dict[str, Any]:
    """The rollout's patch, and each conversation's messages and stops."""
    benchmark = BundledBenchmark(languages=("python", "java"))
    instance = next(found for found in benchmark.instances() if found.id == instance_id)
    oracle = OracleBackend("oracle", OracleConfig(backend="oracle"))
    role_models = {"oracle": RoleModel(oracle, Sampling(), ORACLE_TEACHER, must_be_true=True)}
    settings = RolloutSettings(
        benchmark, SandboxConfig(), AgentsConfig(), role_models, threading.Event()
    )
    spec = RolloutSpec(instance, "debug2fix_tool_limit", "oracle", "oracle", 0)
    return described(run_rollout(spec, settings))


def repair_trajectory(name: str) -> dict[str, Any]:
    """The same of one of InspectCoder's systems."""
    variant, form = REPAIRS[name]
    return described(repair(variant, inspector_form=form))


def described(trace: RolloutTrace) -> dict[str, Any]:
    """A rollout's patch, and each conversation's messages, actions and stops."""
    conversations = [
        {
            "role": log.role.value,
            **({"patch_attempt": log.patch_attempt} if log.patch_attempt else {}),
            "messages": [to_openai(message) for message in log.sent()],
            "stops": [
                f"{row.event.stop_reason} {row.event.file}:{row.event.line} {row.event.function}"
                for row in log.events
                if row.event.stop_reason
            ],
        }
        for log in trace.logs
    ]
    return {"patch": trace.patch, "conversations": conversations}


def normalised(trajectory: dict[str, Any]) -> str:
    """As JSON, without what differs from run to run: times and addresses."""
    text = json.dumps(trajectory, indent=1, ensure_ascii=False) + "\n"
    for pattern, stand_in in VOLATILE:
        text = pattern.sub(stand_in, text)
    return text


def golden_file(name: str) -> Path:
    """Where the golden trajectory of an instance or a system lies."""
    return FOLDER / f"{name}.json"
