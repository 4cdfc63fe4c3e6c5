"""Which line events begin an execution of a statement.

One execution of a statement is one hit of each of its lines that it runs. CPython reports a line
again whenever a statement comes back to it: to make a call whose arguments are on the lines below,
at the end of a `with`, after the `finally` that a `return` runs.

The source says which lines a statement has, the bytecode in which order they run.
"""

from __future__ import annotations

import ast
import dis
import sys
import types
from typing import Any, Iterator, NamedTuple

from .interpreter import inlined_comprehensions, instruction_lines


class Statement(NamedTuple):
    """The lines of a statement, of a compound one without its body."""

    lines: set[int]
    between: set[int]
    """Lines of others that run before it ends: the body of a `with`, the `finally` of a `return`.
    """
    heads: set[int]
    """Lines to which any jump back begins another execution."""


WITHS = (ast.With, ast.AsyncWith)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LEAVES = (ast.Return, ast.Break, ast.Continue)
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
LAST_OF_HEADER = ("test", "iter", "subject", "type")
"""Fields of a compound statement, of which a header ends with the one it has."""


def statements(tree: ast.AST) -> dict[int, Statement]:
    """The statement of each line; those that share a line are one."""
    found: dict[int, Statement] = {}
    for statement in _below(tree, set(), set()):
        shared = [found[line] for line in statement.lines if line in found]
        joined = Statement(*map(set.union, statement, *shared)) if shared else statement
        found.update(dict.fromkeys(joined.lines, joined))
    return found


def _below(node: ast.AST, finals: set[int], withs: set[int]) -> Iterator[Statement]:
    """The statements below a node, which is inside `try` statements with lines of `finals`, and
    `with` statements with headers of `withs`."""
    if isinstance(node, SCOPES):
        finals, withs = set(), set()
    header = _header(node)
    if isinstance(node, (*WITHS, ast.ExceptHandler)):
        yield Statement(header, _lines(node.lineno, node.end_lineno) - header, set())
    elif isinstance(node, LEAVES):
        yield Statement(header, finals | withs, header)
    elif header:
        yield Statement(header, set(), header)
    if isinstance(node, WITHS):
        withs = withs | header
    last: list[ast.stmt] = getattr(node, "finalbody", [])
    inside = finals
    if last:
        inside = finals | _lines(last[0].lineno, last[-1].end_lineno)
    for child in _children(node):
        yield from _below(child, finals if child in last else inside, withs)


def _children(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases in a node."""
    fields = vars(node)
    return [child for name in BLOCKS if name in fields for child in fields[name]]


def _header(node: ast.AST) -> set[int]:
    """The lines of a statement before its body; none for what is no statement."""
    first: int = getattr(node, "lineno", 0)
    if isinstance(node, SCOPES):
        first = min([first, *(mark.lineno for mark in node.decorator_list)])
        body = min([node.body[0].lineno, *_decorators(node.body[0])])
        return _lines(first, max(node.lineno, body - 1))
    if isinstance(node, WITHS):
        item = node.items[-1]
        return _lines(first, (item.optional_vars or item.context_expr).end_lineno)
    if hasattr(node, "pattern") and hasattr(node, "guard"):  # a `case`
        return _lines(node.pattern.lineno, (node.guard or node.pattern).end_lineno)
    if not isinstance(node, (ast.stmt, ast.ExceptHandler)):
        return set()
    if hasattr(node, "body"):
        last = next((getattr(node, name) for name in LAST_OF_HEADER if hasattr(node, name)), None)
        return _lines(first, getattr(last, "end_lineno", first))
    return _lines(first, node.end_lineno)


JUMPED_OVER = (
    "may miss executions: CPython {}.{} can jump over a `{}` straight from the condition before "
    "it; set one on the condition's line to see all"
)
NO_CODE = (
    "may miss executions, or stop at the end of another branch: CPython {}.{} makes no code for "
    "this statement; set one on the condition's line to see all"
)


def unseen_lines(tree: ast.AST) -> dict[int, str]:
    """What to say of a breakpoint at a line of which CPython before 3.10 tells no event, or a wrong
    one: at a jump that it takes from the condition before, and at a statement without code."""
    found: dict[int, str] = {}
    if sys.version_info >= (3, 10):
        return found
    breaks = _breaks_of_while(tree)
    for node, follows_branches in _placed(tree):
        jumps = isinstance(node, ast.Continue) or (node in breaks and follows_branches)
        if jumps:
            kind = type(node).__name__.lower()
            found[node.lineno] = JUMPED_OVER.format(*sys.version_info[:2], kind)
        elif follows_branches and _has_no_code(node):
            found[node.lineno] = NO_CODE.format(*sys.version_info[:2])
    return found


def _placed(tree: ast.AST) -> Iterator[tuple[ast.stmt, bool]]:
    """Each statement, and whether a condition, or the end of a branch, leads to it."""
    for parent in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            before = parent
            for node in block if isinstance(block, list) else ():
                branch = name == "orelse" or isinstance(parent, ast.If)
                yield node, branch or (before is not parent and hasattr(before, "body"))
                before = node


def _breaks_of_while(tree: ast.AST) -> set[ast.AST]:
    """Those that leave a `while`: of a `for` they have to clear its iterator, and are seen."""
    found: set[ast.AST] = set()
    for loop in ast.walk(tree):
        left = list(loop.body) if isinstance(loop, ast.While) else []
        while left:
            node = left.pop()
            if isinstance(node, ast.Break):
                found.add(node)
            elif not isinstance(node, (ast.For, ast.AsyncFor, ast.While, *SCOPES)):
                left += _children(node)  # type: ignore[arg-type]
    return found


def _has_no_code(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    is_bare = isinstance(node, ast.AnnAssign) and node.value is None
    return is_bare or isinstance(node, (ast.Pass, ast.Global, ast.Nonlocal))


def failure_lines(tree: ast.AST) -> set[int]:
    """The first lines of `assert` statements that may have code for their failure alone."""
    found: set[int] = set()
    left = [tree]
    while left:
        node = left.pop()
        left += _children(node)
        if isinstance(node, ast.Assert):
            found.update(range(node.lineno, _first_run(node.test).lineno))
    return found


def _first_run(test: ast.expr) -> ast.expr:
    """The part of a condition that runs first."""
    if isinstance(test, ast.UnaryOp):
        return _first_run(test.operand)
    if isinstance(test, ast.BoolOp):
        return _first_run(test.values[0])
    if isinstance(test, ast.Compare):
        return _first_run(test.left)
    return test


def _decorators(node: ast.AST) -> list[int]:
    return [mark.lineno for mark in getattr(node, "decorator_list", [])]


def _lines(first: int, last: int | None) -> set[int]:
    return set(range(first, (last or first) + 1))


NEXT, JUMP, EXCEPTION = "next", "jump", "exception"
NO_NEXT = {
    "RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS", "JUMP_FORWARD", "JUMP_ABSOLUTE",
    "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
}  # fmt: skip
BACK = {"JUMP_BACKWARD", "JUMP_ABSOLUTE"}
ENDS = {"WITH_EXCEPT_START", "END_ASYNC_FOR"}
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
SETUPS = {"SETUP_FINALLY", "SETUP_WITH", "SETUP_ASYNC_WITH"}
"""Before 3.11 what names the handler of an exception; in all of the block it may be raised."""
JUMPS = {*dis.hasjrel, *dis.hasjabs}
FRESH, BEGUN = 1, 2
"""Whether the line has run in this execution of its statement; on different paths it may be both.
"""


class Flow:
    """The order in which the instructions of a code object run."""

    def __init__(self, code: types.CodeType) -> None:
        self.lines = instruction_lines(code)
        self.depths = inlined_comprehensions(code).inside
        self.before: dict[int, list[tuple[int, str]]] = {offset: [] for offset in self.lines}
        """By offset: those that it may follow, and how."""
        self.waits: set[int] = set()
        """Jumps back within an `await`."""
        self.back: dict[int, int] = {}
        """Other jumps back, with their targets."""
        self.branches: dict[int, list[int]] = {}
        """Conditional jumps in comprehensions, with what may follow."""
        self.tests: dict[int, list[int]] = {}
        """Other conditional jumps, likewise."""
        self.ends: set[int] = set()
        """What ends a turn of a comprehension, a `with`, an `except`, an `async for` or an `await`:
        it may have the line of something else, such as of an element that was left out."""
        instructions = list(dis.get_instructions(code))
        names = [at.opname for at in instructions]
        for at in instructions[: names.index("RESUME") + 1 if "RESUME" in names else 0]:
            self.lines[at.offset] = None  # what enters the code is no event
        self._follow(-1, 0, NEXT)
        is_comprehension = code.co_name in COMPREHENSIONS
        for at, after in zip(instructions, [*instructions[1:], None]):  # noqa: B905
            self._add(at, None if after is None else after.offset)
            if at.opname in ENDS or (is_comprehension and at.opname == "RETURN_VALUE"):
                self.ends.add(at.offset)
            if after is not None and (is_comprehension or at.offset in self.depths):
                self._add_turn(at, after)
            elif after is not None and at.opname.startswith("POP_JUMP"):
                self.tests[at.offset] = [after.offset, at.argval]
        self.ends |= _clean_ups(instructions)
        for first, end, target in _handlers(code):
            for offset in self.lines:
                if first <= offset < end:
                    self._follow(offset, target, EXCEPTION)

    def _add(self, at: dis.Instruction, after: int | None) -> None:
        if after is not None and at.opname not in NO_NEXT:
            self._follow(at.offset, after, NEXT)
        if at.opcode in JUMPS:
            self._follow(at.offset, at.argval, EXCEPTION if at.opname in SETUPS else JUMP)
        if at.opname == "JUMP_BACKWARD_NO_INTERRUPT":
            self.waits.add(at.offset)
        if at.opname == "CLEANUP_THROW" and after is not None:
            self.waits.add(after)
            self.ends |= {at.offset, after}
        if at.opname in BACK and at.argval <= at.offset and at.offset not in self.waits:
            self.back[at.offset] = at.argval

    def _add_turn(self, at: dis.Instruction, after: dis.Instruction) -> None:
        """Add an instruction of a comprehension."""
        if at.offset in self.back:
            self.ends.add(at.offset)
        if at.opname == "NOT_TAKEN" and after.opname in BACK:  # 3.14
            self.ends.add(at.offset)
        if at.opname.startswith("POP_JUMP") and sys.version_info >= (3, 12):
            self.branches[at.offset] = [after.offset, at.argval]

    def _follow(self, before: int, offset: int, kind: str) -> None:
        if offset in self.before:
            self.before[offset].append((before, kind))

    def silent(self, line: int, statement: Statement) -> dict[int, int]:
        """Jumps that begin an execution of a line, though `sys.monitoring` reports no line, with
        their targets: back to the same line, from the last test of a loop on one line to what
        follows, and from a condition that has the line of a comprehension's element."""
        depth = self._depth(line)
        found: dict[int, int] = {}
        for offset, target in self.back.items():
            loops = self.lines[offset] == self.lines.get(target) == line
            if loops and line in statement.heads and self.depths.get(offset, 0) <= depth:
                found[offset] = target
                found.update(self._leaving(target, offset))
        for offset, targets in self.branches.items():
            if self.depths.get(offset, 0) <= depth and self._is_alone(offset, line):
                found.update((offset, to) for to in targets if self._runs(to, line))
        return found

    def _leaving(self, first: int, last: int) -> dict[int, int]:
        """The conditional jumps out of a loop's instructions, which have no other test than one
        that comes after the body. (CPython 3.12 has gone on to the next line at their events.)"""
        return (
            {}
            if sys.version_info < (3, 13)
            else {
                offset: target
                for offset, targets in self.tests.items()
                for target in targets
                if first < offset < last and not first <= target <= last
            }
        )

    def repeats(self, line: int, statement: Statement) -> set[int]:
        """The offsets where an event of a line begins no execution of its statement."""
        depth = self._depth(line)
        states = self._states(line, depth, statement)
        found = set()
        for offset in self._offsets(line):
            arrivals = list(self._arrivals(offset, depth, statement, states))
            # What runs on within the line raises no event.
            events = [at for at in arrivals if self.lines.get(at[0]) != line or at[0] >= offset]
            state = _joined([state for *_, state in events or arrivals])
            alone = offset in self.branches and self._is_alone(offset, line)
            if alone or offset in self.ends or self.depths.get(offset, 0) > depth or state == BEGUN:
                found.add(offset)
        silent = self.silent(line, statement)
        # From 3.13 on `sys.settrace` reports a loop on one line at the jump itself.
        return found - set(silent.values()) - (silent.keys() & self.back.keys())

    def _offsets(self, line: int) -> list[int]:
        return [offset for offset, own in self.lines.items() if own == line]

    def _runs(self, offset: int, line: int) -> bool:
        """Whether an instruction runs a part of a line, and not only ends a turn."""
        return self.lines.get(offset) == line and offset not in self.ends

    def _is_alone(self, branch: int, line: int) -> bool:
        """Whether a condition's jump has the line of an element, which it may leave out."""
        before = [self.lines.get(offset) for offset, _ in self.before[branch]]
        return self.lines[branch] == line and bool(before) and line not in before

    def _depth(self, line: int) -> int:
        """The number of inlined comprehensions around the outermost part of a line."""
        runs = [at for at in self._offsets(line) if at not in self.ends]
        return min((self.depths.get(offset, 0) for offset in runs), default=0)

    def _states(self, line: int, depth: int, statement: Statement) -> dict[int, int]:
        """The state after each instruction of a statement, and of what runs before it ends."""
        during = statement.lines | statement.between
        inner = [at for at, own in self.lines.items() if own is None or own in during]
        states = dict.fromkeys(inner, 0)
        changed = True
        while changed:
            changed = False
            for offset in inner:
                arrivals = self._arrivals(offset, depth, statement, states)
                state = _joined([state for *_, state in arrivals])
                if self.lines[offset] == line:
                    state = BEGUN
                changed |= states[offset] != state
                states[offset] = state
        return states

    def _arrivals(
        self, offset: int, depth: int, statement: Statement, states: dict[int, int]
    ) -> Iterator[tuple[int, str, int]]:
        """What an instruction may follow, how, and the state on that way."""
        found = [(before, kind, states.get(before, FRESH)) for before, kind in self.before[offset]]
        ahead = [state for before, _, state in found if before < offset]
        begins = self.lines[offset] in statement.heads or _joined(ahead) & FRESH
        for before, kind, state in found:
            back = kind == JUMP and before >= offset and before not in self.waits
            anew = back and begins and self.depths.get(before, 0) <= depth
            yield before, kind, FRESH if anew else state


def _joined(states: list[int]) -> int:
    joined = 0
    for state in states:
        joined |= state
    return joined


def _clean_ups(instructions: list[dis.Instruction]) -> set[int]:
    """Before 3.11: where the name of an `except` is deleted if another exception leaves it, on the
    last line of its body."""
    handlers = {at.argval for at in instructions if at.opname == "SETUP_FINALLY"}
    found = set()
    for index, at in enumerate(instructions[:-2]):
        stored, deleted = instructions[index + 1 : index + 3]
        clears = at.opname == "LOAD_CONST" and at.argval is None and stored.arg == deleted.arg
        if at.offset in handlers and clears and deleted.opname.startswith("DELETE"):
            found.add(at.offset)
    return found


def _handlers(code: types.CodeType) -> Iterator[tuple[int, int, int]]:
    """The exception table (3.11 on): where a block begins and ends, and its handler."""
    if sys.version_info >= (3, 11):
        private: Any = dis
        for entry in private._parse_exception_table(code):
            yield entry.start, entry.end, entry.target
