"""Rollouts that go on with the replies of an earlier start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.rollout_context import RoleModel
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.rollouts.executor import RolloutWork, Rows, do_with_journal
from collect.rollouts.rollout import RolloutSettings
from collect.store.files import TextFile
from collect.store.messages import Message, ToolSchema
from sandbox import SandboxConfig
from tests.collect.models.contexts import context
from tests.records import make_rollout


class Slow:
    """A model whose every reply takes ten minutes, by its own word."""

    name = "m"

    def open(self, context: ConversationContext) -> Slow:
        return self

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        return Completion(Message("assistant", "Yes."), Usage(), 0.0, 600.0, "stop")

    def close(self) -> None:
        """There is nothing to close."""


class Asking:
    """A rollout in which the model is asked something so often; it takes a second by itself."""

    spec = SimpleNamespace(instance=SimpleNamespace(hash="0" * 16))
    settings_hash = "settings"

    def __init__(self, times: int, shown: str = "") -> None:
        self.times, self.shown = times, shown

    def do(self, settings: RolloutSettings) -> Rows:
        model = settings.role_models["m"].backend.open(context())
        for number in range(self.times):
            model.complete([Message("user", f"{self.shown}Is it {number}?")], [], Sampling())
        return make_rollout(seconds=1.0), []


@pytest.fixture
def settings() -> RolloutSettings:
    role_models = {"m": RoleModel(Slow(), Sampling())}
    benchmark = cast(Any, None)
    return RolloutSettings(benchmark, SandboxConfig(), AgentsConfig(), role_models, Event())


def test_the_replies_that_are_given_back_took_their_time(
    settings: RolloutSettings, tmp_path: Path
) -> None:
    def seconds(times: int) -> float:
        work = cast(RolloutWork, Asking(times))
        row, _ = do_with_journal(work, settings, TextFile(tmp_path / "journal"))
        return row.seconds

    assert seconds(2) == 1.0
    assert seconds(3) == 1.0 + 2 * 600


def test_newer_files_of_another_owner_are_no_other_observation(
    settings: RolloutSettings, tmp_path: Path
) -> None:
    def seconds(shown: str) -> float:
        work = cast(RolloutWork, Asking(1, shown))
        row, _ = do_with_journal(work, settings, TextFile(tmp_path / "journal"))
        return row.seconds

    assert seconds("-rw-r--r-- 1 51234 51234 120 Mar  2 10:15 a.py\n") == 1.0
    assert seconds("-rw-r--r-- 1 77777 77777 120 Mar  2 11:47 a.py\n") == 1.0 + 600
    assert seconds("-rw-r--r-- 1 77777 77777 121 Mar  2 11:47 a.py\n") == 1.0
