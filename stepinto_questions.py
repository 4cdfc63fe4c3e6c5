"""The verifiers environment `stepinto-questions`: questions about runs, answered in real debug
sessions. docs/environments.md shows its use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from configs.environments import Policy, open_environment
from train.config import RewardSettings

__all__ = ["QuestionsTaskset", "StepIntoEnv", "StepIntoHarness"]
WEIGHTS = RewardSettings()
SCORES = "stepinto"
"""Where a trace's `info` keeps what the rollout earned."""


class StepIntoConfig(vf.TasksetConfig):
    """Which tasks there are."""

    config: Path = Path()
    """A StepInto config, or a run folder; by default the current one."""
    overrides: list[str] = Field(default=[])
    """Settings on top of it, each `key.subkey=value`."""
    record: bool = False
    """Also store the rollouts in the config's run folder, as `stepinto collect` does. Only for one
    worker process."""


class StepIntoData(vf.TaskData):
    """A task, and what opens its environment again in another process."""

    kind: str
    config: Path
    overrides: list[str]
    record: bool


class StepIntoTask(vf.Task[StepIntoData, vf.State, vf.TaskConfig]):
    @property
    def key(self) -> str:
        return str(self.data.id)

    def earned(self, trace: Any, part: str) -> float:
        """A part of the reward; 0 if a limit of verifiers' ended the rollout before its end."""
        return float(trace.info[SCORES]["rewards"][part]) if SCORES in trace.info else 0.0

    @vf.metric
    async def counts(self, trace: vf.Trace) -> dict[str, float]:
        return dict(trace.info[SCORES]["metrics"]) if SCORES in trace.info else {}


class StepIntoTaskset(vf.Taskset[StepIntoTask, StepIntoConfig]):
    kind: str

    def load(self) -> Iterator[StepIntoTask]:
        given = self.config
        how = {"kind": self.kind, "overrides": given.overrides, "record": given.record}
        opened = open_environment(self.kind, given.config, tuple(given.overrides), given.record)
        for task, asked in opened.tasks.items():
            data = StepIntoData(id=task, prompt=asked, config=given.config, **how)
            yield self.task_type()(data, given.task)


class StepIntoHarness(vf.Harness[vf.HarnessConfig]):
    """StepInto's own agents, in this process. Code under test runs in StepInto's sandboxes, not in
    verifiers' runtime."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(  # noqa: PLR0917 - verifiers passes them by position
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: StepIntoData,
    ) -> vf.ProgramResult:
        if data.system_prompt is not None:
            raise ValueError("StepInto's agents have their own prompts: leave system_prompt out")
        how = (data.kind, data.config, tuple(data.overrides), data.record)
        policy = Policy(ctx.model, endpoint, secret)
        scores = await open_environment(*how).roll_out(str(data.id), policy)
        trace.info[SCORES] = asdict(scores)
        return vf.ProgramResult(0, "", "")


class StepIntoEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class StepIntoEnv(vf.Env[StepIntoEnvConfig]):
    """One agent, in a runtime of this machine: it does nothing there."""

    async def run(self, task: StepIntoTask, agents: vf.Agents) -> None:
        await agents.agent.run(task)


class QuestionTask(StepIntoTask):
    """`train.config.RewardSettings` describes the parts of the reward."""

    @vf.reward(weight=WEIGHTS.correct)
    async def correct(self, trace: vf.Trace) -> float:
        return self.earned(trace, "correct")

    @vf.reward(weight=WEIGHTS.facts)
    async def facts(self, trace: vf.Trace) -> float:
        return self.earned(trace, "facts")

    @vf.reward(weight=WEIGHTS.form)
    async def form(self, trace: vf.Trace) -> float:
        return self.earned(trace, "form")

    @vf.reward(weight=WEIGHTS.invalid_calls)
    async def invalid_calls(self, trace: vf.Trace) -> float:
        return self.earned(trace, "invalid_calls")


class QuestionsTaskset(StepIntoTaskset, vf.Taskset[QuestionTask, StepIntoConfig]):
    kind = "questions"
