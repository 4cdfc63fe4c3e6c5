"""AutoSD: debugging by the scientific method (Kang et al., "Explainable automated debugging via
large language model-driven scientific debugging", arXiv:2304.02195), with edits of several lines
(InspectCoder, section 3.5)."""

from __future__ import annotations

from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.repair.autosd_experiment import Experiment
from collect.agents.repair.autosd_form import ScientificForm, debugging_log, trials_of
from collect.agents.repair.failing import numbered
from collect.agents.repair.records import Round
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.records import Role

PREAMBLE = 2
"""Messages before the first reply: the system prompt and the task."""


class ScientificDebugger:
    """One conversation a round; all rounds share the reasoning steps."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        return self._steps_left <= 0

    def diagnose(self, current: Round) -> str:
        """The debugging log, without the hypotheses that were rejected."""
        context, test = self._context, current.version.failing.id
        spec = AgentSpec(
            prompt("autosd/system", steps=str(self._steps_left)),
            Toolbox([Experiment(context, test)]),
            max_steps=self._steps_left,
            form=ScientificForm(),
        )
        agent = context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
        try:
            agent.run(autosd_task(context.instance.problem_statement, current))
        finally:
            self._steps_left -= agent.log.steps
        return debugging_log(trials_of(agent.log.sent()[PREAMBLE:]))


def autosd_task(coding_task: str, current: Round) -> str:
    """The bug to debug: the task, the program and the test it fails."""
    failing = current.version.failing
    return prompt(
        "autosd/task",
        coding_task=coding_task,
        code=numbered(current.version.code),
        test=failing.id,
        test_source=failing.source,
        error=failing.error,
    )
