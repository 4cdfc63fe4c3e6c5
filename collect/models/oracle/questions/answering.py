"""The script: which investigation fits the question, and the block that ends it."""

from __future__ import annotations

from collect.agents.subagent_task import read_subagent_task
from collect.benchmarks.base import Instance
from collect.models.oracle.habits import Habits
from collect.models.oracle.questions import wording as words
from collect.models.oracle.questions.causes import investigate_root_cause
from collect.models.oracle.questions.failing import (
    investigate_assertion,
    investigate_exception,
)
from collect.models.oracle.questions.reaching import investigate_fix, investigate_reach
from collect.models.oracle.questions.session import Moves, Session
from collect.models.oracle.questions.values import investigate_value, word_value
from collect.models.oracle.scripted import Turns, say
from collect.questions.records import (
    Ask,
    AssertionAsk,
    ExceptionAsk,
    PostFixAsk,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)

MAX_EVIDENCE = 8
MAX_NOTE = 240


class OracleAnswerer:
    """One investigation of one question."""

    def __init__(
        self, instance: Instance, ask: Ask, habits: Habits, run_code: bool = False
    ) -> None:
        self._instance, self._ask = instance, ask
        self._run_code = run_code and instance.language == "python"
        self._session = Session("", habits)
        self._question = ""
        self._answer: str | None = None

    def turns(self, task: str) -> Turns:
        """Investigate, and answer."""
        asked = read_subagent_task(task)
        self._question, self._session.test = (asked.question, asked.test) if asked else ("", "")
        self._answer = yield from self._investigate()
        yield say(self.last_word())

    def last_word(self) -> str:
        """The answer block, from what was observed so far."""
        session = self._session
        evidence = "; ".join(note[:MAX_NOTE] for note in session.evidence[:MAX_EVIDENCE])
        return (
            "<debug_answer>\n"
            f"**Question**: {self._question}\n"
            f"**Answer**: {self._answer or words.UNKNOWN}\n"
            f"**Evidence**: {evidence or 'none'}\n"
            f"**Location**: {session.place or 'not reached'}\n"
            "</debug_answer>"
        )

    def _investigate(self) -> Moves[str | None]:
        instance, session, ask = self._instance, self._session, self._ask
        match ask:
            case ValueAsk():
                text = yield from investigate_value(instance, session, ask, self._run_code)
                answer = None if text is None else word_value(session, ask, text)
            case ReachAsk():
                answer = yield from investigate_reach(instance, session, ask)
            case ExceptionAsk():
                answer = yield from investigate_exception(instance, session, ask)
            case AssertionAsk():
                answer = yield from investigate_assertion(instance, session)
            case RootCauseAsk():
                answer = yield from investigate_root_cause(instance, session)
            case PostFixAsk():
                answer = yield from investigate_fix(instance, session, ask, self._run_code)
        return answer
