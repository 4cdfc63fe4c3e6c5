"""Settings of the format stage: what it keeps, and how it splits it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from collect.store.files import StrictRecord
from collect.store.records import Role
from format.carried_out import ReadArguments
from format.mixture import MixtureConfig
from format.turn_quality import TurnQuality


class Vocabulary(StrEnum):
    """The vocabulary of Program Inspectors' rows."""

    NATIVE = "native"
    """As recorded: actions in the text, or the four actions as tools."""
    DEBUG2FIX = "debug2fix"
    """As Debug2Fix's Debug Subagent would have done it, so that one model can learn from both."""


class Reasoning(StrEnum):
    """What becomes of a model's separate reasoning in rows."""

    KEEP = "keep"
    """It is the message's `reasoning_content`."""
    DROP = "drop"
    INLINE = "inline"
    """It begins the content, as `<think>...</think>`."""


class Arguments(StrEnum):
    OBJECT = "object"
    STRING = "string"


class CallsPerMessage(StrEnum):
    """How many calls a message of a row may have."""

    ALL = "all"
    """As many as the model wrote."""
    ONE = "one"


class Leak(StrEnum):
    """A way in which a conversation may know what an agent could not know about a new bug. It need
    not have used it."""

    ORACLE = "oracle"
    """The scripted oracle, which knows the gold patch, held the conversation. What it told another
    model as its main agent, that model may use."""
    EXPECTED_VALUE = "expected_value"
    """A value in the answer was seen only in a test (its frame, its source or its assertion's
    message), not in the program's run."""


class Why(StrEnum):
    """Why one attempt at a question is better than another."""

    CORRECT = "correct"
    """The other has no answer, or one that was scored as wrong or makes unobserved claims."""
    SHORTER = "shorter"
    """Both are right, and the other took more turns."""


class PreferencesConfig(StrictRecord):
    """Pairs of attempts at one question, for training by preference."""

    why: tuple[Why, ...] = Field(default=(Why.CORRECT, Why.SHORTER), min_length=1)
    """The kinds of pairs; for each question, earlier kinds are selected first."""
    per_question: int = Field(default=4, ge=1)
    """Maximum number of pairs per question."""
    shorter_share: float = Field(default=0.75, gt=0, lt=1)
    """For `shorter`: the better attempt has at most this share of the other's turns."""
    chosen_from: tuple[str, ...] = ()
    """The models whose attempts may be the better side. Empty: only the model of the worse side,
    so that a pair differs in what was done and not in whose style it is."""
    seed: int = 0
    """Seed for selecting a question's pairs."""


class PushConfig(StrictRecord):
    """Where to upload the dataset on the hub."""

    repository: str
    """`OWNER/NAME`; created if it does not exist."""
    private: bool = False
    """Whether a newly created repository is private."""
    records: bool = True
    """Whether the runs' rollouts and conversations are uploaded too, as `records/RUN/`, so that the
    ids in rows can be looked up."""


class FormatConfig(StrictRecord):
    """The `format` section of a run's config. A limit of null switches its filter off."""

    runs: tuple[Path, ...] = ()
    """Folders of further runs whose conversations are added, such as those of another benchmark,
    sandbox or machine. Their ids begin with the run's name, as `RUN/ID`. `demonstrations`: the
    played sessions that StepInto ships, if there is no such folder of your own."""
    roles: tuple[Role, ...] = Field(default=(Role.DEBUG_SUBAGENT, Role.INSPECTOR), min_length=1)
    """Roles whose conversations become rows; by default those of both debugging systems."""
    vocabulary: Vocabulary = Vocabulary.DEBUG2FIX
    """Vocabulary of the Program Inspectors' rows: Debug2Fix's tools, so that one model can train on
    both systems, or as recorded."""
    reasoning: Reasoning = Reasoning.KEEP
    """What rows show of a model's separate reasoning. `keep`: it is `reasoning_content`, which many
    chat templates drop or refuse. `inline`: the content begins with it, as `<think>...</think>`.
    `drop`: nothing."""
    arguments: Arguments = Arguments.OBJECT
    """The form of tool calls' arguments in rows. `object`: as chat templates and TRL expect them;
    needs `datasets` 4.7 to read. `string`: JSON texts, as in OpenAI's API, `tools` as one text, and
    null for what a message lacks, for older versions. TRL would encode such arguments twice."""
    read_arguments: ReadArguments = ReadArguments.CARRIED_OUT
    """Calls whose arguments broke the tool's schema and were read by it, such as `"4"` for 4.
    `carried_out`: rows have the arguments that were carried out. `invalid`: rows have them as the
    model wrote them, and the calls count as invalid."""
    calls_per_message: CallsPerMessage = CallsPerMessage.ALL
    """`one` writes a reply with several calls as a message for each, followed by its result: Llama
    3.1's and 3.2's templates refuse several in a message, gpt-oss's drops all but the first. `all`:
    as the model wrote it."""
    only_resolved: bool = True
    """Keep only conversations of rollouts that fixed the bug; of a Program Inspector, only the one
    whose plan fixed it."""
    keep_marked_patches: bool = False
    """Keep conversations of rollouts whose patch has `patch_marks`: it touches the test runner in a
    way that the gold patch does not."""
    require_session: bool = True
    """Keep only conversations in which a debug session was launched."""
    min_stops: int | None = Field(default=1, ge=1)
    """Minimum number of stops of the debugged program."""
    min_inspections: int | None = Field(default=1, ge=1)
    """Minimum number of successful inspections of the stopped program."""
    require_answer: bool = True
    """Keep only conversations that end in a well-formed answer, or in a repair plan."""
    max_invalid_tool_calls: int | None = Field(default=0, ge=0)
    """Maximum number of calls of unknown tools, or with arguments that break the tool's schema."""
    max_characters: int | None = Field(default=200_000, ge=1)
    """Maximum characters of all messages and the tools together."""
    min_grounding: float | None = Field(default=1.0, ge=0, le=1)
    """Minimum share of the answer's claims that were observed in the conversation. Claims that the
    task had stated are ignored; an answer with no other claims is kept."""
    masked_turns: tuple[TurnQuality, ...] = (
        TurnQuality.RELAYED,
        TurnQuality.INVALID,
        TurnQuality.REFUSED,
        TurnQuality.REPEATED,
        TurnQuality.SHORTENED,
        TurnQuality.CUT,
    )
    """Turns that remain as context but are not trained on."""
    only_fully_trained: bool = False
    """Keep only conversations of which every turn is trained on, for trainers that can't leave a
    turn out."""
    only_replay_verified: bool = False
    """Drop conversations that were not replayed, or whose replay showed something else; see
    `stepinto replay`."""
    drop_leaks: tuple[Leak, ...] = ()
    """Drop conversations with any of these labels."""
    max_similarity: float | None = Field(default=0.9, gt=0, le=1)
    """Maximum similarity to an earlier session: the share of equal runs of words among all those of
    both, in calls and answers."""
    deduplicate: bool = True
    """Keep only the first of conversations that differ only in their call ids."""

    test_fraction: float = Field(default=0.1, ge=0, lt=1)
    """Share of the repositories that form the test split."""
    split_seed: int = 0
    """Seed for selecting the repositories of the test split."""

    preferences: PreferencesConfig | None = None
    """Also write `sft/preferences/`."""
    questions: tuple[str, ...] = ()
    """Files of the runtime questions that the run answered, for the columns `question_id` and
    `difficulty`, such as `demonstrations/questions.jsonl` of the shipped sessions. Empty:
    `questions.jsonl` in the run's folder, if it exists. Without them, `preferences` takes questions
    with the same wording for one."""
    mixture: MixtureConfig = MixtureConfig()
    """Limits for the rows written, by origin."""

    atif: bool = False
    """Also write `sft/atif/`: the rollouts with rows, as ATIF trajectories."""
    llama_factory: bool = False
    """Also write `sft/llama-factory/`: the rows as LLaMA-Factory reads them, those with a turn that
    is not trained on left out."""
    token_ids: bool = False
    """Also write `sft/token-ids/`: the rows as the token ids that were sampled, with mask and
    log-probabilities, for off-policy training; of models with `models.NAME.logprobs: true`."""
    push: PushConfig | None = None
    """Upload `sft/` to the hub when it is done."""

    processes: int | None = Field(default=None, ge=1)
    """Processes that judge conversations, of some 200 MB each. Null: one for each core, fewer for
    few rollouts."""
    name: str = "StepInto debug sessions"
    """Title of the dataset card."""
    license: str = "other"
    """The hub's id of a licence; the rows quote the benchmarks' repositories, whose own licences
    apply."""
    tags: tuple[str, ...] = ("debugging", "tool-use", "agent", "code")
    """Tags of the dataset card, for the hub's search."""
