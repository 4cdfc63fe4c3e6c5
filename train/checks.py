"""The checks of the rows before training: of masks, of what is served, and of tool calls."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

from collect.errors import ConfigError
from collect.store.files import StrictRecord
from sandbox.environment import install_command
from train.encoding import RenderedRow, Reply, Span, shared_length

EXCERPT = 60
"""Characters of a text that a message quotes."""


class Verdict(StrEnum):
    PASSED = "passed"
    WARNING = "warning"
    """Something is not trained that the rows have: no reason to stop, as it may be meant."""
    FAILED = "failed"
    WAIVED = "waived"
    """Failed, but the config says to train anyway."""
    NOT_CHECKED = "not checked"


class Finding(StrictRecord):
    check: str
    verdict: Verdict
    number: str
    """What was counted, and of how many."""
    meaning: str
    advice: str = ""
    """What to do if it failed or could not be checked."""

    @property
    def line(self) -> str:
        """The finding as one line of text, with advice only if needed."""
        said = f"{self.check}: {self.number}. {self.meaning}"
        needed = self.advice and self.verdict is not Verdict.PASSED
        return f"{said} {self.advice}" if needed else said


class Check(ABC):
    """Checks rows one after the other, and reports on all of them at the end."""

    name: ClassVar[str]
    """Its name in findings and `train.waived_checks`."""
    meaning: ClassVar[str]
    every_row: ClassVar[bool] = False
    """Whether it is fast enough to check every row; otherwise it gets a sample."""

    def __init__(self) -> None:
        self.rows = 0
        self.faults = 0
        self.first = ""

    @abstractmethod
    def add(self, row: RenderedRow) -> None:
        """Check one row."""

    @abstractmethod
    def finding(self) -> Finding:
        """The finding about all rows so far."""

    def note(self, fault: str) -> None:
        self.faults += 1
        self.first = self.first or fault

    def found(self, verdict: Verdict | None, number: str, advice: str) -> Finding:
        """A finding; with None for the verdict, the check failed if there are faults."""
        passed = Verdict.FAILED if self.faults else Verdict.PASSED
        return Finding(
            check=self.name,
            verdict=verdict or passed,
            number=number + (f"; the first: {self.first}" if self.first else ""),
            meaning=self.meaning,
            advice=advice,
        )


def excerpt(text: str) -> str:
    return repr(text if len(text) <= EXCERPT else f"{text[:EXCERPT]}...")


# The mask covers the assistant's turns and nothing else, and what is served at each step is what
# was trained.


MERGED_SHARE = 0.01
"""Share of the replies that may begin inside a token. A prompt alone ends at a token's end, so
there the served model gets other tokens than it was trained on."""
STOP = re.compile(r"\s*(<[^<>\s]{1,40}>)?\s*")
"""What may follow a reply in its mask: a stop token rendered with the next message, such as GLM's
`<|observation|>`."""
OTHER_STOP = re.compile(r"[<|\[\s]*([^<>\s]{1,40}>)?\s*")
"""What may follow if the reply's own stop token begins like the rendered one."""


class PrefixesPreserved(Check):
    """Checks that the trained text begins with the served prompt of each reply."""

    name = "prefixes_preserved"
    meaning = (
        "A served conversation is rendered anew at each step; what the model reads then must be "
        "what it was trained on."
    )

    def __init__(self) -> None:
        super().__init__()
        self.replies = 0
        self.merged = 0

    def add(self, row: RenderedRow) -> None:
        token_starts = {start for start, _ in row.encoded.offsets}
        for reply in row.replies:
            self.replies += 1
            if not row.text.startswith(reply.prompt):
                place = shared_length(row.text, reply.prompt)
                self.note(
                    f"conversation {row.conversation_id}, assistant message {reply.number}, at "
                    f"character {place}: served {excerpt(reply.prompt[place:])}, trained "
                    f"{excerpt(row.text[place:])}"
                )
            elif len(reply.prompt) not in token_starts:
                self.merged += 1

    def finding(self) -> Finding:
        number = (
            f"{self.faults} of {self.replies} replies are asked for with another text than "
            f"the trained one, and {self.merged} begin inside of a token"
        )
        if self.faults or self.merged <= MERGED_SHARE * self.replies:
            advice = (
                "Serve with the training template (train.serving_template): TRL's "
                "`*_training.jinja` render earlier messages the same whatever follows. Or set "
                "train.training_template to the serving template with {% generation %} markers."
            )
            return self.found(None, number, advice)
        advice = (
            "Strip the white space that these replies begin with: the tokenizer joins it to the "
            "prompt's, which ends in a token of its own when served."
        )
        return self.found(Verdict.FAILED, number, advice)


class MasksAreTurns(Check):
    """Checks that the trained tokens decode to what the assistant said, turn by turn."""

    name = "masks_are_turns"
    meaning = (
        "The trained tokens must decode to the assistant's turns: the text, the calls and the end "
        "of the turn, and nothing that others said."
    )

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.unplaced = 0

    def add(self, row: RenderedRow) -> None:
        self.rows += 1
        self.turns += len(row.replies)
        self.unplaced += regions(row).count(None)
        for fault in faults(row):
            self.note(f"conversation {row.conversation_id}, {fault}")

    def finding(self) -> Finding:
        number = f"{self.faults} wrong masks among {self.turns} turns of {self.rows} rows"
        if self.unplaced:
            number += f", of which {self.unplaced} are not in the text that is served"
        return self.found(
            Verdict.NOT_CHECKED if self.turns and self.turns == self.unplaced else None,
            number,
            "Move the {% generation %} markers of the training template around the whole reply, "
            "its stop token included, or take templates that agree and render tool calls.",
        )


def faults(row: RenderedRow) -> Iterator[str]:
    """Describe what is wrong with the row's mask, one text per turn.

    Replies that are rendered elsewhere when served are left to another check.
    """
    places = regions(row)
    if places and places[0] and _masked(row, (-1, places[0][0])):
        yield "before the first assistant message: text is trained there"
    for reply, region in zip(row.replies, places, strict=True):
        if reply.text is not None and region is not None:
            fault = _fault(row, reply, reply.text, _masked(row, region))
            if fault is not None:
                yield f"assistant message {reply.number}: {fault}"


def regions(row: RenderedRow) -> list[Span | None]:
    """From each reply's generation prompt to the next one's; None if unknown."""
    begins: list[int | None] = []
    for reply in row.replies:
        place = len(reply.prompt) - len(row.generation_prompt)
        begins.append(place if row.text.startswith(reply.prompt) else None)
    ends = [*begins[1:], len(row.text)]
    pairs = zip(begins, ends, strict=True)
    return [None if a is None or b is None else (a, b) for a, b in pairs]


def _masked(row: RenderedRow, region: Span) -> list[int]:
    """The indices of the trained tokens that end inside a region of the text."""
    encoded = row.encoded
    return [
        place
        for place, (_, end) in enumerate(encoded.offsets)
        if encoded.mask[place] and region[0] < end <= region[1]
    ]


def _fault(row: RenderedRow, reply: Reply, expected: str, masked: list[int]) -> str | None:
    """What is wrong with the mask of a reply, whose text is `expected` and whose trained tokens are
    `masked`."""
    ids, mask, offsets = row.encoded.input_ids, row.encoded.mask, row.encoded.offsets
    if not reply.trained:
        return "it is trained, though `trained_turns` leaves it out" if masked else None
    if not masked:
        return "nothing of it is trained"
    inside = range(masked[0], masked[-1] + 1)
    left_out = str(row.tokenizer.decode([ids[i] for i in inside if not mask[i]]))
    if left_out.strip():
        # Reasoning and reply may be marked separately, with white space between them.
        return f"{excerpt(left_out)} in its middle is not trained"
    start = len(reply.prompt)
    head = row.text[offsets[inside.start][0] : start]
    if not row.generation_prompt.endswith(head):
        return f"{excerpt(head)} before it is trained"
    body = str(row.tokenizer.decode(ids[inside.start : inside.stop])).removeprefix(head).strip()
    if row.text.startswith(expected, start):
        said, ending = expected.strip(), STOP
    else:
        # The last message of a conversation may end differently: `<|return|>`, not `<|end|>`.
        same = shared_length(expected, row.text[start : start + len(expected)])
        said, ending = expected[:same].rstrip("<|[ \n").lstrip(), OTHER_STOP
    if not body.startswith(said) or ending.fullmatch(body.removeprefix(said)) is None:
        same = shared_length(body, said)
        return (
            f"{excerpt(body[same:])} is trained, not {excerpt(said[same:])}, from its character "
            f"{same} on"
        )
    texts = [reply.message.get("content") or ""]
    for call in reply.calls:
        texts += [call["name"], *_leaves(call["arguments"])]
    missing = next((text for text in texts if not _holds(body, text)), None)
    return None if missing is None else f"{excerpt(missing)} is not in what is rendered of it"


class ReasoningTrained(Check):
    """Warns if the training template drops the reasoning of replies that are trained."""

    name = "reasoning_trained"
    meaning = "A template that does not render `reasoning_content` trains replies without it."

    def __init__(self) -> None:
        super().__init__()
        self.replies = 0

    def add(self, row: RenderedRow) -> None:
        for reply, region in zip(row.replies, regions(row), strict=True):
            reasoning = reply.message.get("reasoning_content")
            if not reasoning or not reply.trained:
                continue
            self.replies += 1
            rendered = (reply.text or "") if region is None else row.text[slice(*region)]
            if not _holds(rendered, reasoning):
                where = f"conversation {row.conversation_id}, assistant message {reply.number}"
                self.note(f"{where}: {excerpt(reasoning)}")

    def finding(self) -> Finding:
        return self.found(
            Verdict.WARNING if self.faults else Verdict.PASSED,
            f"of {self.replies} trained replies with reasoning {self.faults} are rendered without",
            "To train it, set format.reasoning: inline, or take a template that renders it; to "
            "leave it out, set format.reasoning: drop.",
        )


def _holds(body: str, text: str) -> bool:
    """Whether a text is in the rendering, plain or as JSON, ignoring white space."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return any("".join(form.split()) in "".join(body.split()) for form in forms)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value


# Tool calls in rows are still parsed as calls when a served model writes them.


Call = tuple[str, Any]

REGION = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)


class HermesParser:
    """vLLM's `hermes` without vLLM: if one region is not a call, the reply has none."""

    source = "StepInto's reading of vLLM's `hermes`, as vllm is not installed"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def parse(self, ids: list[int], tools: list[dict[str, Any]]) -> list[Call]:
        """The calls in a reply's tokens, without its end tokens; none if it can't be parsed. Each
        is JSON up to the first closing tag, wherever that is."""
        text = str(self._tokenizer.decode(ids, skip_special_tokens=False))
        try:
            objects = [json.loads(closed or opened) for closed, opened in REGION.findall(text)]
            calls = [(each["name"], each["arguments"]) for each in objects]
        except (ValueError, TypeError, KeyError, RecursionError):
            return []
        return calls if all(isinstance(name, str) for name, _ in calls) else []


class VllmParser:
    def __init__(self, name: str, tokenizer: Any, modules: tuple[Any, Any]) -> None:
        """`modules` are those of the parsers and of the request. Raises ConfigError for an unknown
        name."""
        parsers, self._requests = modules
        manager = parsers.ToolParserManager
        try:
            self._parser = manager.get_tool_parser(name)
        except KeyError as error:
            raise ConfigError(
                f"train.tool_call_parser: the installed vLLM has no parser {name!r}; see "
                "`vllm serve --help` for the names"
            ) from error
        self._tokenizer = tokenizer
        # vLLM logs a traceback for every reply that it can't parse.
        logging.getLogger("vllm").setLevel(logging.CRITICAL)
        version = importlib.import_module("vllm").__version__
        self.source = f"vLLM {version}'s `{name}`"

    def parse(self, ids: list[int], tools: list[dict[str, Any]]) -> list[Call]:
        request = self._requests.ChatCompletionRequest(
            model="", messages=[{"role": "user", "content": ""}], tools=tools or None
        )
        # Newer vLLMs also give the tools to the parser of each reply.
        taken = inspect.signature(self._parser).parameters
        given = (request.tools,) if "tools" in taken else ()
        try:
            parser = self._parser(self._tokenizer, *given)
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"train.tool_call_parser: {self.source} does not take this model's tokenizer: "
                f"{error}; give the parser of the model's family"
            ) from error
        request = parser.adjust_request(request)
        text = self._tokenizer.decode(ids, skip_special_tokens=request.skip_special_tokens)
        found = parser.extract_tool_calls(text, request).tool_calls
        return [(call.function.name, json.loads(call.function.arguments)) for call in found]


def call_parser(name: str, tokenizer: Any) -> VllmParser | HermesParser | None:
    """The parser that reads tool calls out of a served model's replies; None if there is neither
    vLLM nor a stand-in.

    It is vLLM's own if that is installed, by the name that `--tool-call-parser` takes. Otherwise,
    `hermes` is parsed as vLLM 0.20 to 0.32 do without streaming; other parsers have no stand-in.
    """
    try:
        parsers = importlib.import_module("vllm.tool_parsers")
        requests = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
    except (ImportError, OSError):  # OSError: a build whose libraries are missing here
        return HermesParser(tokenizer) if name == "hermes" else None
    return VllmParser(name, tokenizer, (parsers, requests))


class ToolCallsSurvive(Check):
    """Checks that each call keeps its name and arguments when rendered, tokenised, decoded and
    parsed."""

    name = "tool_calls_survive"
    meaning = "A served model's calls are read out of its text, and must be those that the row has."

    def __init__(self, parser_name: str | None, tokenizer: Any) -> None:
        """`parser_name` is vLLM's; None if the served model calls no tools."""
        super().__init__()
        self._parser_name = parser_name
        self._parser = call_parser(parser_name, tokenizer) if parser_name else None
        self.calls = 0
        self.replies = 0
        self.unreadable = 0

    def add(self, row: RenderedRow) -> None:
        for reply in row.replies:
            self.replies += 1
            self.calls += len(reply.calls)
            if self._parser is None:
                continue
            if reply.text is None:
                self.unreadable += 1
                continue
            # The server drops the token at which it stops.
            text = reply.text.rstrip().removesuffix(row.tokenizer.eos_token or "")
            ids = row.tokenizer(text, add_special_tokens=False)["input_ids"]
            parsed = _exact(self._parser.parse(list(ids), row.row["tools"]))
            if parsed != _exact([(call["name"], call["arguments"]) for call in reply.calls]):
                where = f"conversation {row.conversation_id}, assistant message {reply.number}"
                self.note(f"{where}: {excerpt(reply.text)} is read as {excerpt(parsed)}")

    def finding(self) -> Finding:
        unknown = self.calls and (self._parser is None or self.unreadable == self.replies)
        if self._parser is None:
            number = f"{self.calls} calls in {self.replies} replies, none of them parsed"
        else:
            number = (
                f"{self.faults} of {self.replies} replies, with {self.calls} calls, are read "
                f"otherwise by {self._parser.source}"
            )
        if self.unreadable:
            number += f"; {self.unreadable} replies could not be cut out of what is served"
        if self._parser_name is None:
            advice = "Set train.tool_call_parser to the parser of the model's family."
        elif self._parser is None:
            advice = (
                "vLLM is not installed, and only `hermes` has a stand-in, not "
                f"{self._parser_name!r}: {install_command('serve')}, or set "
                "train.tool_call_parser."
            )
        else:
            advice = (
                "Take the serving template and train.tool_call_parser that belong together, and "
                "drop conversations whose arguments hold the parser's own tags."
            )
        return self.found(Verdict.NOT_CHECKED if unknown else None, number, advice)


def _exact(calls: list[Call]) -> str:
    """Calls as text that tells 1 from 1.0 and from true, but ignores the order of keys."""
    return json.dumps(calls, sort_keys=True, ensure_ascii=False)
