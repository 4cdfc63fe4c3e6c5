"""The rows of the training data: a conversation in TRL's conversational tool-calling format, the
Parquet files in the layout of hub datasets, and their splits.

Messages are stored as JSON (`datasets.Json`), because Arrow's structs would add a null to every
call's arguments for each key of all other calls (huggingface/trl#5118, datasets#7869).

Files are named `data/SPLIT-00000-CONTENT.parquet`, with `datasets`' features in their metadata, so
that `datasets.load_dataset` returns every row unchanged. The name contains a digest of the content,
because `datasets` caches a folder by its file names and would otherwise return another run's rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ArrowException

from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.opening import held_out
from collect.control_tokens import OF_KNOWN_FAMILIES
from collect.errors import ConfigError
from collect.questions.grounding import Support
from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation
from collect.store.tables import open_parquet
from format.config import Arguments, FormatConfig, Reasoning

Kind = Literal[
    "text",
    "integer",
    "number",
    "flag",
    "texts",
    "integers",
    "numbers",
    "flags",
    "claims",
    "objects",
]
"""The type of a column's values, all nullable. `claims` is an integer for each kind of evidence,
`objects` a list of JSON objects, each stored unchanged."""


@dataclass(frozen=True)
class Column:
    what: str
    kind: Kind = "text"


COLUMNS = {
    "messages": Column(
        "the conversation in TRL's conversational form, tool-call arguments as objects; `train` of "
        "an assistant message is its entry in `trained_turns`",
        "objects",
    ),
    "tools": Column("JSON schemas of the tools the model was given, in OpenAI's form", "objects"),
    "run": Column("the name of the run that it is from"),
    "conversation_id": Column("the conversation's id in the run; of `format.runs` RUN/ID"),
    "rollout_id": Column("the rollout that the conversation is of"),
    "role": Column("which agent held it: main, debug_subagent, inspector or patch_coder"),
    "benchmark": Column("where the bug is from"),
    "instance_id": Column("the bug"),
    "repository": Column("what the splits keep together"),
    "language": Column("python or java"),
    "system": Column(
        "debug2fix; inspectcoder, with +tools where its Inspector was given its actions as tools"
    ),
    "variant": Column("the agents' set-up"),
    "teacher": Column(
        "oracle where the scripted oracle took part, which knows the gold patch; played where a "
        "person or a program did by hand; else model"
    ),
    "model": Column("which model wrote the assistant's turns: its name in the run's config"),
    "served_model": Column(
        "the name that the server gave for that model; null where it gave none, as the oracle"
    ),
    "resolved": Column("whether the rollout fixed the bug", "flag"),
    "instance_hash": Column("hash of the bug's files, tests and gold patch"),
    "question_id": Column("the runtime question, if the rollout was about one", "text"),
    "prompt_tokens": Column("tokens that the model was sent, over all its replies", "integer"),
    "completion_tokens": Column("tokens that it wrote", "integer"),
    "code_version": Column("the version of StepInto that recorded it"),
    "attempt": Column("0-based", "integer"),
    "category": Column("of the runtime question that was asked, else of the bug; null: not known"),
    "difficulty": Column(
        "easy, medium or hard: of a runtime question, by the visit of the line and the depth of "
        "the frame; null where that is not known"
    ),
    "grounding": Column(
        "share of the answer's claims (values, locations, exceptions) that the conversation had "
        "observed, those the task gave aside; null where none is left",
        "number",
    ),
    "claims": Column("how many of them were observed, given and ungrounded", "claims"),
    "turn_quality": Column(
        "a label for each assistant message, in order: relayed, shortened, cut, invalid, refused, "
        "repeated, timeout, tool_error, recovery or ok",
        "texts",
    ),
    "trained_turns": Column(
        "for each assistant message, in order, whether it is trained on; the others are context",
        "flags",
    ),
    "leaks": Column(
        "what the conversation may know that an agent at work could not: oracle, expected_value",
        "texts",
    ),
    "control_tokens": Column(
        "whether a message holds a control token of a model family, such as those by which a "
        "message begins; there a zero-width space (U+200B) follows its first character, so that it "
        "is read as text",
        "flag",
    ),
    "read_arguments": Column(
        "whether a call's arguments broke the tool's schema as the model wrote them, and were read "
        "by it",
        "flag",
    ),
    "fix_touched_location": Column(
        "whether the rollout's patch changed the place that the answer reported, or its function; "
        "null where there is no such place or patch, or that can't be told",
        "flag",
    ),
    "debug_helped": Column(
        "against the same rollout without the subagent: 1 where only this one fixed the bug, -1 "
        "where only the other did, 0 where both or neither; null where there is no pair",
        "integer",
    ),
    "replay_verified": Column(
        "whether `stepinto replay` saw the same when it drove the recorded calls again; null where "
        "it has not",
        "flag",
    ),
}
ASSISTANT = '{"role":"assistant",'
encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Writes JSON as it is stored: compact, with unescaped characters."""


@lru_cache(64)
def tool_texts(tools: str) -> list[str]:
    """A conversation's tools as JSON texts."""
    return [encode(tool) for tool in json.loads(tools)]


def is_assistant(text: str) -> bool:
    """Whether a message's JSON text from `exact_messages` is the assistant's."""
    return text.startswith(ASSISTANT)


def message_object(message: Message, reasoning: Reasoning = Reasoning.KEEP) -> dict[str, Any]:
    """A message in TRL's format. Raises ValueError if arguments are not a JSON object."""
    plain: dict[str, Any] = {"role": message.role, "content": message.said}
    thought = message.thought
    if thought and reasoning is Reasoning.KEEP:
        plain["reasoning_content"] = thought
    if thought and reasoning is Reasoning.INLINE:
        plain["content"] = f"<think>\n{thought}\n</think>\n\n{message.said}"
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": call_arguments(call)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        plain |= {"name": message.name, "tool_call_id": message.tool_call_id}
    return plain


def call_arguments(call: ToolCall) -> dict[str, Any]:
    """A call's arguments. Raises ValueError if they are not a JSON object."""
    try:
        arguments = json.loads(call.arguments, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError(f"the arguments of call {call.id} are nested too deeply") from error
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of call {call.id} are no JSON object: {call.arguments}")
    return arguments


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def exact_messages(
    conversation: Conversation, reasoning: Reasoning, trained: Sequence[bool]
) -> list[str] | None:
    """The messages as JSON texts, with marks in control tokens, or None if reading them back would
    change or lose a value. `trained` says of each assistant message whether it is trained on, as
    its `train` does then.

    The reader (`datasets.Json`) has 64-bit numbers and no lone surrogates. Text always survives, so
    only calls are checked.
    """
    from datasets import Json

    reader, flags, texts = Json(), iter(trained), []
    for row in conversation.messages:
        try:
            plain = OF_KNOWN_FAMILIES.marked(message_object(row.message, reasoning))
            if row.message.role == "assistant":
                plain["train"] = next(flags)
            text = encode(plain)
            text.encode()
            calls = row.message.tool_calls
            unchanged = not calls or encode(reader.decode_example(text)) == text
        except (ValueError, RecursionError):
            return None
        if not unchanged:
            return None
        texts.append(text)
    return texts


# The files and their splits.


TRAIN, TEST = "train", "test"
ROWS_PER_GROUP = 256
ROWS_WRITTEN, CHARACTERS_WRITTEN = 2_048, 8_000_000
"""Maximum size of a row group: the metadata of all groups is in memory until the file is
complete."""
LONG = ("integers", "numbers")
Columns = dict[str, Column]


def split_file(folder: Path, split: str, needs: str = "") -> Path:
    """The file of a split in the dataset's folder. Raises ConfigError if there is none; `needs` is
    the setting that would create it."""
    found = sorted((folder / "data").glob(f"{split}-00000*.parquet"))
    if len(found) != 1:
        raise ConfigError(
            f"{folder / 'data'} has {len(found)} files of the split {split!r}, one is needed; "
            f"run `stepinto format` on this run folder first{f', with {needs}' if needs else ''}"
        )
    return found[0]


def arrow_schema(columns: Columns = COLUMNS, arguments: Arguments = Arguments.OBJECT) -> pa.Schema:
    """The columns' Arrow types, with `datasets`' features as metadata."""
    from datasets import Features, Json, List, Value

    text = Value("string")
    fields = ("role", "content", "reasoning_content", "tool_calls", "name", "tool_call_id")
    message = dict.fromkeys(fields, text) | {"train": Value("bool")}
    call = {"type": text, "id": text, "function": dict.fromkeys(("name", "arguments"), text)}
    message["tool_calls"] = List(call)
    kinds = {
        "text": Value("string"),
        "integer": Value("int64"),
        "number": Value("float64"),
        "flag": Value("bool"),
        "texts": List(Value("string")),
        "integers": List(Value("int64")),
        "numbers": List(Value("float64")),
        "flags": List(Value("bool")),
        "claims": {each.value: Value("int64") for each in Support},
        "objects": List(Json()),
    }
    types = {name: kinds[column.kind] for name, column in columns.items()}
    if arguments is Arguments.STRING:
        for name in _json_columns(columns):
            types[name] = text if name == "tools" else List(message)
    features = Features(types)
    schema: pa.Schema = features.arrow_schema
    return schema


def _json_columns(columns: Columns) -> set[str]:
    return {name for name, column in columns.items() if column.kind == "objects"}


def _plain(name: str, texts: Sequence[str]) -> str | list[dict[str, Any]]:
    """A column's JSON objects with arguments as texts; `tools` as one text."""
    if name == "tools":
        return f"[{','.join(texts)}]"
    messages = [json.loads(text) for text in texts]
    for call in (call for message in messages for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = encode(call["function"]["arguments"])
    return messages


def _objects(value: str | list[Any]) -> list[dict[str, Any]]:
    """The inverse of `_plain`."""
    if isinstance(value, str):
        return list(json.loads(value))
    messages = [{k: v for k, v in message.items() if v is not None} for message in value]
    for call in (call for message in messages for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


class SplitWriter:
    """Writes one split in batches; the file is created with the first row."""

    def __init__(
        self,
        folder: Path,
        split: str,
        columns: Columns = COLUMNS,
        arguments: Arguments = Arguments.OBJECT,
    ) -> None:
        self._path = folder / "data" / f"{split}-00000.parquet"
        self._schema = arrow_schema(columns, arguments)
        self._arguments = arguments
        self._json = _json_columns(columns)
        self._long = [name for name, column in columns.items() if column.kind in LONG]
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, Any]] = []
        self._characters = 0
        """Of the rows to write; a number counts as one."""

    def add(self, row: dict[str, Any]) -> None:
        """Write one row, possibly not before `close`; JSON columns may be texts."""
        encoded = {
            name: [item if isinstance(item, str) else encode(item) for item in row[name]]
            for name in self._json
        }
        self._rows.append(row | encoded)
        self._characters += sum(len(text) for texts in encoded.values() for text in texts)
        self._characters += sum(len(row[name] or ()) for name in self._long)
        if len(self._rows) == ROWS_WRITTEN or self._characters >= CHARACTERS_WRITTEN:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows, complete the file, and name it by its content."""
        if self._rows:
            self._flush()
        if self._writer is not None:
            self._writer.close()
            with self._path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()[:16]
            self._path.rename(self._path.with_stem(f"{self._path.stem}-{content}"))

    def _flush(self) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        arrays = []
        for column in self._schema:
            values = [row[column.name] for row in self._rows]
            if column.name in self._json and self._arguments is Arguments.STRING:
                plain = [_plain(column.name, texts) for texts in values]
                arrays.append(pa.array(plain, column.type))
            elif column.name in self._json:
                arrays.append(pa.array(values, pa.list_(pa.string())).cast(column.type))
            else:
                arrays.append(pa.array(values, column.type))
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows.clear()
        self._characters = 0


def read_rows(
    path: Path,
    columns: tuple[str, ...] | None = None,
    kinds: Columns = COLUMNS,
    decoded: bool = True,
) -> Iterator[dict[str, Any]]:
    """The rows of one split, with JSON columns decoded or as texts; `columns` are those to read,
    None for all.

    `kinds` are all columns of the data. Raises ConfigError for a broken file.
    """
    from datasets import Json

    reader = Json()
    columns = columns or tuple(kinds)
    encoded = _json_columns(kinds) & set(columns) if decoded else set()
    try:
        for batch in open_parquet(path).iter_batches(ROWS_PER_GROUP, columns=list(columns)):
            for row in batch.to_pylist():
                for name in encoded:
                    value = row[name]
                    if isinstance(value, str) or (value and isinstance(value[0], dict)):
                        row[name] = _objects(value)
                    else:
                        row[name] = [reader.decode_example(text) for text in value]
                yield row
    except (ArrowException, OSError, KeyError) as error:
        raise ConfigError(
            f"{path} can't be read as training data: {error}; run `stepinto format` on this run "
            "folder again"
        ) from error


class Splits:
    """The split of each repository, the same in all datasets of a run.

    If a repository's name is written in several ways that are assigned to different splits, it is
    in `train`.
    """

    def __init__(self, config: FormatConfig, repositories: Iterable[str]) -> None:
        """Raises ConfigError if none is left to train on."""
        self._known = frozenset(repositories)
        test = held_out(self._known, config.test_fraction, config.split_seed)
        self._test = _apart(test, self._known - test)
        if self._known <= self._test:
            raise ConfigError(
                f"format.test_fraction = {config.test_fraction} puts all {len(self._known)} "
                "repositories into the test split; lower it, or collect on more repositories"
            )

    def of(self, repository: str) -> str:
        """`train` or `test`."""
        assert repository in self._known, f"{repository} has no side"
        return TEST if repository in self._test else TRAIN


def _apart(test: Set[str], train: Set[str]) -> frozenset[str]:
    """The repositories in `test` that are not also in `train` under another name."""
    known = RepositoryNames(train)
    same = {name for name in test if name in known}
    return _apart(test - same, train | same) if same else frozenset(test)
