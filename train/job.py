"""One training: its inputs, and the paths of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import HeldOutConfig
from collect.config import RuntimeConfig
from collect.models.config import file_stamps, training_of
from collect.store.records import digest
from train.config import TrainConfig
from train.tokenization import template_file


@dataclass(frozen=True)
class Job:
    """One training of one run."""

    config: TrainConfig
    run: Path
    data: Path
    """The file of rows that it trains on."""
    data_sha256: str
    other_facts: Any = None
    """Other facts that distinguish this training, as JSON; None: nothing."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash that distinguishes trainings. It includes the training or files of a base model in a
        folder, and template files."""
        facts: dict[str, Any] = {"config": self.config.identity(), "data": self.data_sha256}
        base = Path(self.config.base_model)
        if base != self.run / "model":
            made = training_of(base).get("fingerprint") or file_stamps(base)
            if made:
                facts["base"] = made
        files = {name: template_file(each) for name, each in self.config.templates.items()}
        texts = {name: file.read_text() for name, file in files.items() if file and file.is_file()}
        if texts:
            facts["templates"] = {name: digest(text) for name, text in texts.items()}
        if self.other_facts is not None:
            facts["other"] = self.other_facts
        return digest(facts)

    @property
    def work(self) -> Path:
        """The folder of the training's own files."""
        return self.run / "train"

    @property
    def checkpoints(self) -> Path:
        return self.work / "checkpoints"

    @property
    def rows(self) -> Path:
        return self.work / "rows.arrow"

    @property
    def test_rows(self) -> Path:
        return self.work / "test-rows.arrow"

    def kept_copy(self, rows: int) -> Path:
        """Where the trainer's copy after so many rows is kept until training is over."""
        return self.checkpoints / "kept" / str(rows)


@dataclass(frozen=True)
class QuestionBench:
    """The settings beside the `train` section that training on rewards needs: the benchmark of the
    questions, and how its bugs are debugged."""

    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    """The sandbox, the agents' limits, and when to give up."""
    benchmark: BenchmarkConfig = field(default_factory=lambda: BenchmarkConfig(name="bundled"))
    """The benchmark with the questions' bugs."""
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    """Bugs that no question may be about."""

    @property
    def facts(self) -> Any:
        """The facts that affect the training, as JSON."""
        facts = {"sandbox": self.runtime.sandbox, "agents": self.runtime.agents}
        facts |= {"benchmark": self.benchmark, "held_out": self.held_out}
        return {name: section.model_dump(mode="json") for name, section in facts.items()}
