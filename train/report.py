"""The record of a training run: `model/training.json`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from collect.store.record_lines import StrictRecord
from train.preflight.report import Preflight


class LossPoint(StrictRecord):
    """One logged optimizer step."""

    step: int
    epoch: float
    loss: float
    learning_rate: float
    token_accuracy: float | None = None
    """Share of the trained tokens that the model ranks first."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """Metrics of the step from training on preferences or rewards, by TRL's names."""


class EvalPoint(StrictRecord):
    """The evaluation on the test split after an optimizer step."""

    step: int
    loss: float
    """Mean over all trained tokens of the rows."""
    token_accuracy: float | None = None


class TrainReport(StrictRecord):
    """The report of a finished training; its file marks a model folder as complete."""

    fingerprint: str
    """Hash of the config, the data, the base model and the user's templates; the same training is
    not repeated."""
    config: dict[str, Any]
    base_model: str
    """The model that was loaded: a local folder or a hub id."""
    data_sha256: str
    """Hash of the train split's file."""
    repositories: list[str] = Field(default_factory=list)
    """Repositories whose bugs were trained on, by this training and those of the base model."""
    preflight: Preflight
    parameters: int
    trained_parameters: int
    device: str
    steps: int
    seconds: float
    """Seconds of training without loading and saving; if resumed, of the last start."""
    resumed_from_step: int
    """0 if it was not interrupted."""
    loss_curve: list[LossPoint]
    eval_curve: list[EvalPoint] = Field(default_factory=list)
    versions: dict[str, str]
