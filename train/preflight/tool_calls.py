"""Check that tool calls in rows are still parsed as calls when a served model writes them."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import re
from typing import Any

from collect.errors import ConfigError
from sandbox.environment import install_command
from train.encoding import RenderedRow
from train.preflight.report import Check, Finding, Verdict, excerpt

Call = tuple[str, Any]
"""Name and arguments."""

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
