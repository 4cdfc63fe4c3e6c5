"""SWE-Agent: a shell on the one file, one command per reply (Yang et al., "SWE-agent:
Agent-Computer Interfaces Enable Automated Software Engineering", arXiv:2405.15793, in the form of
mini-swe-agent), with its workflow adapted to repair (InspectCoder, section 3.5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from collect.agents.baselines.self_debugging import version_text
from collect.agents.conversation import AgentSpec
from collect.agents.file_tools import Bash, BashArguments, read_failure
from collect.agents.inspectcoder.patching import OneFileRepair, Patch, Round, shortened
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Answered, MalformedAction, TextForm, Toolbox, ToolReply
from collect.store.messages import Message, ToolCall
from collect.store.records import Role, ToolOutcome
from sandbox.errors import SandboxFileError

SUBMISSION = "SUBMIT_REPAIRED_PROGRAM"
SUBMIT = f"echo {SUBMISSION}"
FENCE = re.compile(r"^[ \t]*```(bash|sh|shell)?[ \t]*$", re.MULTILINE)
KILLED = 124
MAX_CHARS = 10_000
"""Limit of one observation, as in mini-swe-agent."""


class SweAgent:
    """One conversation for all patch attempts; a patch is the file's content at a submission."""

    exhausted = False

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        spec = AgentSpec(
            prompt("swe_agent/system"),
            Toolbox([SubmittingBash(context.sandbox, context.config.bash_timeout)]),
            max_steps=context.config.repair.max_shell_steps,
            form=BashForm(),
        )
        self._agent = context.agent(spec, Role.PATCH_CODER)

    def repair(self, current: Round) -> Patch:
        agent, instance = self._agent, self._context.instance
        agent.log.patch_attempt = current.number
        agent.log.conclusion = None
        version = version_text(current.version)
        if current.history:
            problem = current.history[-1][1].problem
            told = f" {problem}" if problem else ""
            message = prompt("swe_agent/again", problem=told, version=version, submit=SUBMIT)
        else:
            message = prompt(
                "swe_agent/task",
                coding_task=instance.problem_statement,
                path=instance.solution,
                version=version,
                submit=SUBMIT,
            )
        agent.run(message)
        return self._patch()

    def _patch(self) -> Patch:
        """The program in the workspace, even if the steps are used up.

        The rounds reset the agent's other changes.
        """
        path = self._context.instance.solution
        try:
            return Patch(self._context.sandbox.read_file(path).decode())
        except SandboxFileError:
            problem = f"{path} could not be read: it was deleted, or is no file any more."
        except UnicodeDecodeError as error:
            problem = f"{path} is not UTF-8 text: {error}."
        return Patch(None, problem=f"{problem} It was put back as it was before.")


@dataclass(frozen=True)
class SubmittingBash(Bash):
    """A shell in which printing the submission marker ends the conversation."""

    description: str = "Run a bash command in the folder of the program."

    def call(self, arguments: BashArguments, call_id: str) -> ToolReply:
        answer = super().call(arguments, call_id)
        first_line = answer.text.partition("\n")[0].strip()
        if answer.outcome is ToolOutcome.OK and first_line == SUBMISSION:
            return replace(answer, conclusion=SUBMISSION)
        return answer


class BashForm(TextForm):
    """Reasoning, then exactly one command in a ```bash block."""

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        fences = list(FENCE.finditer(reply.said))
        commands = _commands(reply.said, fences)
        if len(commands) != 1:
            problem = f"It held {len(commands)} complete ```bash blocks, and exactly one is needed."
            if sum(fence[1] is not None for fence in fences) > len(commands):
                cut = "A block was opened and never closed: was the response cut off? Be briefer."
                problem += f" {cut}"
            raise MalformedAction(prompt("swe_agent/format_error", problem=problem, submit=SUBMIT))
        arguments = json.dumps({"command": commands[0]})
        return [ToolCall(f"command_{step}", "bash", arguments)]

    def observation(self, answered: Sequence[Answered], left_out: int, steps_left: int) -> str:
        return "\n".join(observation(each.reply) for each in answered)


def _commands(text: str, fences: Sequence[re.Match[str]]) -> list[str]:
    """The contents of the closed blocks. A single pattern would search the whole text for the end
    of each opening fence.
    """
    commands, opened = list[str](), None
    for fence in fences:
        if opened is None and fence[1]:
            opened = fence
        elif opened is not None and not fence[1]:
            commands.append(text[opened.end() : fence.start()].strip())
            opened = None
    return [command for command in commands if command]


def observation(reply: ToolReply) -> str:
    """A command's return code and output, in mini-swe-agent's form."""
    failed = read_failure(reply.text) if reply.outcome is ToolOutcome.ERROR else None
    output, code = failed or (reply.text, 0)
    if code is None:
        output, code = reply.text, KILLED
    shown = shortened(output, max_lines=MAX_CHARS, max_chars=MAX_CHARS)
    cut = f"{prompt('swe_agent/too_long')}\n" if len(output) > MAX_CHARS else ""
    return f"<returncode>{code}</returncode>\n{cut}<output>\n{shown}\n</output>"


SYSTEMS = (OneFileRepair(name="swe_agent", title="SWE-Agent", open_repair=SweAgent),)
