"""LDB: the model judges the failing test's trace block by block, then repairs the program
(arXiv:2402.16906).

The conversation continues over the patch attempts, as in its published code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from collect.agents.baselines.ldb_blocks import (
    Level,
    Sampling,
    TraceUnavailable,
    blocks_of,
    trace_test,
    trace_text,
)
from collect.agents.baselines.self_debugging import attempt_message
from collect.agents.inspectcoder.patching import patch_of
from collect.agents.inspectcoder.records import Patch, Round
from collect.agents.loop import AgentRun, AgentSpec
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.code.syntax import literal
from collect.store.records import Role

# Reads verdicts on trace blocks from a model's reply. The prompt asks for JSON objects with
# `block`, `correct` and `explanation`. Models also write Python literals, omit fields, put the
# objects in a list or under block names, break quotes, or answer in prose.


TRUE = ("true", "yes", "correct", "right", "1")
FALSE = ("false", "no", "incorrect", "wrong", "0")
BLOCK_NUMBER = re.compile(r"(\d{1,6})")
NAMED = re.compile(r"BLOCK[-_ ]?(\d{1,6})", re.IGNORECASE)
FIELD = re.compile(r"""["']?\b(block|correct|explanation)\b["']?\s*:\s*""", re.IGNORECASE)
PROSE = re.compile(
    r"BLOCK[-_ ]?(?P<block>\d{1,6})\W+(?:(?:feedback|verdict)\W*)?"
    r"\b(?P<word>incorrect|correct|wrong)\b"
    r"[.:,]?[ \t]*(?P<explanation>[^\n]*)",
    re.IGNORECASE,
)

MAX_ENDS = 8
MAX_OBJECT = 20_000
"""Maximum length of text read as Python literals."""
MAX_UNREADABLE = 1000
"""Braces that start no object, after which the search ends: a model may repeat them endlessly."""


@dataclass(frozen=True)
class Verdict:
    """A model's verdict on one block."""

    block: int | None
    """Its number, or None if the reply does not say."""
    correct: bool | None
    """None if the reply does not say."""
    explanation: str = ""


def parse_verdicts(reply: str) -> list[Verdict]:
    """The verdicts of a reply, in order; empty if it has none."""
    found = list(_objects(reply)) or list(_broken(reply))
    if found:
        return found
    return [
        Verdict(int(mark["block"]), mark["word"].lower() == "correct", mark["explanation"].strip())
        for mark in PROSE.finditer(reply)
    ]


def _objects(text: str) -> Iterator[Verdict]:
    """Verdicts in everything that can be read as JSON or Python literals."""
    position = unreadable = 0
    while unreadable < MAX_UNREADABLE and (start := text.find("{", position)) >= 0:
        value, position = _value_at(text, start)
        unreadable += value is None
        yield from _collect(value)


def _value_at(text: str, start: int) -> tuple[object, int]:
    """The value that starts there and its end; None if it can't be read."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return _literal_at(text, start)
    return value, end


def _literal_at(text: str, start: int) -> tuple[object, int]:
    for end in _ends(text, start):
        try:
            return literal(_with_json_names(text[start:end])), end
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None, start + 1


def _ends(text: str, start: int) -> Iterator[int]:
    """The first few possible ends of an object."""
    end = start
    for _ in range(MAX_ENDS):
        end = text.find("}", end) + 1
        if not 0 < end <= start + MAX_OBJECT:
            return
        yield end


def _with_json_names(text: str) -> str:
    names = {"true": "True", "false": "False", "null": "None"}
    return re.sub(r"(?<=[:\s])(true|false|null)(?=\s*[,}])", lambda mark: names[mark[1]], text)


def _collect(value: object, name: str = "") -> Iterator[Verdict]:
    """The verdicts in a value at any depth; `name` is the key above it."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _collect(each, name)
    elif isinstance(value, dict):
        fields = {str(key).strip().lower(): each for key, each in value.items()}
        if "correct" in fields or ("block" in fields and "explanation" in fields):
            explanation = fields.get("explanation")
            yield Verdict(
                _number(fields.get("block", name)),
                _truth(fields.get("correct")),
                "" if explanation is None else str(explanation).strip(),
            )
        else:
            for key, each in value.items():
                yield from _collect(each, str(key))


def _broken(text: str) -> Iterator[Verdict]:
    """Verdicts from single fields, if quotes or braces are broken."""
    marks = list(FIELD.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)] * bool(marks)
    fields: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        name = mark[1].lower()
        if name in fields:
            yield _from_texts(fields)
            fields = {}
        fields[name] = text[mark.end() : end]
    if fields:
        yield _from_texts(fields)


def _from_texts(fields: dict[str, str]) -> Verdict:
    explanation = fields.get("explanation", "")
    return Verdict(
        _number(fields.get("block", "")),
        _truth(re.split(r"[,}\n]", fields.get("correct", ""))[0]),
        explanation.strip().strip("`").strip(" \t\n\"'{}[],"),
    )


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    found = NAMED.search(value) or BLOCK_NUMBER.search(value)
    return int(found[1]) if found else None


def _truth(value: object) -> bool | None:
    word = str(value).strip(" \t\n\"'.").lower()
    return True if word in TRUE else False if word in FALSE else None


class Ldb:
    """One conversation: in each attempt verdicts on the blocks, then the repaired program."""

    exhausted = False

    def __init__(self, context: RolloutContext, level: Level) -> None:
        self._context = context
        self._level = level
        self._agent: AgentRun | None = None

    def repair(self, current: Round) -> Patch:
        """Trace, ask for verdicts, ask for the program; without a trace, ask for the program
        directly.
        """
        agent = self._agent = self._agent or self._open()
        agent.log.patch_attempt = current.number
        try:
            trace = self._trace(current)
        except TraceUnavailable as reason:
            agent.run(
                attempt_message(self._context, current, prompt("ldb/untraced", reason=str(reason)))
            )
            return patch_of(agent.log.final_answer, current.version.code)
        agent.run(attempt_message(self._context, current, prompt("ldb/traced", trace=trace)))
        wrong = [each for each in parse_verdicts(agent.log.final_answer) if each.correct is False]
        agent.run(repair_request(wrong))
        plan = "\n".join(each.explanation for each in wrong)
        return patch_of(agent.log.final_answer, current.version.code, plan)

    def _open(self) -> AgentRun:
        spec = AgentSpec(prompt("ldb/system"), Toolbox([]), max_steps=1)
        return self._context.agent(spec, Role.PATCH_CODER)

    def _trace(self, current: Round) -> str:
        """The trace as text. Raises TraceUnavailable, SandboxError."""
        context, version = self._context, current.version
        solution, limit = context.instance.solution, context.config.repair.ldb_trace_timeout
        trace = trace_test(
            context.sandbox, solution, version.code, version.failing.id, timeout=limit
        )
        blocks = blocks_of(trace, version.code, self._level)
        return trace_text(blocks, version.code, self._sampling())

    def _sampling(self) -> Sampling:
        config = self._context.config.repair
        blocks = {
            Level.LINE: config.ldb_lines,
            Level.BLOCK: config.ldb_blocks,
            Level.FUNCTION: config.ldb_functions,
        }
        return Sampling(blocks[self._level], config.ldb_block_lines, config.ldb_value_chars)


def repair_request(wrong: list[Verdict]) -> str:
    """Asks for the program and names the blocks judged wrong."""
    numbers = dict.fromkeys(each.block for each in wrong if each.block is not None)
    names = ", ".join(f"BLOCK-{number}" for number in numbers)
    found = prompt("ldb/found", blocks=names) + " " if names else ""
    return found + prompt("ldb/repair")
