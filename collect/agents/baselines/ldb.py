"""LDB: the model judges the failing test's trace block by block, then repairs the program
(arXiv:2402.16906).

The conversation continues over the patch attempts, as in its published code.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from collect.agents.baselines.self_debugging import attempt_message
from collect.agents.conversation import AgentSpec
from collect.agents.inspectcoder.patching import OneFileRepair, Patch, Round, patch_of
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.code.syntax import parse
from collect.store.files import StrictRecord
from collect.store.records import Role
from sandbox import Command, Sandbox
from sandbox.errors import SandboxFileError
from sandbox.shell import scratch_folder
from sandbox.text import source_lines

ENDS_OF_BLOCKS = ast.Return | ast.Raise | ast.Break | ast.Continue
LOOPS = ast.For | ast.AsyncFor | ast.While
REGIONS = ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DECLARATIONS = DEFINITIONS | ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Statement:
    """A simple statement, or the header of a compound one."""

    first: int
    """Line number, from 1."""
    last: int
    leads: bool
    """Whether it starts a block. Else it continues that of the statement before it."""
    declares: bool = False
    """Whether it is a definition or import outside all functions."""
    managed: tuple[int, int] | None = None
    """For a `with`, the lines of its body: at the body's end the interpreter returns to the header.
    """


def statements_of(code: str) -> Mapping[int, Statement]:
    """The statements by first line; if a line has several, the first one. Raises SyntaxError.

    A block begins at a function, a loop's header, a branch target, after a branch, at a handler,
    and at `with`, `try` and `match`. Comprehensions and lambdas belong to their statement. Each
    function and class has its own blocks.
    """
    found: dict[int, Statement] = {}
    for statement in _statements(parse(code).body, outside=True, leads=True):
        found.setdefault(statement.first, statement)
    return found


def _statements(body: Sequence[ast.stmt], outside: bool, leads: bool) -> Iterator[Statement]:
    """Those of a body, in line order; `leads`: whether its first one starts a block."""
    for node in body:
        managed = None
        if isinstance(node, ast.With | ast.AsyncWith):
            managed = node.body[0].lineno, node.end_lineno or node.lineno
        declares = outside and isinstance(node, DECLARATIONS)
        leads |= isinstance(node, LOOPS | REGIONS)
        yield Statement(_first_line(node), _header_end(node), leads, declares, managed)
        leads = isinstance(node, ENDS_OF_BLOCKS | LOOPS | REGIONS | ast.If)
        if isinstance(node, DEFINITIONS):
            # The block around a definition continues after it.
            yield from _statements(node.body, isinstance(node, ast.ClassDef), leads=True)
        elif isinstance(node, LOOPS | REGIONS | ast.If):
            goes_on = isinstance(node, ast.With | ast.AsyncWith | ast.Try | ast.TryStar)
            yield from _statements(getattr(node, "body", ()), outside, leads=not goes_on)
            for part in [*getattr(node, "cases", ()), *getattr(node, "handlers", ())]:
                line = part.pattern.lineno if isinstance(part, ast.match_case) else part.lineno
                yield Statement(line, max(line, part.body[0].lineno - 1), leads=True)
                yield from _statements(part.body, outside, leads=True)
            for name in ("orelse", "finalbody"):
                yield from _statements(getattr(node, name, ()), outside, leads=True)


def _first_line(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)])


def _header_end(node: ast.stmt) -> int:
    """The last line of a simple statement, or of a compound statement's header."""
    if isinstance(node, ast.Match):
        return max(node.lineno, node.cases[0].pattern.lineno - 1)
    body: Sequence[ast.stmt] = getattr(node, "body", ())
    if isinstance(node, ast.Try | ast.TryStar):
        return node.lineno
    if body:
        return max(node.lineno, _first_line(body[0]) - 1)
    return node.end_lineno or node.lineno


OPTIONS = ("-p", "no:cacheprovider", "--color=no", "--tb=no", "-q")
MAX_STEPS = 500
"""Steps kept from the start of the trace, and the same number from its end."""
VALUE_CHARS = 200
"""Maximum length of a value's text."""


class TraceUnavailable(Exception):
    """There is no trace. The message tells the model why, as the end of a sentence."""


class Step(StrictRecord):
    """One executed statement."""

    activation: int
    """Identifies the function call that the step belongs to."""
    root: int
    """Identifies the outermost function call that led to the step."""
    is_function: bool
    """Whether it lies in a function, not in a module or class body."""
    function: str
    line: int
    """First line of the statement, from 1."""
    before: dict[str, str]
    """The local variables before the step, as text."""
    after: dict[str, str] | None
    """The local variables after it, or None if the run ended before."""
    gave: str | None
    """What the function returned or the generator yielded: `return=3`."""
    raised: str | None
    """The exception that it raised."""


STEPS = TypeAdapter(list[Step])


def trace_test(sandbox: Sandbox, program: str, code: str, test: str, timeout: float) -> list[Step]:
    """What the program did during the last statement of a failing pytest test: the kept steps, in
    order.

    The test runs under the tracer (see `ldb_tracer`), through the file `program`, which holds
    `code`. `timeout` in seconds. Raises TraceUnavailable, SandboxError.
    """
    try:
        statements = statements_of(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise TraceUnavailable(f"the program is not valid Python: {error}") from None
    job = {
        "program": posixpath.join(sandbox.workspace, program),
        "test": posixpath.join(sandbox.workspace, test.partition("::")[0]),
        # The first line of each line of a statement of several lines.
        "starts": {
            line: each.first
            for each in statements.values()
            for line in range(each.first, each.last + 1)
            if each.last > each.first and (line == each.first or line not in statements)
        },
        "value_chars": VALUE_CHARS,
        "max_steps": MAX_STEPS,
        "arguments": [*OPTIONS, f"--rootdir={sandbox.workspace}", test],
    }
    with scratch_folder(sandbox) as folder:
        tracer, described = f"{folder}/ldb_tracer.py", json.dumps(job).encode()
        source = Path(__file__).with_name("ldb_tracer.py").read_bytes()
        sandbox.write_files({tracer: source, f"{folder}/job.json": described})
        environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = Command([sandbox.python, tracer], env=environment, timeout=timeout)
        result = sandbox.run(command)
        try:
            trace = STEPS.validate_json(sandbox.read_file(f"{folder}/trace.json"))
        except (SandboxFileError, ValidationError):
            # The program under test may have ended before it, or broken the file.
            if result.timed_out:
                told = f"the traced run exceeds the limit of {timeout:g} s"
            else:
                ended = f"the traced run ended with exit code {result.exit_code}"
                told = f"{ended} before it had a trace"
            raise TraceUnavailable(told) from None
    executed = (statements.get(step.line) for step in trace)
    if all(each is None or each.declares for each in executed):
        raise TraceUnavailable("the test ends before it runs any line of the program")
    return trace


Item = TypeVar("Item")
MAX_STATEMENT_LINES = 12


class Level(StrEnum):
    """The unit of a block."""

    LINE = "line"
    """One execution of a statement."""
    BLOCK = "block"
    """One execution of a basic block."""
    FUNCTION = "function"
    """One call from outside the program, with everything that it executes."""


# From LDB's published code.
MOST_BLOCKS = {Level.LINE: 30, Level.BLOCK: 10, Level.FUNCTION: 1}
BLOCK_LINES = 30
COMMENT_CHARS = 100


@dataclass
class Block:
    """A piece of the trace."""

    lines: list[int] = field(default_factory=list)
    """First lines of the executed statements, in order."""
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] | None = None
    ending: tuple[str, ...] = ()
    """What the block returned or raised."""

    def add(self, step: Step) -> None:
        """Add a step of the same function call."""
        if not self.lines:
            self.before = step.before
        self.lines.append(step.line)
        given = () if step.gave is None else (step.gave,)
        raised = () if step.raised is None else (f"raised {step.raised}",)
        self.after, self.ending = step.after, (*given, *raised)


def blocks_of(trace: Sequence[Step], code: str, level: Level) -> list[Block]:
    """The trace's blocks, in order of their start."""
    statements = statements_of(code)
    steps = _told(trace, statements)
    if level is Level.FUNCTION:
        return _calls(steps)
    blocks: list[Block] = []
    under_way: dict[int, Block] = {}
    for step in steps:
        leads = level is Level.LINE or statements[step.line].leads
        if leads or step.activation not in under_way:
            under_way[step.activation] = Block()
            blocks.append(under_way[step.activation])
        under_way[step.activation].add(step)
    return blocks


def _told(steps: Iterable[Step], statements: Mapping[int, Statement]) -> list[Step]:
    """Drop definitions and imports outside functions, and returns to a `with` header."""
    told: list[Step] = []
    latest: dict[int, int] = {}
    for step in steps:
        statement = statements.get(step.line)
        if statement is None or statement.declares:
            continue
        index, managed = latest.get(step.activation), statement.managed
        if index is not None and managed and managed[0] <= told[index].line <= managed[1]:
            # The return to a `with` header at the end of its body: the last step inside gets the
            # variables as they are after leaving it.
            inside = told[index]
            raised = step.raised if step.raised or step.gave else inside.raised
            given = {"after": step.after, "gave": inside.gave or step.gave, "raised": raised}
            told[index] = inside.model_copy(update=given)
            continue
        latest[step.activation] = len(told)
        told.append(step)
    return told


def _calls(steps: Sequence[Step]) -> list[Block]:
    """The outermost function calls; a program without calls is one block."""
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
    """Up to `count` items: half of them from the start, the rest from the end."""
    if len(items) <= count:
        return items, ()
    return items[: count // 2], items[len(items) - (count - count // 2) :]


def trace_text(
    blocks: Sequence[Block], code: str, max_blocks: int, max_lines: int, value_chars: int
) -> str:
    """The blocks, each with a heading, and its values in comments before and after the code.

    `max_lines` are those of a block, `value_chars` the characters of a comment.
    """
    statements, source = statements_of(code), source_lines(code)
    head, tail = first_and_last(blocks, max_blocks)
    texts = []
    for index, block in enumerate([*head, *tail]):
        if tail and index == len(head):
            texts.append(f"... ({len(blocks) - len(head) - len(tail)} blocks left out) ...")
        lines = [
            line for first in block.lines for line in _statement_lines(statements[first], source)
        ]
        start, end = first_and_last(lines, max_lines)
        first, last = _indent(source[block.lines[0] - 1]), _indent(source[block.lines[-1] - 1])
        after = [*_values(block.after or {}), *block.ending]
        shown = [
            f"[BLOCK-{index}]",
            *_comment(first, _values(block.before), value_chars),
            *start,
            *(["..."] if end else []),
            *end,
            *_comment(last, after, value_chars),
        ]
        texts.append("\n".join(shown))
    return "\n".join(texts)


def _statement_lines(statement: Statement, source: Sequence[str]) -> Sequence[str]:
    lines = [line for line in source[statement.first - 1 : statement.last] if line.strip()]
    head, tail = first_and_last(lines, MAX_STATEMENT_LINES)
    return [*head, f"{_indent(head[-1])}...", *tail] if tail else lines


def _values(state: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in state.items()]


def _comment(indent: str, parts: Sequence[str], max_chars: int) -> list[str]:
    text = "  ".join(parts)
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}...{text[-half:]}"
    return [f"{indent}# {text}"] if text else []


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


# The prompt asks for JSON objects with `block`, `correct` and `explanation`. Models also write
# Python literals, put the objects under block names, break quotes, or answer in prose.
WRONG = re.compile(
    r"block[\W_]{1,8}(?:block[-_ ]?)?(\d{1,6})\W{1,40}(?:(?:feedback|verdict)\W{1,4})?"
    r"(?:correct\W{1,8}(?:false|no|incorrect|wrong|0)|incorrect|wrong)\b",
    re.IGNORECASE,
)


def wrong_blocks(reply: str) -> list[str]:
    """The numbers of the blocks that a reply finds incorrect, in order."""
    return list(dict.fromkeys(WRONG.findall(reply)))


class Ldb:
    """One conversation: in each attempt verdicts on the blocks, then the repaired program."""

    exhausted = False

    def __init__(self, context: RolloutContext, level: Level) -> None:
        self._context = context
        self._level = level
        spec = AgentSpec(prompt("ldb/system"), Toolbox([]), max_steps=1)
        self._agent = context.agent(spec, Role.PATCH_CODER)

    def repair(self, current: Round) -> Patch:
        """Trace, ask for verdicts, ask for the program; without a trace, ask for the program
        directly.
        """
        context, code, agent = self._context, current.version.code, self._agent
        agent.log.patch_attempt = current.number
        try:
            request = prompt("ldb/traced", trace=self._trace(current))
        except TraceUnavailable as reason:
            request = prompt("ldb/untraced", reason=str(reason))
            agent.run(attempt_message(context, current, request))
            return patch_of(agent.log.final_answer, code)
        agent.run(attempt_message(context, current, request))
        names = ", ".join(f"BLOCK-{n}" for n in wrong_blocks(agent.log.final_answer))
        found = prompt("ldb/found", blocks=names) + " " if names else ""
        agent.run(found + prompt("ldb/repair"))
        return patch_of(agent.log.final_answer, code)

    def _trace(self, current: Round) -> str:
        """The trace as text. Raises TraceUnavailable, SandboxError."""
        context, code, test = self._context, current.version.code, current.version.failing.id
        timeout, solution = context.config.repair.ldb_trace_timeout, context.instance.solution
        trace = trace_test(context.sandbox, solution, code, test, timeout=timeout)
        blocks = blocks_of(trace, code, self._level)
        return trace_text(blocks, code, MOST_BLOCKS[self._level], BLOCK_LINES, COMMENT_CHARS)


SYSTEMS = (
    OneFileRepair(
        name="ldb_line",
        title="LDB (Line-Level)",
        open_repair=partial(Ldb, level=Level.LINE),
    ),
    OneFileRepair(
        name="ldb_block",
        title="LDB (Block-Level)",
        open_repair=partial(Ldb, level=Level.BLOCK),
    ),
    OneFileRepair(
        name="ldb_function",
        title="LDB (Function-Level)",
        open_repair=partial(Ldb, level=Level.FUNCTION),
    ),
)
