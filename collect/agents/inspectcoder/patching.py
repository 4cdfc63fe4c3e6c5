"""The Patch Coder: from a root cause and its evidence to a patch (InspectCoder, section 2.4)."""

from __future__ import annotations

from collect.agents.inspectcoder.code_blocks import program_of, with_imports_of
from collect.agents.inspectcoder.records import Patch, Round
from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.store.records import Role


def write_patch(context: RolloutContext, current: Round, plan: str) -> Patch:
    """Let the Patch Coder write the next version of the program, from a plan. It sees every version
    so far, how it failed, and its plan."""
    spec = AgentSpec(prompt("inspectcoder/patch_coder"), Toolbox([]), max_steps=1)
    agent = context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
    versions = []
    for version, patch in (*current.history, (current.version, Patch(None, plan))):
        told = patch.plan or "(none)"
        if patch.problem:
            told += f"\n\nThis attempt gave no patch. {patch.problem}"
        text = prompt(
            "inspectcoder/patch_version",
            version=str(version.number),
            code=version.code.rstrip("\n"),
            error=version.failing.error,
            plan=told,
        )
        versions.append(text)
    task = context.instance.problem_statement
    agent.run(prompt("inspectcoder/patch_task", coding_task=task, versions="\n\n".join(versions)))
    return patch_of(agent.log.final_answer, current.version.code, plan)


def patch_of(reply: str, previous: str, plan: str = "") -> Patch:
    """The patch in a model's reply."""
    code, problem = program_of(reply, previous)
    if code is None:
        return Patch(None, plan, problem)
    return Patch(with_imports_of(previous, code), plan)
