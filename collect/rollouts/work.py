"""One rollout to do, as it can be handed to another thread, process or machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from collect.rollouts.rollout import (
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    failure_of,
    run_rollout,
)
from collect.rollouts.rows import RunIdentity, rows_of
from collect.store.records import Conversation, Rollout

Rows = tuple[Rollout, list[Conversation]]
"""What is kept of a rollout."""


class Work(Protocol):
    """A rollout with an id of its own. Can be pickled."""

    @property
    def spec(self) -> RolloutSpec:
        """Which one."""

    @property
    def settings_hash(self) -> str:
        """Of the settings that it is done with, see `collect.settings`."""

    @property
    def label(self) -> str:
        """What a display calls it."""

    def do(self, settings: RolloutSettings) -> Rows:
        """Do it; what fails within is in its rows.

        Raises RolloutStopped, and ConfigError where a model can't be loaded.
        """

    def failed(self, error: Exception, settings: RolloutSettings) -> Rows:
        """The rows of one that could not be done."""


@dataclass(frozen=True)
class RolloutWork:
    """A rollout of agents on a bug."""

    spec: RolloutSpec
    identity: RunIdentity
    settings_hash: str

    @property
    def label(self) -> str:
        return f"{self.spec.instance.id} {self.spec.variant}"

    def do(self, settings: RolloutSettings) -> Rows:
        return self._rows(run_rollout(self.spec, settings), settings)

    def failed(self, error: Exception, settings: RolloutSettings) -> Rows:
        return self._rows(RolloutTrace(failure=failure_of(error)), settings)

    def _rows(self, trace: RolloutTrace, settings: RolloutSettings) -> Rows:
        return rows_of(self.spec, trace, settings, self.identity, self.settings_hash)
