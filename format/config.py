"""What the format stage keeps, and how it splits it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from collect.benchmarks.config import BenchmarkConfig
from collect.store.records import Role
from format.inspection import Vocabulary
from format.leaks import Leak
from format.mixture import MixtureConfig
from format.turn_quality import TurnQuality


class TokenizedConfig(BaseModel):
    """For whom the rows are also written as token ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    """Whose tokenizer: what `train.base_model` takes, or a folder with a tokenizer alone."""
    template: str | None = None
    """Chat template with generation markers: `trl:NAME.jinja` or a path. Null: the model's own, or
    TRL's training variant of it."""
    max_length: int | None = Field(default=None, ge=1)
    """Tokens of a row; what is longer loses its end. Null cuts nothing."""


class Why(StrEnum):
    """What makes one attempt at a question better than another."""

    CORRECT = "correct"
    """The other has no answer, or one that was scored as wrong or claims what was not observed."""
    SHORTER = "shorter"
    """Both are right, and the other took more turns."""


class PreferencesConfig(BaseModel):
    """Pairs of attempts at one question, for training by preference."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    why: tuple[Why, ...] = Field(default=(Why.CORRECT, Why.SHORTER), min_length=1)
    """What pairs are about; of one question, those that come first here are chosen first."""
    per_question: int = Field(default=4, ge=1)
    """Most pairs of one question."""
    shorter_share: float = Field(default=0.75, gt=0, lt=1)
    """`shorter`: the better one has at most this share of the other's turns."""
    seed: int = 0
    """Decides which of a question's pairs are chosen."""
    questions: str | None = None
    """The file of the questions that were answered. Null: `questions.jsonl` in the run's folder,
    where it is there. Without it, questions that are worded alike count as one."""


class PromptsConfig(BaseModel):
    """Questions as prompts, for training by rewards."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    questions: str | None = None
    """The file of questions. Null: `questions.jsonl` in the run's folder."""
    per_bug: int | None = Field(default=None, ge=1)
    """Most questions of one bug, chosen by seed."""
    seed: int = 0
    """Decides which questions of a bug are chosen."""


class PushConfig(BaseModel):
    """Where on the hub the dataset goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repository: str
    """`OWNER/NAME`; made where it is not there yet."""
    private: bool = False
    """Of a repository that is made now."""


class WorkersConfig(BaseModel):
    """Who judges conversations. What is written is the same, however many do it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int = Field(default=1, ge=1)
    """Processes; each takes a CPU and about 0.3 GB. 1: none but the command's own."""
    ray_address: str | None = None
    """`auto` or `HOST:PORT` of a Ray cluster, whose nodes do it in so many tasks at once; needs the
    extra `ray`. Null: processes of this machine."""


class FormatConfig(BaseModel):
    """The `format` section of a run's config. A limit of null switches its filter off."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    roles: tuple[Role, ...] = Field(default=(Role.DEBUG_SUBAGENT, Role.INSPECTOR), min_length=1)
    """Whose conversations become rows: by default those of both systems that debug."""
    vocabulary: Vocabulary = Vocabulary.DEBUG2FIX
    """Of the Program Inspectors' rows: Debug2Fix's tools, so that one model can be trained on both
    systems, or as they were held."""
    only_resolved: bool = True
    """Keep only conversations of rollouts that fixed the bug; of a Program Inspector's only the
    one whose plan fixed it."""
    keep_marked_patches: bool = False
    """Also conversations of rollouts whose patch has `patch_marks`: it reaches for the test runner
    as the gold patch does not."""
    require_session: bool = True
    """Keep only conversations in which a debug session was launched."""
    min_stops: int | None = Field(default=1, ge=1)
    """How often the debugged program must have stopped."""
    min_inspections: int | None = Field(default=1, ge=1)
    """How many inspections of the stopped program must have succeeded."""
    require_answer: bool = True
    """Keep only conversations that end in a well-formed answer, or in a repair plan."""
    max_invalid_tool_calls: int | None = Field(default=0, ge=0)
    """Calls of unknown tools or with arguments that break the tool's schema."""
    max_characters: int | None = Field(default=200_000, ge=1)
    """Of all messages and the tools together."""
    min_grounding: float | None = Field(default=1.0, ge=0, le=1)
    """Share of the answer's claims that the conversation must have observed; what the task gave
    counts neither way, and an answer that claims nothing else stays."""
    masked_turns: tuple[TurnQuality, ...] = (
        TurnQuality.INVALID,
        TurnQuality.REFUSED,
        TurnQuality.REPEATED,
    )
    """Turns that stay as context and are not trained on."""
    only_replay_verified: bool = False
    """Drop conversations whose calls did not show the same once more, or were not replayed; see
    `stepinto replay`."""
    drop_leaks: tuple[Leak, ...] = (Leak.GIT_HISTORY,)
    """Conversations with any of these labels are dropped. Not `oracle` by default: the oracle's
    sessions show what a good session is."""
    gold_benchmarks: tuple[BenchmarkConfig, ...] = ()
    """Where the gold patches of the run's bugs are, for the label `gold_patch`; each is what a
    `benchmark` section is."""
    max_similarity: float | None = Field(default=0.9, gt=0, le=1)
    """How much of a session may also be in one before it: the share of equal runs of words among
    all those of both, in what was called and answered."""
    deduplicate: bool = True
    """Keep the first of conversations that are equal but for their call ids."""

    test_fraction: float = Field(default=0.1, ge=0, lt=1)
    """Share of the repositories whose rows make the test split."""
    split_seed: int = 0
    """Which repositories are in the test split."""

    preferences: PreferencesConfig | None = None
    """Write `sft/preferences/` too."""
    prompts: PromptsConfig | None = None
    """Write `sft/prompts/` too."""
    questions: tuple[str, ...] = ()
    """Files of the runtime questions that the run answered, for the column `difficulty`. Empty:
    `questions.jsonl` in the run's folder, where it is there."""
    mixture: MixtureConfig = MixtureConfig()
    """How many of the rows that are left are written, by where they are from."""

    tokenized: TokenizedConfig | None = None
    """Write `sft/tokenized/` too; needs the extra `train`."""
    steps: bool = False
    """Write `sft/steps/` too: a row for each trained turn, with the context that it had."""
    atif: bool = False
    """Write `sft/atif/` too: the rollouts of which there are rows, as ATIF trajectories."""
    push: PushConfig | None = None
    """Upload `sft/` to the hub, when it is done."""

    workers: WorkersConfig = WorkersConfig()

    name: str = "StepInto debug sessions"
    """Title of the dataset card."""
    license: str = "other"
    """The hub's id of a licence; the rows quote the benchmarks' repositories, whose own apply."""
    tags: tuple[str, ...] = ("debugging", "tool-use", "agent", "code")
    """Of the dataset card, for the hub's search."""
