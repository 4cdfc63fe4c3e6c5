"""What every agent of one rollout shares."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Event

from collect.agents.config import AgentsConfig
from collect.agents.conversation import ConversationLog
from collect.agents.loop import AgentRun, AgentSpec
from collect.agents.wording import wording
from collect.benchmarks.base import Instance
from collect.benchmarks.workspace import reset_workspace
from collect.models.base import ConversationContext, ModelBackend, Sampling
from collect.question_records import Ask
from collect.rollout_log import NO_LOG, RolloutLog
from collect.store.records import MODEL_TEACHER, ORACLE_TEACHER, Role
from sandbox import Sandbox
from sandbox.debugger import Debugger, State
from sandbox.debugger.opening import open_debugger


@dataclass(frozen=True)
class RoleModel:
    """The model that plays one role, and how it is sampled."""

    backend: ModelBackend
    sampling: Sampling
    is_oracle: bool

    @property
    def teacher(self) -> str:
        """What stands in the records' `teacher` column."""
        return ORACLE_TEACHER if self.is_oracle else MODEL_TEACHER


@dataclass(frozen=True)
class RolloutContext:
    """One rollout: its bug, its sandbox, its models, and the conversations held so far."""

    instance: Instance
    variant: str
    attempt: int
    sandbox: Sandbox
    config: AgentsConfig
    role_models: Mapping[Role, RoleModel]
    stop: Event
    logs: list[ConversationLog] = field(default_factory=list)
    ask: Ask | None = None
    """The runtime question that the rollout is about, where it is about no more than one."""
    log: RolloutLog = NO_LOG

    @contextmanager
    def debugger(self) -> Iterator[Debugger]:
        """A debugger for the instance's language, not started yet, and closed in the end."""
        opened_at = time.monotonic()
        opened = open_debugger(self.instance.language, self.sandbox, self.config.debugger)
        with closing(opened):
            try:
                yield opened
            finally:
                if opened.state is not State.START:
                    self.log.note("debug_ended", seconds=time.monotonic() - opened_at)

    def reset(self, program: str | None = None) -> None:
        """Lay the bug's files out anew, with another version of its program where one is given:
        what tests and debug sessions have left behind must not decide the next ones."""
        files = dict(self.instance.files)
        if program is not None:
            files[self.instance.solution] = program.encode("utf-8", "replace")
        reset_workspace(self.sandbox, files)

    @property
    def wording(self) -> Mapping[str, str]:
        """What prompts and tools call things in the instance's language."""
        return wording(self.instance.language).values()

    def agent(
        self,
        spec: AgentSpec,
        role: Role,
        parent_call_id: str | None = None,
        patch_attempt: int = 0,
    ) -> AgentRun:
        """An agent ready to run; its conversation is part of the rollout from now on.

        With `parent_call_id` the conversation answers that tool call of the main agent's.
        """
        role_model = self.role_models[role]
        log = ConversationLog(
            index=len(self.logs),
            role=role,
            model=role_model.backend.name,
            teacher=role_model.teacher,
            sampling=role_model.sampling.model_dump_json(),
            tools=spec.toolbox.schemas() if spec.form.by_tools else [],
            parent_index=None if parent_call_id is None else 0,
            parent_call_id=parent_call_id,
            patch_attempt=patch_attempt,
            rollout_log=self.log,
        )
        self.logs.append(log)
        model = role_model.backend.open(
            ConversationContext(
                self.instance,
                self.variant,
                self.attempt,
                role,
                log.index,
                self.ask,
                self.config.debug_run_code,
                self.log,
            )
        )
        return AgentRun(spec, model, role_model.sampling, log, self.stop)
