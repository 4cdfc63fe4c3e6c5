"""Asks the questions of a run's main agents again of other subagents, and compares the answers.

The recorded main agent is replayed, reply by reply, whatever the other subagent answers. So each
question is asked in the same state of the workspace, and only the subagent is paid for. Whether an
answer would have led to a fix can't be seen this way: pairs of models show that (`eval.pairs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

from rich.table import Table

from collect.agents.config import Variant
from collect.agents.subagent_task import STARTED
from collect.benchmarks.config import BenchmarkConfig
from collect.code.patches import TestFiles
from collect.config import RuntimeConfig
from collect.errors import TRIED_AGAIN, ConfigError
from collect.models.config import ReplayConfig
from collect.quantities import counted, dollars
from collect.questions.comparing import same
from collect.questions.grounding import (
    Claim,
    ClaimKind,
    Support,
    answer_texts,
    claims_in,
    ground,
)
from collect.replay import Finder
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from collect.rollouts.stage import RolloutsSummary, do_rollouts
from collect.store.files import write_text
from collect.store.records import Conversation, Role, Rollout, ToolOutcome
from collect.store.run_store import RunStore

FOLDER, FILE = "reask", "answers.jsonl"
ASKING = (Variant.DEBUG2FIX, Variant.DEBUG2FIX_TOOL_LIMIT)
"""The variants whose main agents ask questions."""
Key = tuple[str, str, str, int, str]
"""A question: benchmark, bug, variant, attempt, and the main agent's call."""


@dataclass(frozen=True)
class SubagentAnswer:
    """What one subagent made of a question."""

    conversation_id: str
    answered: bool
    """Whether the answer has the form that the subagent's prompt asks for."""
    answer: str
    """The whole final message."""
    grounded: float | None
    """Share of its claims that its own session observed; None if it claims nothing."""
    agreement: float | None
    """Share of the claims of the recorded answer that it makes too; None if that has none, and for
    the recorded answer itself."""
    steps: int
    failed_calls: int
    """Calls that were invalid, refused, or failed."""
    tokens: int
    """Of all its requests, input and output."""
    dollars: float
    seconds: float
    """Time of the model and of the tools."""


@dataclass(frozen=True)
class Reasked:
    """A recorded question and the answers to it, by subagent; the recorded one first."""

    instance_id: str
    variant: str
    attempt: int
    call_id: str
    question: str
    answers: dict[str, SubagentAnswer]


@dataclass(frozen=True)
class ReaskReport:
    asked: tuple[Reasked, ...]
    """The questions that all subagents have answered."""
    total: int
    """Recorded questions."""
    path: Path
    rollouts: tuple[RolloutsSummary, ...]
    """By subagent, up to the first that was stopped."""


def reask(
    runtime: RuntimeConfig, benchmark: BenchmarkConfig, run: Path, subs: Sequence[str]
) -> ReaskReport:
    """Ask each question of the run again of each of `subs`, and compare their answers.

    Each subagent's rollouts are in `run/reask/NAME`; a second start does only what is missing.
    Raises ConfigError if the run has no questions, a bug is gone or changed, or a model is unknown.
    """
    store = RunStore(run)
    rows = [
        row
        for row in store.read_rollouts()
        if row.variant in ASKING and row.sub_calls and row.failure_kind not in TRIED_AGAIN
    ]
    if not rows:
        raise ConfigError(
            f"{run} has no questions of main agents; give the folder of a run that collected "
            "rollouts of Debug2Fix"
        )
    main, recorded = rows[0].main_model, rows[0].sub_model
    for name in subs:
        runtime.model_config_of(name)
        if name == recorded:
            raise ConfigError(f"{name!r} is the subagent that the run has asked; name another")
    finder = Finder([benchmark], runtime.sandbox, ())
    bugs = {row.rollout_id: finder.bug(row) for row in rows}
    replayed = ReplayConfig(backend="replay", path=run)
    again = runtime.model_copy(update={"models": {**runtime.models, main: replayed}})
    asked = dict(_asked(store, rows))
    answers = {key: {recorded: _answer(one, rows)} for key, one in asked.items()}
    done = []
    for name in subs:
        specs = [
            RolloutSpec(bugs[row.rollout_id][1], Variant(row.variant), main, name, row.attempt)
            for row in rows
        ]
        folder = run / FOLDER / name
        identity = RunIdentity(run.name, runtime.seed)
        summary = do_rollouts(again, bugs[rows[0].rollout_id][0], specs, identity, folder)
        done.append(summary)
        other = RunStore(folder)
        for key, one in _asked(other, list(other.read_rollouts())):
            if key in asked:
                answers[key][name] = _answer(one, rows, asked[key])
        if summary.stopped:
            break
    found = tuple(
        Reasked(*key[1:], asked[key].task.partition(STARTED)[0].strip(), answers[key])
        for key in sorted(answers)
        if len(answers[key]) > len(subs)
    )
    path = run / FOLDER / FILE
    if found:
        write_text(path, "".join(json.dumps(asdict(each)) + "\n" for each in found))
    return ReaskReport(found, len(asked), path, tuple(done))


def _asked(store: RunStore, rows: Sequence[Rollout]) -> Iterator[tuple[Key, Conversation]]:
    """The subagents' conversations in these rollouts, by what they were asked."""
    ids = {row.rollout_id for row in rows}
    for one in store.read_conversations(only=ids):
        if one.role is Role.DEBUG_SUBAGENT and one.parent_call_id:
            where = (one.benchmark, one.instance_id, one.variant, one.attempt)
            yield (*where, one.parent_call_id), one


def _answer(
    one: Conversation, rows: Sequence[Rollout], recorded: Conversation | None = None
) -> SubagentAnswer:
    """Describe an answer, beside the recorded one."""
    tests = next(
        tuple(test.name for test in row.tests)
        for row in rows
        if (row.benchmark, row.instance_id) == (one.benchmark, one.instance_id)
    )
    return SubagentAnswer(
        conversation_id=one.conversation_id,
        answered=one.answer is not None,
        answer=one.final_answer,
        grounded=ground(one, TestFiles(tests)).score,
        agreement=None if recorded is None else agreement(recorded, one, TestFiles(tests)),
        steps=one.steps,
        failed_calls=sum(row.tool_outcome not in (None, ToolOutcome.OK) for row in one.messages),
        tokens=sum(row.prompt_tokens + row.completion_tokens for row in one.messages),
        dollars=sum(row.dollars for row in one.messages),
        seconds=sum(row.seconds for row in one.messages),
    )


def agreement(recorded: Conversation, other: Conversation, tests: TestFiles) -> float | None:
    """Share of what the recorded answer says and its session observed that another answer says too;
    None if there is nothing of that."""
    observed = {
        claim.text for claim in ground(recorded, tests).claims if claim.grounded is Support.OBSERVED
    }
    recorded_claims, said = (
        [claim for text in answer_texts(one) for claim in claims_in(text)]
        for one in (recorded, other)
    )
    known = [claim for claim in recorded_claims if str(claim) in observed]
    found = [any(_same(claim, each) for each in said) for claim in known]
    return sum(found) / len(found) if found else None


def _same(one: Claim, other: Claim) -> bool:
    """Whether two claims say the same; a value counts whatever it is called."""
    if one.kind is not other.kind:
        return False
    return same(one.value, other.value) if one.kind is ClaimKind.VALUE else str(one) == str(other)


def reask_table(report: ReaskReport) -> Table:
    """The means over the questions, a column for each subagent."""
    names = list(report.asked[0].answers) if report.asked else []
    table = Table(counted(len(report.asked), "question"), *names)
    columns = [[each.answers[name] for each in report.asked] for name in names]
    table.add_row("answered in the given form", *[f"{sum(a.answered for a in c)}" for c in columns])
    for title, field, form in (
        ("claims that its session observed", "grounded", "{:.0%}"),
        ("claims of the recorded answer that it makes", "agreement", "{:.0%}"),
        ("steps", "steps", "{:,.1f}"),
        ("failed calls", "failed_calls", "{:,.1f}"),
        ("tokens", "tokens", "{:,.1f}"),
        ("seconds", "seconds", "{:,.1f}"),
    ):
        known = [[getattr(a, field) for a in c if getattr(a, field) is not None] for c in columns]
        table.add_row(title, *[form.format(mean(each)) if each else "-" for each in known])
    table.add_row("dollars in all", *[dollars(sum(a.dollars for a in c)) for c in columns])
    return table
