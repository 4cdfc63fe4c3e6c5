"""LDB: the model judges the failing test's trace block by block, then repairs the program
(arXiv:2402.16906).

The conversation continues over the patch attempts, as in its published code.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from collect.agents.baselines.ldb_blocks import (
    Level,
    Sampling,
    TraceUnavailable,
    blocks_of,
    trace_test,
    trace_text,
)
from collect.agents.baselines.self_debugging import attempt_message
from collect.agents.inspectcoder.patching import patch_of
from collect.agents.inspectcoder.records import Patch, Round
from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.store.records import Role

# The prompt asks for JSON objects with `block`, `correct` and `explanation`. Models also write
# Python literals, omit fields, put the objects under block names, break quotes, or answer in prose.
FIELD = re.compile(
    r"""\b(?:block\b["']?\s*:\s*["'\[]*(?:BLOCK[-_ ]?)?|BLOCK[-_ ]?(?=\d{1,6}["']?\s*:\s*\{))"""
    r"""(?P<block>\d{1,6})|\bcorrect\b["']?\s*:\s*["']?(?P<correct>\w+)""",
    re.IGNORECASE,
)
PROSE = re.compile(
    r"BLOCK[-_ ]?(?P<block>\d{1,6})\W+(?:(?:feedback|verdict)\W*)?"
    r"\b(?P<word>incorrect|correct|wrong)\b",
    re.IGNORECASE,
)
TRUTH = {
    **dict.fromkeys(("true", "yes", "correct", "right", "1"), True),
    **dict.fromkeys(("false", "no", "incorrect", "wrong", "0"), False),
}


class Verdict(NamedTuple):
    """A model's verdict on one block."""

    block: int | None
    """Its number, or None if the reply does not say."""
    correct: bool | None
    """None if it can't be read."""


def parse_verdicts(reply: str) -> list[Verdict]:
    """The verdicts of a reply, in order; empty if it has none."""
    found: list[Verdict] = []
    block = None
    for mark in FIELD.finditer(reply):
        if mark["block"] is not None:
            block = int(mark["block"])
        else:
            found.append(Verdict(block, TRUTH.get(mark["correct"].lower())))
            block = None
    if found:
        return found
    return [
        Verdict(int(mark["block"]), mark["word"].lower() == "correct")
        for mark in PROSE.finditer(reply)
    ]


class Ldb:
    """One conversation: in each attempt verdicts on the blocks, then the repaired program."""

    exhausted = False

    def __init__(self, context: RolloutContext, level: Level) -> None:
        self._context = context
        self._level = level
        spec = AgentSpec(prompt("ldb/system"), Toolbox([]), max_steps=1)
        self._agent = context.agent(spec, Role.PATCH_CODER)

    def repair(self, current: Round) -> Patch:
        """Trace, ask for verdicts, ask for the program; without a trace, ask for the program
        directly.
        """
        context, code, agent = self._context, current.version.code, self._agent
        agent.log.patch_attempt = current.number
        try:
            request = prompt("ldb/traced", trace=self._trace(current))
        except TraceUnavailable as reason:
            request = prompt("ldb/untraced", reason=str(reason))
            agent.run(attempt_message(context, current, request))
            return patch_of(agent.log.final_answer, code)
        agent.run(attempt_message(context, current, request))
        wrong = [each for each in parse_verdicts(agent.log.final_answer) if each.correct is False]
        numbers = dict.fromkeys(each.block for each in wrong if each.block is not None)
        names = ", ".join(f"BLOCK-{number}" for number in numbers)
        found = prompt("ldb/found", blocks=names) + " " if names else ""
        agent.run(found + prompt("ldb/repair"))
        return patch_of(agent.log.final_answer, code)

    def _trace(self, current: Round) -> str:
        """The trace as text. Raises TraceUnavailable, SandboxError."""
        context, code, test = self._context, current.version.code, current.version.failing.id
        config = context.config.repair
        timeout, solution = config.ldb_trace_timeout, context.instance.solution
        trace = trace_test(context.sandbox, solution, code, test, timeout=timeout)
        most = {
            Level.LINE: config.ldb_lines,
            Level.BLOCK: config.ldb_blocks,
            Level.FUNCTION: config.ldb_functions,
        }
        sampling = Sampling(most[self._level], config.ldb_block_lines, config.ldb_value_chars)
        return trace_text(blocks_of(trace, code, self._level), code, sampling)
