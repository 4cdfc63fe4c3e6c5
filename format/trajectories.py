"""Whole rollouts in ATIF, the Agent Trajectory Interchange Format: `sft/atif/SPLIT-N.jsonl`.

A line is the trajectory of an agent; the trajectories of subagents that it called are embedded and
referenced from the calls' results. The models of the package `atif` validate everything.
https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from collect.store.messages import ToolCall
from collect.store.records import ORACLE_TEACHER, Conversation, EventRow, MessageRow
from format.candidates import Outcome
from format.rows import call_arguments, encode
from format.turn_quality import Turn, turns

if TYPE_CHECKING:
    import atif

VERSION = "ATIF-v1.8"
FOLDER = "atif"
LINES_PER_FILE = 10_000
EVENT_FACTS = (
    "action",
    "state",
    "stop_reason",
    "file",
    "line",
    "function",
    "depth",
    "exit_code",
    "error_kind",
    "kill_reason",
    "seconds",
)
"""The fields of a debugger event that go into a result's `extra`; the text has the rest."""


def trajectories(
    conversations: Sequence[Conversation], outcome: Outcome
) -> Sequence[atif.Trajectory]:
    """The trajectories of one rollout: a conversation that answers a call is inside the one that
    made it."""
    linked = _Linked.of(conversations)
    return [linked.trajectory(each, outcome) for each in conversations if linked.is_root(each)]


@dataclass(frozen=True)
class _Linked:
    """A rollout's conversations, by the call that each answers."""

    answers: Mapping[tuple[str, str], Sequence[Conversation]]

    @classmethod
    def of(cls, conversations: Sequence[Conversation]) -> _Linked:
        calls = {
            (each.conversation_id, call.id)
            for each in conversations
            for row in each.messages
            for call in row.message.tool_calls
        }
        answers: dict[tuple[str, str], list[Conversation]] = defaultdict(list)
        for each in conversations:
            if _parent(each) in calls:
                answers[_parent(each)].append(each)
        return cls(answers)

    def is_root(self, conversation: Conversation) -> bool:
        """Whether it answers no known call."""
        return _parent(conversation) not in self.answers

    def trajectory(self, conversation: Conversation, outcome: Outcome) -> atif.Trajectory:
        """A conversation as a trajectory, including those that answer its calls."""
        import atif

        own = conversation.conversation_id
        steps = list(self._steps(conversation))
        called = [each for key, held in self.answers.items() if key[0] == own for each in held]
        facts = {
            "schema_version": VERSION,
            "session_id": conversation.rollout_id,
            "trajectory_id": own,
            "agent": _agent(conversation, outcome),
            "steps": [{"step_id": number} | step for number, step in enumerate(steps, 1)],
            "final_metrics": _totals(conversation, len(steps)),
            "extra": _facts(conversation, outcome),
            "subagent_trajectories": [self.trajectory(each, outcome) for each in called] or None,
        }
        return atif.Trajectory.model_validate(facts)

    def _steps(self, conversation: Conversation) -> Iterator[dict[str, Any]]:
        """The steps' fields: the messages before the first turn, then each turn with its calls'
        results and the user's replies."""
        for row in conversation.messages:
            if row.message.role == "assistant":
                break
            yield {"source": row.message.role, "message": row.message.content}
        for turn in turns(conversation):
            yield self._turn(conversation, turn)
            for row in turn.answers:
                if row.message.role != "tool":
                    outcome = {"extra": _outcome(row)} if row.tool_outcome else {}
                    yield {"source": "user", "message": row.message.content} | outcome

    def _turn(self, conversation: Conversation, turn: Turn) -> dict[str, Any]:
        message = turn.row.message
        scripted = conversation.teacher == ORACLE_TEACHER and not message.reasoning
        results = [row for row in turn.answers if row.message.role == "tool"]
        observed = [self._result(conversation, row, turn.events) for row in results]
        return {
            "source": "agent",
            "message": message.content,
            "reasoning_content": message.reasoning or None,
            "tool_calls": [_call(call) for call in message.tool_calls] or None,
            "observation": {"results": observed} if observed else None,
            "metrics": None if scripted else _metrics(turn.row),
            "llm_call_count": 0 if scripted else 1,
            "extra": {"seconds": turn.row.seconds, "finish_reason": turn.row.finish_reason},
        }

    def _result(
        self, conversation: Conversation, row: MessageRow, events: Sequence[EventRow]
    ) -> dict[str, Any]:
        call = row.message.tool_call_id or ""
        held = self.answers.get((conversation.conversation_id, call), ())
        refs = [{"trajectory_id": c.conversation_id, "session_id": c.rollout_id} for c in held]
        seen = [_event(each) for each in events if each.tool_call_id == call]
        return {
            "source_call_id": row.message.tool_call_id,
            "content": row.message.content,
            "subagent_trajectory_ref": refs or None,
            "extra": _outcome(row) | {"seconds": row.seconds, "debugger_events": seen},
        }


def _parent(conversation: Conversation) -> tuple[str, str]:
    return conversation.parent_conversation_id or "", conversation.parent_call_id or ""


def _agent(conversation: Conversation, outcome: Outcome) -> dict[str, Any]:
    return {
        "name": f"stepinto-{conversation.role}",
        "version": outcome.code_version,
        "model_name": conversation.model,
        "tool_definitions": json.loads(conversation.tools) or None,
        "extra": {"role": conversation.role, "sampling": json.loads(conversation.sampling)},
    }


def _facts(conversation: Conversation, outcome: Outcome) -> dict[str, Any]:
    """The origin of the trajectory, and the rollout's outcome."""
    names = ("benchmark", "instance_id", "repository", "variant", "attempt", "patch_attempt")
    facts = {name: getattr(conversation, name) for name in names}
    named = ("instance_hash", "language", "system", "teacher", "category", "difficulty", "resolved")
    facts |= {name: getattr(outcome, name) for name in named}
    return facts | {"stop_reason": conversation.stop_reason}


def _call(call: ToolCall) -> dict[str, Any]:
    """A call; arguments that are not a JSON object are kept next to it as sent."""
    try:
        arguments = call_arguments(call)
        encode(arguments).encode()
        extra = None
    except (ValueError, RecursionError):
        arguments, extra = {}, {"raw_arguments": call.arguments}
    return {
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": arguments,
        "extra": extra,
    }


def _event(row: EventRow) -> dict[str, Any]:
    facts = {name: getattr(row.event, name) for name in EVENT_FACTS}
    raised = row.event.exception
    facts["exception"] = raised and {"type": raised.type, "message": raised.message}
    return {name: value for name, value in facts.items() if value is not None}


def _outcome(row: MessageRow) -> dict[str, Any]:
    return {"tool_outcome": row.tool_outcome}


def _metrics(row: MessageRow) -> dict[str, Any] | None:
    """A completion's costs; None if not counted."""
    if not row.prompt_tokens and not row.completion_tokens:
        return None
    return {
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cached_tokens": row.cached_tokens,
        "cost_usd": row.dollars,
    }


def _totals(conversation: Conversation, steps: int) -> dict[str, Any]:
    counted = [found for row in conversation.messages if (found := _metrics(row)) is not None]
    names = counted[0] if counted else ()
    totals = {f"total_{name}": sum(each[name] for each in counted) for name in names}
    return totals | {"total_steps": steps}


class TrajectoryWriter:
    """Writes the trajectories of all splits, with a fixed number per file."""

    def __init__(self, folder: Path, lines_per_file: int = LINES_PER_FILE) -> None:
        self._folder, self._lines_per_file = folder / FOLDER, lines_per_file
        self._files: dict[str, TextIO] = {}
        self.written: Counter[str] = Counter()

    def add(self, split: str, rollout: Sequence[atif.Trajectory]) -> None:
        """Write the trajectories of one rollout."""
        for each in rollout:
            if self.written[split] % self._lines_per_file == 0:
                self._open_next(split)
            self._files[split].write(f"{each.model_dump_json(exclude_none=True)}\n")
            self.written[split] += 1

    def close(self) -> None:
        """Finish all files."""
        for file in self._files.values():
            file.close()

    def _open_next(self, split: str) -> None:
        if split in self._files:
            self._files[split].close()
        self._folder.mkdir(parents=True, exist_ok=True)
        number = self.written[split] // self._lines_per_file
        path = self._folder / f"{split}-{number:05}.jsonl"
        self._files[split] = path.open("w", encoding="utf-8")
