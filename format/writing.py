"""Write the rows that the format stage keeps: a dataset, and additional formats of it."""

from __future__ import annotations

import json
import shutil
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collect.errors import ConfigError
from collect.store.messages import ToolCall
from collect.store.records import ORACLE_TEACHER, Conversation, EventRow, MessageRow
from format.candidates import Candidates, Outcome
from format.config import FormatConfig
from format.dataset import (
    TEST,
    TRAIN,
    Splits,
    SplitWriter,
    call_arguments,
    encode,
    read_rows,
    split_file,
)
from format.mixture import Facets, drawn, effort
from format.report import SplitStatistics
from format.turn_quality import Turn, turns

if TYPE_CHECKING:
    import atif

Row = dict[str, Any]


# Whole rollouts in ATIF, the Agent Trajectory Interchange Format: `sft/atif/SPLIT-00000.jsonl`.
#
# A line is the trajectory of an agent; the trajectories of subagents that it called are embedded
# and referenced from the calls' results. The models of the package `atif` validate everything.
# https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md


VERSION = "ATIF-v1.8"
ATIF_FOLDER = "atif"
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
    called = [each for key, held in answers.items() if key[0] == own for each in held]
    metrics = [found for row in conversation.messages if (found := _metrics(row)) is not None]
    totals = {f"total_{name}": sum(each[name] for each in metrics) for name in (metrics or [{}])[0]}
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
            "subagent_trajectories": [_trajectory(each, outcome, answers) for each in called]
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
        by_model = message.reasoning or (turn.row.player and turn.row.completion_tokens)
        scripted = conversation.teacher == ORACLE_TEACHER and not by_model
        observed = [
            _result(conversation, row, turn, answers)
            for row in turn.answers
            if row.message.role == "tool"
        ]
        yield {
            "source": "agent",
            "model_name": turn.row.player,
            "message": message.content,
            "reasoning_content": message.reasoning or None,
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


def write_trajectories(source: Candidates, written: Written, folder: Path) -> None:
    """Write the rollouts with at least one row, in ATIF."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        files = {}
        for split in written.statistics:
            path = folder / ATIF_FOLDER / f"{split}-00000.jsonl"
            path.parent.mkdir(exist_ok=True)
            files[split] = stack.enter_context(path.open("w", encoding="utf-8"))
        for rollout in source.rollouts():
            held = [each.conversation for each in rollout]
            splits = (written.conversations.get(each.conversation_id) for each in held)
            of_rows = [split for split in splits if split is not None]
            for each in trajectories(held, rollout[0].outcome) if of_rows else ():
                files[of_rows[0]].write(f"{each.model_dump_json(exclude_none=True)}\n")
                counts[of_rows[0]] += 1
    written.outputs[ATIF_FOLDER] = dict(counts)


# The rows that passed the filters, and those of them that the mixture chooses.


class StagedRows:
    """Rows that passed the filters, in a temporary file until the mixture and the splits are known;
    only their facets and other small facts are in memory."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Store the rows in a subfolder of this folder, until `remove`; `seed` is the mixture's."""
        self._folder, self._seed = folder / "kept", seed
        self._writer = SplitWriter(self._folder, "kept")
        self._known: dict[Facets, Facets] = {}
        self._characters = array("L")
        self.facets: list[Facets] = []
        self.numbers, self.efforts = array("Q"), array("Q")

    def add(self, row: Row, characters: int) -> None:
        facets = Facets.of(row)
        self.facets.append(self._known.setdefault(facets, facets))
        self.numbers.append(drawn(self._seed, row["conversation_id"]))
        self.efforts.append(effort(row))
        self._characters.append(characters)
        self._writer.add(row)

    def rows(self) -> Iterator[tuple[Row, int]]:
        """The rows once more, with JSON columns as texts, and the number of characters of each."""
        self._writer.close()
        stored = read_rows(split_file(self._folder, "kept"), decoded=False)
        yield from zip(stored, self._characters, strict=True)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class Written:
    statistics: dict[str, SplitStatistics]
    outputs: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of rows of each additional format, by folder and split."""
    conversations: dict[str, str] = field(default_factory=dict)
    """The split of each conversation, if an additional format needs it."""


def write_rows(
    config: FormatConfig, kept: StagedRows, mixed: bytearray, splits: Splits, folder: Path
) -> Written:
    """Write the rows of the mixture. Raises ConfigError if no rows are left to train on."""
    sides = [
        splits.of(facets.repository) if stays else None
        for facets, stays in zip(kept.facets, mixed, strict=True)
    ]
    if TRAIN not in sides:
        raise ConfigError(
            f"of {len(kept.facets)} rows none is left to train on: format.mixture drops "
            f"{sides.count(None)}, and the test split takes {sides.count(TEST)}; drop fewer, or "
            "lower format.test_fraction (in a round of `stepinto iterate`, "
            "iterate.teacher_share=null drops none)"
        )
    names = [name for name in (TRAIN, TEST) if name in sides]
    written = Written({name: SplitStatistics() for name in names})
    with ExitStack() as stack:
        opened = {name: SplitWriter(folder, name, arguments=config.arguments) for name in names}
        writers = {name: stack.enter_context(closing(each)) for name, each in opened.items()}
        for (row, characters), split in zip(kept.rows(), sides, strict=True):
            if split is None:
                continue
            writers[split].add(row)
            written.statistics[split].add(row, characters)
            if config.atif:
                written.conversations[row["conversation_id"]] = split
    return written
