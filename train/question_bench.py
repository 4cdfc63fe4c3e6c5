"""What training on rewards needs to know of the world beside the `train` section."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from collect.benchmarks.config import BenchmarkConfig
from collect.config import Machinery
from collect.held_out import HeldOutConfig


@dataclass(frozen=True)
class QuestionBench:
    """Whose bugs are asked about, and in what they are debugged."""

    machinery: Machinery = field(default_factory=Machinery)
    """Its sandbox, its agents' limits, and when it gives up."""
    benchmark: BenchmarkConfig = field(default_factory=lambda: BenchmarkConfig(name="bundled"))
    """Where the questions' bugs are from."""
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    """Bugs that no question may be about."""

    @property
    def facts(self) -> Any:
        """What of it decides what is trained, as JSON."""
        return {
            "sandbox": self.machinery.sandbox.model_dump(mode="json"),
            "agents": self.machinery.agents.model_dump(mode="json"),
            "benchmark": self.benchmark.model_dump(mode="json"),
            "held_out": self.held_out.model_dump(mode="json"),
        }
