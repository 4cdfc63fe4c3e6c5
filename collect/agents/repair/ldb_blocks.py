"""A trace in blocks of LDB's three levels, and their text (arXiv:2402.16906, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from collect.agents.repair.basic_blocks import Statement, statements_of
from collect.agents.repair.ldb_trace import Step, Trace
from sandbox.text import source_lines

Item = TypeVar("Item")
SEPARATOR = "  "
MAX_STATEMENT_LINES = 12


class Level(StrEnum):
    """What one block is."""

    LINE = "line"
    """One execution of a statement."""
    BLOCK = "block"
    """One execution of a basic block."""
    FUNCTION = "function"
    """One call from outside of the program, with all that it executes."""


@dataclass
class Block:
    """A piece of the trace."""

    lines: list[int] = field(default_factory=list)
    """First lines of the executed statements, in order."""
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] | None = None
    ending: tuple[str, ...] = ()
    """What it returned or raised."""

    def add(self, step: Step) -> None:
        """Go on with a step of the same function call."""
        if not self.lines:
            self.before = step.before
        self.lines.append(step.line)
        self.after, self.ending = step.after, endings(step)


def endings(step: Step) -> tuple[str, ...]:
    """What a statement gave back or raised, as text."""
    given = () if step.gave is None else (step.gave,)
    return given if step.raised is None else (*given, f"raised {step.raised}")


def blocks_of(trace: Trace, code: str, level: Level) -> list[Block]:
    """The trace's blocks, in the order in which they begin."""
    statements = statements_of(code)
    steps = _told(trace.steps, statements)
    if level is Level.FUNCTION:
        return _calls(steps)
    if level is Level.LINE:
        return [_block([step]) for step in steps]
    return _basic_blocks(steps, statements)


def _block(steps: Sequence[Step]) -> Block:
    block = Block()
    for step in steps:
        block.add(step)
    return block


def _told(steps: Iterable[Step], statements: Mapping[int, Statement]) -> list[Step]:
    """Without definitions and imports outside of functions, and ways back to a `with`."""
    told: list[Step] = []
    latest: dict[int, int] = {}
    for step in steps:
        statement = statements.get(step.line)
        if statement is None or statement.declares:
            continue
        index = latest.get(step.activation)
        if index is not None and _goes_back(statement, told[index]):
            told[index] = _ended_by(told[index], step)
            continue
        latest[step.activation] = len(told)
        told.append(step)
    return told


def _goes_back(statement: Statement, earlier: Step) -> bool:
    """Whether a `with` is met again at its end."""
    managed = statement.managed
    return managed is not None and managed[0] <= earlier.line <= managed[1]


def _ended_by(step: Step, leaving: Step) -> Step:
    """The last step within a `with`, as things are once that is left."""
    raised = leaving.raised if leaving.raised or leaving.gave else step.raised
    given = {"after": leaving.after, "gave": step.gave or leaving.gave, "raised": raised}
    return step.model_copy(update=given)


def _basic_blocks(steps: Iterable[Step], statements: Mapping[int, Statement]) -> list[Block]:
    blocks: list[Block] = []
    under_way: dict[int, tuple[int, Block]] = {}
    for step in steps:
        statement = statements[step.line]
        number, block = under_way.get(step.activation, (-1, None))
        if block is None or statement.leads or number != statement.block:
            block = Block()
            blocks.append(block)
            under_way[step.activation] = (statement.block, block)
        block.add(step)
    return blocks


def _calls(steps: Sequence[Step]) -> list[Block]:
    """The outermost function calls; a program without any is one itself."""
    chosen = [step for step in steps if step.is_function] or list(steps)
    roots: dict[int, Block] = {}
    for step in chosen:
        block = roots.setdefault(step.root, Block())
        if step.activation == step.root or not step.is_function:
            block.add(step)
        else:
            block.lines.append(step.line)
    return list(roots.values())


def first_and_last(items: Sequence[Item], count: int) -> tuple[Sequence[Item], Sequence[Item]]:
    """Up to so many items, half of them from the beginning and the rest from the end."""
    if len(items) <= count:
        return items, ()
    return items[: count // 2], items[len(items) - (count - count // 2) :]


@dataclass(frozen=True)
class Sampling:
    """How much of a trace is told."""

    blocks: int
    lines: int
    """In a block."""
    value_chars: int
    """In one comment with values."""


def trace_text(blocks: Sequence[Block], code: str, sampling: Sampling) -> str:
    """The blocks, each with a heading and its values as comments before and after the code."""
    statements, source = statements_of(code), source_lines(code)
    head, tail = first_and_last(blocks, sampling.blocks)
    texts = []
    for index, block in enumerate([*head, *tail]):
        if tail and index == len(head):
            texts.append(f"... ({len(blocks) - len(head) - len(tail)} blocks left out) ...")
        text = "\n".join(_block_lines(block, statements, source, sampling))
        texts.append(f"[BLOCK-{index}]\n{text}")
    return "\n".join(texts)


def _block_lines(
    block: Block, statements: Mapping[int, Statement], source: Sequence[str], sampling: Sampling
) -> list[str]:
    code = [line for first in block.lines for line in _statement_lines(statements[first], source)]
    head, tail = first_and_last(code, sampling.lines)
    shown = [*head, *(["..."] if tail else []), *tail]
    first, last = _indent(source[block.lines[0] - 1]), _indent(source[block.lines[-1] - 1])
    before, after = _values(block.before), [*_values(block.after or {}), *block.ending]
    return [
        *_comment(first, before, sampling.value_chars),
        *shown,
        *_comment(last, after, sampling.value_chars),
    ]


def _statement_lines(statement: Statement, source: Sequence[str]) -> list[str]:
    lines = [line for line in source[statement.first - 1 : statement.last] if line.strip()]
    if len(lines) <= MAX_STATEMENT_LINES:
        return lines
    head, tail = first_and_last(lines, MAX_STATEMENT_LINES)
    return [*head, f"{_indent(head[-1])}...", *tail]


def _values(state: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in state.items()]


def _comment(indent: str, parts: Sequence[str], max_chars: int) -> list[str]:
    text = SEPARATOR.join(parts)
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}...{text[-half:]}"
    return [f"{indent}# {text}"] if text else []


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
