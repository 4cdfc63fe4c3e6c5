"""What a training run was and did: `model/training.json`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from train.preflight.report import Preflight


class LossPoint(BaseModel):
    """One logged optimizer step."""

    model_config = ConfigDict(extra="forbid")

    step: int
    epoch: float
    loss: float
    learning_rate: float
    token_accuracy: float | None = None
    """Share of the trained tokens that the model ranks first."""
    metrics: dict[str, float] = {}
    """What training on preferences or rewards says of the step, by TRL's names."""


class EvalPoint(BaseModel):
    """The test split after some optimizer step."""

    model_config = ConfigDict(extra="forbid")

    step: int
    loss: float
    """Mean over all trained tokens of the rows."""
    token_accuracy: float | None = None


class TrainReport(BaseModel):
    """The finished training; its file is what marks a model folder as complete."""

    model_config = ConfigDict(extra="forbid")

    fingerprint: str
    """Hash of the config, the data, the base model and the user's templates; the same training is
    not done twice."""
    config: dict[str, Any]
    base_model: str
    """What was loaded: a local folder or a hub id."""
    data_sha256: str
    """Of the train split's file."""
    repositories: list[str] = []
    """Whose bugs were trained on, by this training and by those of the base model."""
    preflight: Preflight
    parameters: int
    trained_parameters: int
    device: str
    steps: int
    seconds: float
    """Of training, without loading and saving; of the last start where it was resumed."""
    resumed_from_step: int
    """0 where it was not interrupted."""
    loss_curve: list[LossPoint]
    eval_curve: list[EvalPoint] = []
    versions: dict[str, str]
