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
from typing import TYPE_CHECKING, Any, TextIO

from collect.errors import ConfigError
from collect.store.messages import ToolCall
from collect.store.records import ORACLE_TEACHER, Conversation, EventRow, MessageRow
from format.candidates import Candidate, Outcome
from format.config import FormatConfig
from format.dataset import SplitWriter, read_rows, split_file
from format.mixture import Chances, Facets, MixtureConfig, MixtureShare, mixed, shares
from format.report import SplitStatistics
from format.rows import COLUMNS, Column, Kind, call_arguments, encode, is_assistant
from format.sources import Candidates
from format.splits import TEST, TRAIN, Splits
from format.turn_quality import Turn, turns

if TYPE_CHECKING:
    import atif
from collections.abc import Iterable

import yaml
from pydantic import BaseModel, ConfigDict

from format.card import column_table, front_matter, markdown_table

Row = dict[str, Any]


class PartReport(BaseModel):
    """The contents of one dataset; its `report.json`."""

    model_config = ConfigDict(extra="forbid")

    rows: dict[str, dict[str, int]]
    """Number of rows by split and by the value of `about`."""
    config: dict[str, Any]
    """The config section that produced it."""

    @property
    def totals(self) -> dict[str, int]:
        """Rows by split."""
        return {name: sum(counts.values()) for name, counts in self.rows.items()}


@dataclass(frozen=True)
class Part:
    """The name and content of one dataset."""

    name: str
    """Name of its folder, also in its title."""
    columns: dict[str, Column]
    about: str
    """The column by whose values rows are counted."""
    introduction: str

    def write(
        self, sft: Path, config: FormatConfig, section: BaseModel, rows: Iterable[tuple[str, Row]]
    ) -> PartReport:
        """Write rows, each with its split, below the `sft` folder, with a report and a card."""
        folder = sft / self.name
        counts = self._write_rows(folder, rows)
        report = PartReport(rows=counts, config=section.model_dump(mode="json"))
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
        (folder / "README.md").write_text(self._card(folder, config, report))
        return report

    def _write_rows(
        self, folder: Path, rows: Iterable[tuple[str, Row]]
    ) -> dict[str, dict[str, int]]:
        counts: dict[str, Counter[str]] = {TRAIN: Counter(), TEST: Counter()}
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(closing(SplitWriter(folder, name, self.columns)))
                for name in counts
            }
            for split, row in rows:
                writers[split].add(row)
                counts[split][row[self.about]] += 1
        return {name: dict(found) for name, found in counts.items() if found}

    def _card(self, folder: Path, config: FormatConfig, report: PartReport) -> str:
        title = f"{config.name}: {self.name}"
        kinds = sorted({kind for counts in report.rows.values() for kind in counts})
        table = [
            [name, f"{report.totals[name]:,}", *(f"{counts.get(kind, 0):,}" for kind in kinds)]
            for name, counts in report.rows.items()
        ]
        sections = [
            front_matter(folder, title, config.model_dump(mode="json"), report.totals),
            f"# {title}",
            self.introduction,
            "## Splits\n\nBy repository, as those of the conversations.\n\n"
            + markdown_table(["split", "rows", *kinds], table),
            "## Columns\n\n" + column_table(self.columns),
            f"## Config\n\n```yaml\n{yaml.safe_dump(report.config).rstrip()}\n```",
        ]
        return "\n\n".join(sections) + "\n"


# Whole rollouts in ATIF, the Agent Trajectory Interchange Format: `sft/atif/SPLIT-N.jsonl`.
#
# A line is the trajectory of an agent; the trajectories of subagents that it called are embedded
# and referenced from the calls' results. The models of the package `atif` validate everything.
# https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md


VERSION = "ATIF-v1.8"
ATIF_FOLDER = "atif"
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
        self._folder, self._lines_per_file = folder / ATIF_FOLDER, lines_per_file
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


# Rows of single steps, in TRL's prompt-completion format: one row per trained turn, with the
# context that the model saw and its reply.


FOLDER = "steps"
KEYS = (
    "conversation_id",
    "rollout_id",
    "role",
    "benchmark",
    "instance_id",
    "repository",
    "language",
    "system",
    "variant",
    "teacher",
    "model",
    "attempt",
    "category",
    "difficulty",
)
"""The columns of a conversation's row that its steps also have."""
STEP_COLUMNS = {
    "prompt": Column("all messages before the turn, as the model was sent them", Kind.OBJECTS),
    "completion": Column("the turn: one message of the assistant", Kind.OBJECTS),
    "tools": COLUMNS["tools"],
    "step": Column("which of the conversation's assistant turns it is, from 0", Kind.INTEGER),
    "steps": Column("how many assistant turns the conversation has", Kind.INTEGER),
    "turn_quality": Column("the turn's label: timeout, tool_error, recovery, ok ..."),
    **{name: COLUMNS[name] for name in KEYS},
}


def step_rows(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The trained steps of a conversation's row; messages are JSON texts."""
    messages = row["messages"]
    turns = [i for i, message in enumerate(messages) if is_assistant(message)]
    facts = {name: row[name] for name in ("tools", *KEYS)}
    for step, (index, trained) in enumerate(zip(turns, row["trained_turns"], strict=True)):
        if trained:
            yield facts | {
                "prompt": messages[:index],
                "completion": [messages[index]],
                "step": step,
                "steps": len(turns),
                "turn_quality": row["turn_quality"][step],
            }


# Rows that passed the filters, in a temporary file until the mixture and the splits are known. Only
# their facets, which are small, are in memory.


NAME = "kept"


class StagedRows:
    """Rows in input order; each is read once more after all were added."""

    def __init__(self, folder: Path, mixture: MixtureConfig) -> None:
        """Store the rows in a subfolder of this folder, until `remove`."""
        self._folder, self._mixture = folder / NAME, mixture
        self._writer = SplitWriter(self._folder, NAME)
        self._chances = Chances(mixture.seed)
        self._known: dict[Facets, Facets] = {}
        self._characters = array("L")
        self.facets: list[Facets] = []
        """The facets of each row."""

    def __len__(self) -> int:
        return len(self.facets)

    def add(self, row: dict[str, Any], characters: int) -> None:
        """Add a row; `characters` counts its messages and tools."""
        facets = Facets.of(row)
        self.facets.append(self._known.setdefault(facets, facets))
        self._characters.append(characters)
        self._chances.add(row["conversation_id"])
        self._writer.add(row)

    def mixed(self) -> bytearray:
        """For each row, 1 if the mixture keeps it, else 0."""
        return mixed(self._mixture, self.facets, self._chances)

    def shares(self, kept: bytearray) -> list[MixtureShare]:
        """What the mixture keeps."""
        return shares(self._mixture, self.facets, kept)

    def rows(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The rows, with JSON columns as texts, and the number of characters of each."""
        self._writer.close()
        stored = read_rows(split_file(self._folder, NAME), decoded=False)
        yield from zip(stored, self._characters, strict=True)

    def remove(self) -> None:
        """Remove the temporary file."""
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class Written:
    """The contents of the folder."""

    statistics: dict[str, SplitStatistics]
    """Statistics of the rows, by split."""
    outputs: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of rows of each additional format, by folder and split."""
    conversations: dict[str, str] = field(default_factory=dict)
    """The split of each conversation, if an additional format needs it."""


def write_rows(
    config: FormatConfig, kept: StagedRows, mixed: bytearray, splits: Splits, folder: Path
) -> Written:
    """Write the rows of the mixture, and their steps if the config requests them.

    Raises ConfigError if no rows are left to train on.
    """
    sides = [
        splits.of(facets.repository) if stays else None
        for facets, stays in zip(kept.facets, mixed, strict=True)
    ]
    if TRAIN not in sides:
        raise ConfigError(
            f"format.mixture leaves none of the {len(kept)} rows to train on; give more weight to "
            "what they are of, or higher caps"
        )
    names = [name for name in (TRAIN, TEST) if name in sides]
    written = Written({name: SplitStatistics() for name in names})
    with ExitStack() as stack:
        rows = {name: stack.enter_context(closing(SplitWriter(folder, name))) for name in names}
        steps = {
            name: stack.enter_context(closing(SplitWriter(folder / FOLDER, name, STEP_COLUMNS)))
            for name in (names if config.steps else ())
        }
        counts: Counter[str] = Counter()
        for (row, characters), split in zip(kept.rows(), sides, strict=True):
            if split is None:
                continue
            rows[split].add(row)
            written.statistics[split].add(row, characters)
            if config.atif:
                written.conversations[row["conversation_id"]] = split
            for step in step_rows(row) if config.steps else ():
                steps[split].add(step)
                counts[split] += 1
    if config.steps:
        written.outputs[FOLDER] = dict(counts)
    return written


def write_trajectories(source: Candidates, written: Written, folder: Path) -> None:
    """Write the rollouts with at least one row, in ATIF."""
    with closing(TrajectoryWriter(folder)) as writer:
        for rollout in source.rollouts():
            split = next(_splits_of(rollout, written.conversations), None)
            if split is not None:
                held = [each.conversation for each in rollout]
                writer.add(split, trajectories(held, rollout[0].outcome))
    written.outputs[ATIF_FOLDER] = dict(writer.written)


def _splits_of(rollout: Sequence[Candidate], splits: Mapping[str, str]) -> Iterator[str]:
    ids = (each.conversation.conversation_id for each in rollout)
    return (splits[each] for each in ids if each in splits)
