"""The packages that training needs, and the error if they are missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from collect.errors import ConfigError
from sandbox.environment import install_command

TRAINING = ("torch", "transformers", "trl", "peft", "accelerate")


def require(packages: Sequence[str] = TRAINING) -> None:
    """Raise ConfigError if a package of the `train` extra is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"training needs {', '.join(missing)}, which is not installed; "
            f"{install_command('train')}"
        )
