"""A system: agents that work on a bug in one way, as a thing to roll out and to compare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from collect.agents.config import AgentsConfig
from collect.agents.rollout_context import RolloutContext
from collect.benchmarks.base import Benchmark
from collect.store.records import Role, StopReason

SUBAGENTS = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
"""The roles that debug for another agent, which edits."""
Debugging = Literal["session", "terminal", "simulated"]
"""A debug session; a raw terminal, of which no event records where the program stopped; or a model
that plays the debugger."""


@dataclass(frozen=True, kw_only=True)
class System(ABC):
    """One system. Where others ask about it, its defaults are those of an agent that edits any
    repository and has no debugger."""

    name: str
    """In configs and rows."""
    title: str
    """In tables."""
    family: Literal["debug2fix", "inspectcoder"] = "debug2fix"
    """The paper in whose tables it stands. Rows have it as their `system`."""
    roles: tuple[Role, ...] = (Role.MAIN,)
    """Its agents; the first one edits."""
    one_file: bool = False
    """Whether it needs a bug whose program is one file, `solution`. No other change of its agents
    counts."""
    needs_public_tests: bool = False
    """Whether it needs a bug with tests that agents may see."""
    main_debugs: bool = False
    """Whether the editing agent has the debug tools itself."""
    debugging: Debugging = "session"
    """What the agents that debug do it with."""
    asks_first: bool = False
    """Whether no file can be changed before the subagent was asked."""
    without_subagent: str | None = None
    """The system that differs from it by having no subagent."""
    is_ablation: bool = False
    """Whether it is another system of its family with something taken away."""

    @property
    def editor(self) -> Role:
        """The agent that edits."""
        return self.roles[0]

    @property
    def subagent(self) -> Role | None:
        """The agent that debugs for the editing one, with a model of its own."""
        return next((role for role in self.roles if role in SUBAGENTS), None)

    def tool_users(self, config: AgentsConfig) -> tuple[Role, ...]:
        """The roles that act by tool calls, not in text."""
        by_tools = [Role.MAIN, Role.DEBUG_SUBAGENT]
        if config.repair.inspector_form == "tools":
            by_tools.append(Role.INSPECTOR)
        return tuple(role for role in self.roles if role in by_tools)

    @abstractmethod
    def run(self, context: RolloutContext, benchmark: Benchmark) -> StopReason:
        """Work on the context's bug. The result stays in its sandbox.

        Raises RolloutError, RolloutStopped, SandboxError.
        """
