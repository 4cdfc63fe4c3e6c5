"""Whole rollouts in ATIF, the Agent Trajectory Interchange Format: `sft/atif/SPLIT-00000.jsonl`.

A line is the trajectory of an agent; the trajectories of subagents that it called are embedded
and referenced from the calls' results. The models of the package `atif` validate everything.
https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collect.store.messages import ToolCall
from collect.store.records import ORACLE_TEACHER, Conversation, EventRow, MessageRow
from format.candidates import Candidates, Outcome
from format.dataset import call_arguments, encode
from format.turn_quality import Turn, turns

if TYPE_CHECKING:
    import atif

VERSION = "ATIF-v1.8"
FOLDER = "atif"
EVENT_FACTS = (
    *("action", "state", "stop_reason", "file", "line", "function", "depth"),
    *("exit_code", "error_kind", "kill_reason", "seconds"),
)
"""The fields of a debugger event that go into a result's `extra`; the text has the rest."""
Answers = Mapping[tuple[str, str], Sequence[Conversation]]
"""The conversations that answer a call, by the ids of the calling conversation and the call."""


def trajectories(
    conversations: Sequence[Conversation], outcome: Outcome
) -> Sequence[atif.Trajectory]:
    """The trajectories of one rollout: a conversation that answers a call is inside the one that
    made it."""
    calls = {
        (each.conversation_id, call.id)
        for each in conversations
        for row in each.messages
        for call in row.message.tool_calls
    }
    answers: dict[tuple[str, str], list[Conversation]] = defaultdict(list)
    roots = []
    for each in conversations:
        parent = each.parent_conversation_id or "", each.parent_call_id or ""
        if parent in calls:
            answers[parent].append(each)
        else:
            roots.append(each)
    return [_trajectory(each, outcome, answers) for each in roots]


def _trajectory(conversation: Conversation, outcome: Outcome, answers: Answers) -> atif.Trajectory:
    import atif

    own = conversation.conversation_id
    steps = list(_steps(conversation, answers))
    called = [answer for key, given in answers.items() if key[0] == own for answer in given]
    of_rows = (_metrics(row) for row in conversation.messages)
    metrics = [metric for metric in of_rows if metric is not None]
    counted = metrics[0] if metrics else {}
    totals = {f"total_{name}": sum(metric[name] for metric in metrics) for name in counted}
    names = ("benchmark", "instance_id", "repository", "variant", "attempt", "patch_attempt")
    facts = {name: getattr(conversation, name) for name in names}
    named = ("instance_hash", "language", "system", "teacher", "category", "difficulty", "resolved")
    facts |= {name: getattr(outcome, name) for name in named}
    return atif.Trajectory.model_validate(
        {
            "schema_version": VERSION,
            "session_id": conversation.rollout_id,
            "trajectory_id": own,
            "agent": {
                "name": f"stepinto-{conversation.role}",
                "version": outcome.code_version,
                "model_name": conversation.model,
                "tool_definitions": json.loads(conversation.tools) or None,
                "extra": {
                    "role": conversation.role,
                    "sampling": json.loads(conversation.sampling),
                },
            },
            "steps": [{"step_id": number} | step for number, step in enumerate(steps, 1)],
            "final_metrics": totals | {"total_steps": len(steps)},
            "extra": facts | {"stop_reason": conversation.stop_reason},
            "subagent_trajectories": [_trajectory(answer, outcome, answers) for answer in called]
            or None,
        }
    )


def _steps(conversation: Conversation, answers: Answers) -> Iterator[dict[str, Any]]:
    """The steps' fields: the messages before the first turn, then each turn with its calls' results
    and the user's replies."""
    for row in conversation.messages:
        if row.message.role == "assistant":
            break
        yield {"source": row.message.role, "message": row.message.content}
    for turn in turns(conversation):
        message = turn.row.message
        # A relay's turn has tokens if its student wrote it, or a reply that the oracle replaced.
        by_model = message.thought or (turn.row.player and turn.row.completion_tokens)
        scripted = conversation.teacher == ORACLE_TEACHER and not by_model
        observed = [
            _result(conversation, row, turn, answers)
            for row in turn.answers
            if row.message.role == "tool"
        ]
        yield {
            "source": "agent",
            "model_name": turn.row.player,
            "message": message.said,
            "reasoning_content": message.thought or None,
            "tool_calls": [_call(call) for call in message.tool_calls] or None,
            "observation": {"results": observed} if observed else None,
            "metrics": None if scripted else _metrics(turn.row),
            "llm_call_count": 0 if scripted else 1,
            "extra": {"seconds": turn.row.seconds, "finish_reason": turn.row.finish_reason},
        }
        for row in turn.answers:
            if row.message.role != "tool":
                extra = {"extra": {"tool_outcome": row.tool_outcome}} if row.tool_outcome else {}
                yield {"source": "user", "message": row.message.content} | extra


def _result(
    conversation: Conversation, row: MessageRow, turn: Turn, answers: Answers
) -> dict[str, Any]:
    call = row.message.tool_call_id or ""
    held = answers.get((conversation.conversation_id, call), ())
    refs = [{"trajectory_id": c.conversation_id, "session_id": c.rollout_id} for c in held]
    seen = [_event(each) for each in turn.events if each.tool_call_id == call]
    return {
        "source_call_id": row.message.tool_call_id,
        "content": row.message.content,
        "subagent_trajectory_ref": refs or None,
        "extra": {
            "tool_outcome": row.tool_outcome,
            "seconds": row.seconds,
            "debugger_events": seen,
        },
    }


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


def _metrics(row: MessageRow) -> dict[str, Any] | None:
    if not row.prompt_tokens and not row.completion_tokens:
        return None
    return {
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cached_tokens": row.cached_tokens,
        "cost_usd": row.dollars,
    }


def write_trajectories(
    source: Candidates, splits: Mapping[str, str], folder: Path
) -> dict[str, int]:
    """Write the rollouts with a conversation in `splits`, which names the split of each; returns
    the number of trajectories by split."""
    counts = Counter[str]()
    with ExitStack() as stack:
        files = {}
        for name in dict.fromkeys(splits.values()):
            path = folder / FOLDER / f"{name}-00000.jsonl"
            path.parent.mkdir(exist_ok=True)
            files[name] = stack.enter_context(path.open("w", encoding="utf-8"))
        for rollout in source.rollouts():
            conversations = [candidate.conversation for candidate in rollout]
            ids = [conversation.conversation_id for conversation in conversations]
            split = next((splits[name] for name in ids if name in splits), None)
            if split is None:
                continue
            for trajectory in trajectories(conversations, rollout[0].outcome):
                files[split].write(f"{trajectory.model_dump_json(exclude_none=True)}\n")
                counts[split] += 1
    return dict(counts)
