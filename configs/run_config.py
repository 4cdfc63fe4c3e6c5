"""A run's whole config: shared settings, and a section per stage."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from collect.benchmarks.held_out import HeldOutConfig
from collect.benchmarks.projects.config import FactoryConfig
from collect.config import CollectConfig, RuntimeConfig
from collect.questions.config import QuestionsConfig
from collect.synthesis.self_repair.sources import SelfRepairConfig
from eval.config import EvalConfig
from format.config import FormatConfig
from train.config import TrainConfig

StageName = Literal["make", "questions", "answer", "collect", "format", "train", "eval"]


class RunConfig(RuntimeConfig):
    """All settings of a YAML config."""

    run: str = Field(min_length=1, max_length=100, pattern=r"^[\w-][\w.-]*$")
    """The run's name, and the name of its folder."""
    runs_folder: Path = Path("runs")
    """The folder of all runs."""
    stages: tuple[StageName, ...] = Field(
        default=("collect", "format", "train", "eval"), min_length=1
    )
    """The stages that `stepinto run` runs, in order; `make`, `questions` and `answer` are those of
    `stepinto bench`."""
    collect: CollectConfig = CollectConfig()
    held_out: HeldOutConfig = HeldOutConfig()
    """Bugs reserved for evaluation, which collect refuses and format drops."""
    self_repair: SelfRepairConfig = SelfRepairConfig()
    """For `stepinto bench self-repair`, which makes a benchmark file."""
    factory: FactoryConfig = FactoryConfig()
    """For `stepinto bench make`, which makes bugs of real projects."""
    questions: QuestionsConfig = QuestionsConfig()
    """For `stepinto bench questions` and `stepinto bench answer`."""
    format: FormatConfig = FormatConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()

    @property
    def folder(self) -> Path:
        """The folder of all the run's files."""
        return self.runs_folder / self.run
