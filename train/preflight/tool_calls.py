"""Whether the calls of the rows are still calls once a served model has written them."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import re
from typing import Any, Protocol

from collect.errors import ConfigError
from sandbox.environment import install_command
from train.preflight.rendered import RenderedRow, Reply
from train.preflight.report import Finding, Verdict, excerpt

# The parser that reads tool calls out of a served model's replies.
#
# vLLM's own where it is installed, by the name that `--tool-call-parser` takes. Without it,
# `hermes` is read as vLLM 0.20 to 0.32 do, streaming aside; other parsers have no stand-in.


Call = tuple[str, Any]
"""Name and arguments."""

REGION = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)
MODULES = ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers")
"""Where vLLM's parsers are, newest first."""
REQUESTS = (
    "vllm.entrypoints.openai.chat_completion.protocol",
    "vllm.entrypoints.openai.protocol",
)


class CallParser(Protocol):
    """Reads the calls of one reply."""

    source: str
    """Whose parser it is."""

    def parse(self, ids: list[int], tools: list[dict[str, Any]]) -> list[Call]:
        """The calls in a reply's tokens, without those that end it; none where it can't be read."""


class HermesParser:
    """vLLM's `hermes` without vLLM: one region that is no call, and the reply has none."""

    source = "StepInto's reading of vLLM's `hermes`, as vllm is not installed"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def parse(self, ids: list[int], tools: list[dict[str, Any]]) -> list[Call]:
        """See `CallParser`."""
        return parse_hermes_strictly(str(self._tokenizer.decode(ids, skip_special_tokens=False)))


def parse_hermes_strictly(text: str) -> list[Call]:
    """The calls of a reply: JSON up to the first closing tag, whatever it stands in."""
    try:
        objects = [json.loads(closed or opened) for closed, opened in REGION.findall(text)]
        calls = [(each["name"], each["arguments"]) for each in objects]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    return calls if all(isinstance(name, str) for name, _ in calls) else []


class VllmParser:
    """The installed vLLM's parser of some name."""

    def __init__(self, name: str, tokenizer: Any, modules: tuple[Any, Any]) -> None:
        """`modules` hold the parsers and the request. Raises ConfigError for an unknown name."""
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
        # It would log the whole traceback of every reply that it can't read.
        logging.getLogger("vllm").setLevel(logging.CRITICAL)
        version = importlib.import_module("vllm").__version__
        self.source = f"vLLM {version}'s `{name}`"

    def parse(self, ids: list[int], tools: list[dict[str, Any]]) -> list[Call]:
        """See `CallParser`."""
        request = self._requests.ChatCompletionRequest(
            model="", messages=[{"role": "user", "content": ""}], tools=tools or None
        )
        parser = self._made(request.tools)
        request = parser.adjust_request(request)
        text = self._tokenizer.decode(ids, skip_special_tokens=request.skip_special_tokens)
        found = parser.extract_tool_calls(text, request).tool_calls
        return [(call.function.name, json.loads(call.function.arguments)) for call in found]

    def _made(self, tools: Any) -> Any:
        """A parser for one reply, as vLLM makes it. Raises ConfigError where it refuses."""
        taken = inspect.signature(self._parser).parameters
        try:
            return self._parser(*(self._tokenizer, tools)[: 2 if "tools" in taken else 1])
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"train.tool_call_parser: {self.source} does not take this model's tokenizer: "
                f"{error}; give the parser of the model's family"
            ) from error


def call_parser(name: str, tokenizer: Any) -> CallParser | None:
    """The parser of a name, or None where neither vLLM nor a stand-in is at hand."""
    parsers, requests = _first_importable(MODULES), _first_importable(REQUESTS)
    if parsers is not None and requests is not None:
        return VllmParser(name, tokenizer, (parsers, requests))
    return HermesParser(tokenizer) if name == "hermes" else None


def _first_importable(names: tuple[str, ...]) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except (ImportError, OSError):  # OSError: a build whose libraries this machine has not
            continue
    return None


class ToolCallsSurvive:
    """Rendered, tokenised, decoded and parsed, each call is the same name and arguments."""

    name = "tool_calls_survive"
    every_row = False

    def __init__(self, parser_name: str | None, tokenizer: Any) -> None:
        """`parser_name` is vLLM's; None where the served model is not to call tools."""
        self._parser_name = parser_name
        self._parser = call_parser(parser_name, tokenizer) if parser_name else None
        self.calls = 0
        self.replies = 0
        self.changed = 0
        self.unreadable = 0
        self.first_changed = ""

    def add(self, row: RenderedRow) -> None:
        """See `Check`."""
        for reply in row.replies:
            self.replies += 1
            self.calls += len(reply.calls)
            if self._parser is None:
                continue
            if reply.text is None:
                self.unreadable += 1
                continue
            expected = [(call["name"], call["arguments"]) for call in reply.calls]
            parsed = _parsed(self._parser, row, reply)
            if _exact(parsed) != _exact(expected):
                self.changed += 1
                self.first_changed = self.first_changed or (
                    f"conversation {row.conversation_id}, assistant message {reply.number}: "
                    f"{excerpt(reply.text)} is read as {excerpt(_exact(parsed))}"
                )

    def finding(self) -> Finding:
        """See `Check`."""
        verdict = Verdict.FAILED if self.changed else Verdict.PASSED
        if self.calls and (self._parser is None or self.unreadable == self.replies):
            verdict = Verdict.NOT_CHECKED
        return Finding(
            check=self.name,
            verdict=verdict,
            number=self._number(),
            meaning="A served model's calls are read out of its text, and must be those that the "
            "row has.",
            advice=self._advice(verdict),
        )

    def _number(self) -> str:
        if self._parser is None:
            return f"{self.calls} calls in {self.replies} replies, none of them parsed"
        number = (
            f"{self.changed} of {self.replies} replies, with {self.calls} calls, are read "
            f"otherwise by {self._parser.source}"
        )
        if self.unreadable:
            number += f"; {self.unreadable} replies could not be cut out of what is served"
        return number + (f"; the first: {self.first_changed}" if self.changed else "")

    def _advice(self, verdict: Verdict) -> str:
        if self._parser_name is None:
            return "Set train.tool_call_parser to the parser of the model's family."
        if verdict is Verdict.NOT_CHECKED and self._parser is None:
            return (
                f"vLLM is not installed, and only `hermes` has a stand-in, not "
                f"{self._parser_name!r}: {install_command('serve')}, or set "
                "train.tool_call_parser."
            )
        return (
            "Take the serving template and train.tool_call_parser that belong together, and drop "
            "conversations whose arguments hold the parser's own tags."
        )


def _parsed(parser: CallParser, row: RenderedRow, reply: Reply) -> list[Call]:
    text = (reply.text or "").rstrip()
    # The server leaves the token out at which it stops.
    text = text.removesuffix(row.tokenizer.eos_token or "")
    ids = row.tokenizer(text, add_special_tokens=False)["input_ids"]
    return parser.parse(list(ids), row.row["tools"])


def _exact(calls: list[Call]) -> str:
    """Calls as text that tells 1 from 1.0 and from true; the order of keys is of no matter."""
    return json.dumps(calls, sort_keys=True, ensure_ascii=False)
