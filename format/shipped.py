"""The conversations that StepInto ships, by a name that holds in every folder."""

from __future__ import annotations

from pathlib import Path

from format.config import FormatConfig

DEMONSTRATIONS = Path(__file__).parents[1] / "demonstrations"
"""A run's folder, beside the packages in a checkout and where StepInto is installed."""


def with_shipped(config: FormatConfig) -> FormatConfig:
    """The config with the paths of the shipped run and its files. A folder of the user's by that
    name comes first."""
    questions = tuple(str(_found(Path(path))) for path in config.questions)
    return config.model_copy(
        update={"runs": tuple(map(_found, config.runs)), "questions": questions}
    )


def _found(path: Path) -> Path:
    first, *rest = path.parts or ("",)
    if first != DEMONSTRATIONS.name or Path(first).exists():
        return path
    return DEMONSTRATIONS.joinpath(*rest)
