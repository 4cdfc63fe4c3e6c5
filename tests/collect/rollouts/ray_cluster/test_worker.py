"""What ends the rollouts of a worker."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RuntimeConfig
from collect.errors import FailureKind
from collect.rollouts.executor import RolloutWork, Rows, Setup, ThisMachine
from collect.rollouts.ray_cluster.worker import NodeWorker
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from sandbox import SandboxConfig


class Broken:
    """An executor where StepInto itself has a defect."""

    def do(self, work: RolloutWork) -> Rows:
        raise KeyError("a defect")


def test_an_unforeseen_error_is_a_row(tmp_path: Path) -> None:
    benchmark = BundledBenchmark()
    runtime = RuntimeConfig(sandbox=SandboxConfig(backend="local"))
    models = {"oracle": runtime.model_config_of("oracle")}
    worker = NodeWorker(Setup(runtime, benchmark, models, tmp_path), None, "worker", 1)
    worker._executor = cast(ThisMachine, Broken())
    spec = RolloutSpec(next(iter(benchmark.instances())), "debug2fix", "oracle", "oracle", 0)
    row, conversations = worker._do(RolloutWork(spec, RunIdentity("test", 0), "hash"))
    assert (row.failure_kind, row.failure_type) == (FailureKind.INFRASTRUCTURE, "KeyError")
    assert "in do\n    raise KeyError" in (row.failure_message or ""), "the row shows where"
    assert not conversations
