"""A question as the messages that a Debug Subagent's conversation begins with."""

from __future__ import annotations

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import subagent_prompt
from collect.agents.subagent_task import DebugSubagentArguments, subagent_task
from collect.agents.wording import wording
from collect.messages import Message
from collect.questions.records import Question


def arguments_for(question: Question) -> DebugSubagentArguments:
    """What the main agent's call of the subagent would have held."""
    hints = question.hints
    return DebugSubagentArguments(
        question=question.question,
        test=question.test,
        path=hints.path,
        lines=hints.lines or None,
        variables=hints.variables or None,
    )


def opening_messages(question: Question, agents: AgentsConfig) -> tuple[Message, Message]:
    """The system's message and the user's, as in a rollout with these settings."""
    values = wording(question.language).values()
    return (
        Message("system", subagent_prompt(values, agents.debug_run_code)),
        Message("user", subagent_task(arguments_for(question))),
    )
