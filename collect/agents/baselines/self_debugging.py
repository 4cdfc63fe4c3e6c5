"""Simple-Debugging, Rubber-Ducking and Trace-Reasoning (InspectCoder, section 3.4; the last two
from Chen et al., "Teaching Large Language Models to Self-Debug", arXiv:2304.05128).

They run nothing: the model reads, explains or simulates the code, and patches it. The conversation
continues over the patch attempts, and each attempt is told how the last patch fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from collect.agents.inspectcoder.patching import CodeVersion, Patch, Round, patch_of
from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.store.records import Role


@dataclass(frozen=True)
class Procedure:
    """The requests of each attempt, by prompt name."""

    fix: str
    """Asks for the program."""
    think: str | None = None
    """What the model writes before that."""


SIMPLE_DEBUGGING = Procedure("fix")
RUBBER_DUCKING = Procedure("fix_explained", think="explain")
TRACE_REASONING = Procedure("fix_traced", think="trace")


class SelfDebugging:
    """One conversation with one or two replies per attempt."""

    exhausted = False

    def __init__(self, context: RolloutContext, procedure: Procedure) -> None:
        self._context = context
        fix, think = (
            prompt(f"self_debugging/{name}") if name else None
            for name in (procedure.fix, procedure.think)
        )
        self._request = think or fix or ""
        spec = AgentSpec(
            prompt("self_debugging/system"),
            Toolbox([]),
            max_steps=2 if think else 1,
            follow_up=lambda answer: fix,
            max_follow_ups=1 if think else 0,
        )
        self._agent = context.agent(spec, Role.PATCH_CODER)

    def repair(self, current: Round) -> Patch:
        agent = self._agent
        agent.log.patch_attempt = current.number
        agent.run(attempt_message(self._context, current, self._request))
        return patch_of(agent.log.final_answer, current.version.code)


def attempt_message(context: RolloutContext, current: Round, request: str) -> str:
    """The program and how it fails, then the request; the task comes first."""
    version = version_text(current.version)
    if not current.history:
        task = context.instance.problem_statement
        return prompt("self_debugging/first", coding_task=task, version=version, request=request)
    problem = current.history[-1][1].problem or ""
    return prompt("self_debugging/again", problem=problem, version=version, request=request)


def version_text(version: CodeVersion) -> str:
    """A program and the test it fails."""
    return prompt(
        "self_debugging/version",
        code=version.code.rstrip("\n"),
        test=version.failing.id,
        test_source=version.failing.source,
        error=version.failing.error,
    )
