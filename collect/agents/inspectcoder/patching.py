"""The Patch Coder: from a root cause and its evidence to a patch (InspectCoder, section 2.4)."""

from __future__ import annotations

from collect.agents.inspectcoder.code_blocks import program_of, with_imports_of
from collect.agents.inspectcoder.records import CodeVersion, Patch, Round
from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.store.records import Role

NO_PLAN = "(none)"


class PatchCoder:
    """Writes one patch per round; its scratchpad holds earlier attempts."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context

    def patch(self, current: Round, plan: str) -> Patch:
        """The next version of the program, from a plan."""
        spec = AgentSpec(prompt("inspectcoder/patch_coder"), Toolbox([]), max_steps=1)
        agent = self._context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
        agent.run(patch_task(self._context.instance.problem_statement, current, plan))
        return patch_of(agent.log.final_answer, current.version.code, plan)


def patch_of(reply: str, previous: str, plan: str = "") -> Patch:
    """The patch in a model's reply."""
    code, problem = program_of(reply, previous)
    if code is None:
        return Patch(None, plan, problem)
    return Patch(with_imports_of(previous, code), plan)


def patch_task(coding_task: str, current: Round, plan: str) -> str:
    """The Patch Coder's prompt: every version so far, how it failed, and its plan."""
    versions = [version_text(version, patch) for version, patch in current.history]
    versions.append(version_text(current.version, Patch(None, plan)))
    return prompt(
        "inspectcoder/patch_task", coding_task=coding_task, versions="\n\n".join(versions)
    )


def version_text(version: CodeVersion, patch: Patch) -> str:
    """One entry of the scratchpad."""
    plan = patch.plan or NO_PLAN
    if patch.problem:
        plan += f"\n\nThis attempt gave no patch. {patch.problem}"
    return prompt(
        "inspectcoder/patch_version",
        version=str(version.number),
        code=version.code.rstrip("\n"),
        error=version.failing.error,
        plan=plan,
    )
