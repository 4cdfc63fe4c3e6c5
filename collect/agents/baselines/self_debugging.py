"""Simple-Debugging, Rubber-Ducking and Trace-Reasoning (InspectCoder, section 3.4; the last two
from Chen et al., "Teaching Large Language Models to Self-Debug", arXiv:2304.05128).

They run nothing: the model reads, explains or simulates the code, and patches it. The conversation
continues over the patch attempts, and each attempt is told how the last patch fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from collect.agents.conversation import AgentSpec
from collect.agents.inspectcoder.patching import (
    CodeVersion,
    OneFileRepair,
    Patch,
    Round,
    patch_of,
)
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.store.records import Role


class SelfDebugging:
    """One conversation, with a reply per request in each attempt."""

    exhausted = False

    def __init__(self, context: RolloutContext, request_names: Sequence[str]) -> None:
        """`request_names` are the prompts of the requests; the last one asks for the program."""
        self._context = context
        requests = [prompt(f"self_debugging/{name}") for name in request_names]
        self._request = requests[0]
        spec = AgentSpec(
            prompt("self_debugging/system"),
            Toolbox([]),
            max_steps=len(requests),
            follow_up=lambda answer: requests[-1],
            max_follow_ups=len(requests) - 1,
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


SYSTEMS = (
    OneFileRepair(
        name="simple_debugging",
        title="Simple-Debugging",
        open_repair=partial(SelfDebugging, request_names=("fix",)),
    ),
    OneFileRepair(
        name="rubber_ducking",
        title="Rubber-Ducking",
        open_repair=partial(SelfDebugging, request_names=("explain", "fix_explained")),
    ),
    OneFileRepair(
        name="trace_reasoning",
        title="Trace-Reasoning",
        open_repair=partial(SelfDebugging, request_names=("trace", "fix_traced")),
    ),
)
