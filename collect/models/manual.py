"""Completions written by hand: requests wait as files until a person or a program answers them.

`stepinto play RUN` shows the requests and takes the answers. Each request is a file
`manual/MODEL/ID.json` in the run folder, each answer `ID.answer` beside it: text, then any calls::

    I want to see what `total` is before the line runs.
    >>> debug_inspect {"what": "evaluate", "expression": "total"}
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from collect.errors import ConfigError
from collect.models.base import Completion, ConversationContext, Sampling, scripted_completion
from collect.store.files import file_name, regular, write_text
from collect.store.messages import BROKEN, Message, ToolCall, ToolSchema
from collect.threads import POLL_SECONDS, sleep_unless_stopped

FOLDER = "manual"
ANSWER = ".answer"
RUNNING = "running"
"""A file that is locked as long as the run goes on."""
CALL = re.compile(r"^>>>[ \t]*([\w.-]+)[ \t]*", re.MULTILINE)


class BadAnswer(ValueError):
    """An answer that can't be sent; the message says what to change."""


@dataclass(frozen=True)
class Request:
    """One request for a completion."""

    id: str
    """ROLLOUT-CONVERSATION-STEP; requests of a rollout begin alike."""
    model: str
    """The model's name in the config."""
    role: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    answer_only: bool
    """Whether calls are forbidden, since the agent has used up its steps."""

    @property
    def news(self) -> Sequence[Message]:
        """The messages since the last answer."""
        ours = [at for at, message in enumerate(self.messages) if message.role == "assistant"]
        return self.messages[ours[-1] + 1 :] if ours else self.messages


_REQUEST = TypeAdapter(Request)


class ManualBackend:
    """Puts each request into a file, and waits for its answer as long as the run goes on."""

    def __init__(self, name: str, folder: Path, stop: threading.Event) -> None:
        self.name = name
        self.folder = folder / FOLDER / file_name(name)
        self.stop = stop
        self.folder.mkdir(parents=True, exist_ok=True)
        self._running = open(self.folder / RUNNING, "a", opener=regular)  # noqa: SIM115
        fcntl.flock(self._running, fcntl.LOCK_SH)

    def open(self, context: ConversationContext) -> ManualModel:
        return ManualModel(self, context)

    def close(self) -> None:
        self._running.close()


class ManualModel:
    """One conversation; its id doesn't tell the bug's name."""

    def __init__(self, backend: ManualBackend, context: ConversationContext) -> None:
        facts = f"{context.instance.id}\0{context.variant}\0{context.attempt}\0{context.ask}"
        rollout = hashlib.sha256(facts.encode()).hexdigest()[:8]
        self._id = f"{rollout}-{context.index}"
        self._backend, self._role = backend, context.role

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`. No tokens, dollars or seconds are made up."""
        step = sum(message.role == "assistant" for message in messages)
        request = Request(
            id=f"{self._id}-{step}",
            model=self._backend.name,
            role=self._role,
            messages=tuple(messages),
            tools=tuple(tools),
            answer_only=sampling.tool_choice == "none",
        )
        asked = self._backend.folder / f"{request.id}.json"
        answered = asked.with_suffix(ANSWER)
        write_text(asked, json.dumps(asdict(request), ensure_ascii=False))
        try:
            while not answered.is_file():
                sleep_unless_stopped(POLL_SECONDS, self._backend.stop)
            message = read_answer(answered.read_text(encoding="utf-8"), request)
        finally:
            asked.unlink(missing_ok=True)
            answered.unlink(missing_ok=True)
        return scripted_completion(message)


def is_over(run: Path) -> bool:
    """Whether a run that was played has ended, or its process is gone."""
    found = list(run.glob(f"**/{FOLDER}/*/{RUNNING}"))
    for path in found:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
    return bool(found)


def open_requests(run: Path, role: str | None = None) -> list[Request]:
    """The requests of a run that wait for an answer, the oldest first; below its folder and those
    of its stages. Raises ConfigError for a file that is none."""
    found = []
    for path in run.glob(f"**/{FOLDER}/*/[!.]*.json"):  # none that is being written
        try:
            plain, asked_at = json.loads(path.read_text(encoding="utf-8")), path.stat().st_mtime
            request = _REQUEST.validate_python({**plain, "id": path.stem})
        except FileNotFoundError:
            continue  # just answered
        except (*BROKEN, TypeError) as error:
            raise ConfigError(f"{path} is no request of a run: {error}; remove it") from error
        if not path.with_suffix(ANSWER).is_file() and role in (None, request.role):
            found.append((asked_at, request))
    found.sort(key=lambda pair: pair[0])
    return [request for _, request in found]


def answer_request(run: Path, request: Request, text: str) -> None:
    """Send an answer. Raises BadAnswer, and ConfigError if the request no longer waits."""
    read_answer(text, request)
    name = glob.escape(f"{file_name(request.model)}/{request.id}")
    waiting = next(run.glob(f"**/{FOLDER}/{name}.json"), None)
    if waiting is None:
        raise ConfigError(f"request {request.id} no longer waits: has the run been stopped?")
    write_text(waiting.with_suffix(ANSWER), text)


def read_answer(text: str, request: Request) -> Message:
    """The message in an answer: the text up to the first `>>>`, then a call for each.

    Raises BadAnswer if it is empty, or a call doesn't fit the tools' schemas.
    """
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # A line with a full stop ends an answer at a terminal, and may end one in a file.
    text = text.rstrip().removesuffix("\n.")
    said, *rest = CALL.split(text)  # the text, and name and arguments in turn
    said = said.strip()
    calls = tuple(
        ToolCall(f"call_{request.id}_{number}", name, arguments.strip() or "{}")
        for number, (name, arguments) in enumerate(zip(rest[::2], rest[1::2], strict=True))
    )
    if not said and not calls:
        raise BadAnswer("the answer is empty: write text, or calls such as >>> NAME {...}")
    if calls and request.answer_only:
        raise BadAnswer("no calls are possible now: the agent has used up its steps; write text")
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.tools}
    for call in calls:
        if call.name not in schemas:
            raise BadAnswer(f"there is no tool {call.name}; the tools are: {', '.join(schemas)}")
        try:
            arguments = json.loads(call.arguments)
        except BROKEN as error:
            raise BadAnswer(f"the arguments of {call.name} are not JSON: {error}") from None
        # A run of others may have schemas that refer to other files and servers.
        validator = Draft202012Validator(schemas[call.name], registry=Registry())
        try:
            problems = [
                f"{'.'.join(map(str, problem.path)) or 'arguments'}: {problem.message}"
                for problem in validator.iter_errors(arguments)
            ]
        except Exception as error:
            raise BadAnswer(f"the schema of {call.name} can't be used: {error}") from None
        if problems:
            raise BadAnswer(f"the arguments of {call.name} are wrong: {'; '.join(problems)}")
    return Message("assistant", said, tool_calls=calls)
