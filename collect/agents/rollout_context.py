"""State shared by all agents of a rollout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from collect.agents.config import AgentsConfig
from collect.agents.conversation import AgentRun, AgentSpec, ConversationLog
from collect.agents.prompts import wording
from collect.benchmarks.base import Instance
from collect.benchmarks.workspace import reset_workspace
from collect.comparison import Comparison
from collect.console import NO_LOG, RolloutLog
from collect.models.base import ConversationContext, FreshDebugger, ModelBackend, Sampling
from collect.question_records import Ask
from collect.store.records import MODEL_TEACHER, ORACLE_TEACHER, Role
from sandbox import Sandbox
from sandbox.debugger import Debugger, State, open_debugger


@dataclass(frozen=True)
class RoleModel:
    """The model that plays a role, and its sampling."""

    backend: ModelBackend
    sampling: Sampling
    teacher: str = MODEL_TEACHER
    """Value of the records' `teacher` column."""
    must_be_true: bool = False
    """Whether its answers are checked against the runs without and with the gold patch, since the
    oracle gives them, or may in a relay."""
    student: str | None = None
    """The model in a relay whose answers are not the oracle's."""

    @property
    def is_oracle(self) -> bool:
        """Whether it knows the gold patch."""
        return self.teacher == ORACLE_TEACHER or self.must_be_true


@dataclass(frozen=True)
class RolloutContext:
    """One rollout: its bug, sandbox, models, and conversations so far."""

    instance: Instance
    variant: str
    attempt: int
    sandbox: Sandbox
    config: AgentsConfig
    role_models: Mapping[Role, RoleModel]
    stop: Event
    logs: list[ConversationLog] = field(default_factory=list)
    ask: Ask | None = None
    """The runtime question, if the rollout is about one."""
    log: RolloutLog = NO_LOG
    fresh_debugger: FreshDebugger | None = None
    """See `ConversationContext`."""
    compare: Callable[[str], Comparison | None] | None = None
    """Compares the runs of a test without and with the gold patch; for the oracle."""
    is_right: Callable[[str], bool] | None = None
    """Whether a last message answers the runtime question; for a relay."""

    @contextmanager
    def debugger(self) -> Iterator[Debugger]:
        """A debugger for the instance's language, not started yet; closed at the end."""
        opened_at = time.monotonic()
        opened = open_debugger(self.instance.language, self.sandbox, self.config.debugger)
        with closing(opened):
            try:
                yield opened
            finally:
                if opened.state is not State.START:
                    self.log.note("debug_ended", seconds=time.monotonic() - opened_at)

    def reset(self, program: str | None = None) -> None:
        """Reset the bug's files, optionally with another version of its program, so that leftovers
        of tests and debug sessions don't affect the next ones.
        """
        files = dict(self.instance.files)
        if program is not None:
            files[self.instance.solution] = program.encode("utf-8", "replace")
        reset_workspace(self.sandbox, files)

    @property
    def wording(self) -> Mapping[str, str]:
        """Language-specific terms for prompts and tools."""
        return wording(self.instance.language, self.instance.files)

    def agent(
        self, spec: AgentSpec, role: Role, parent_call_id: str | None = None, patch_attempt: int = 0
    ) -> AgentRun:
        """An agent ready to run; its conversation becomes part of the rollout.

        With `parent_call_id` the conversation answers that tool call of the main agent.
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
            max_steps=spec.max_steps,
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
                self.fresh_debugger,
                self.compare,
                partial(log.row, self.instance, self.variant, self.attempt, ""),
                self.is_right,
            )
        )
        tokens = {
            Role.MAIN: self.config.main_context_tokens,
            Role.DEBUG_SUBAGENT: self.config.sub_context_tokens,
        }
        return AgentRun(spec, model, role_model.sampling, log, self.stop, tokens.get(role))
