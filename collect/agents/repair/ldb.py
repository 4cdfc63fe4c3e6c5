"""LDB: the failing test's execution, traced, goes to the model block by block for its verdict on
each, and then the program is repaired (arXiv:2402.16906).

The conversation goes on over the patch attempts, as in its published code.
"""

from __future__ import annotations

from collect.agents.loop import AgentRun, AgentSpec
from collect.agents.prompts import prompt
from collect.agents.repair.ldb_blocks import Level, Sampling, blocks_of, trace_text
from collect.agents.repair.ldb_trace import TraceUnavailable, trace_test
from collect.agents.repair.ldb_verdicts import Verdict, parse_verdicts
from collect.agents.repair.patching import patch_of
from collect.agents.repair.records import Patch, Round
from collect.agents.repair.self_debugging import attempt_message
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.records import Role


class Ldb:
    """One conversation: in each attempt the verdicts on the blocks, then the repaired program."""

    exhausted = False

    def __init__(self, context: RolloutContext, level: Level) -> None:
        self._context = context
        self._level = level
        self._agent: AgentRun | None = None

    def repair(self, current: Round) -> Patch:
        """Trace, ask for the verdicts, ask for the program; without a trace ask for it at once."""
        agent = self._agent = self._agent or self._open()
        agent.log.patch_attempt = current.number
        try:
            trace = self._trace(current)
        except TraceUnavailable as reason:
            agent.run(
                attempt_message(self._context, current, prompt("ldb/untraced", reason=str(reason)))
            )
            return patch_of(agent.log.final_answer, current.version.code)
        agent.run(attempt_message(self._context, current, prompt("ldb/traced", trace=trace)))
        wrong = [each for each in parse_verdicts(agent.log.final_answer) if each.correct is False]
        agent.run(repair_request(wrong))
        plan = "\n".join(each.explanation for each in wrong)
        return patch_of(agent.log.final_answer, current.version.code, plan)

    def _open(self) -> AgentRun:
        spec = AgentSpec(prompt("ldb/system"), Toolbox([]), max_steps=1)
        return self._context.agent(spec, Role.PATCH_CODER)

    def _trace(self, current: Round) -> str:
        """The trace as text. Raises TraceUnavailable, SandboxError."""
        context, version = self._context, current.version
        solution, limit = context.instance.solution, context.config.repair.ldb_trace_timeout
        trace = trace_test(
            context.sandbox, solution, version.code, version.failing.id, timeout=limit
        )
        blocks = blocks_of(trace, version.code, self._level)
        return trace_text(blocks, version.code, self._sampling())

    def _sampling(self) -> Sampling:
        config = self._context.config.repair
        blocks = {
            Level.LINE: config.ldb_lines,
            Level.BLOCK: config.ldb_blocks,
            Level.FUNCTION: config.ldb_functions,
        }
        return Sampling(blocks[self._level], config.ldb_block_lines, config.ldb_value_chars)


def repair_request(wrong: list[Verdict]) -> str:
    """Asks for the program, naming the blocks that were found wrong."""
    numbers = dict.fromkeys(each.block for each in wrong if each.block is not None)
    names = ", ".join(f"BLOCK-{number}" for number in numbers)
    found = prompt("ldb/found", blocks=names) + " " if names else ""
    return found + prompt("ldb/repair")
