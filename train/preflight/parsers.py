"""The parser that reads tool calls out of a served model's replies.

vLLM's own where it is installed, by the name that `--tool-call-parser` takes. Without it, `hermes`
is read as vLLM 0.20 to 0.32 do, streaming aside; other parsers have no stand-in.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import re
from typing import Any, Protocol

from collect.errors import ConfigError

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
