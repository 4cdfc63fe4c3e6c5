"""The oracle as Program Inspector. It knows the correct program: it stops where the buggy one
differs, looks, tries the correct code in the running program, and reports.

It states only values that the debugger showed it.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import dedent

from collect.agents.inspectcoder.ablations import Ablation
from collect.agents.inspectcoder.react import STATE_HEADING
from collect.benchmarks.base import Instance
from collect.code.patches import ChangedRange
from collect.code.source import (
    Place,
    changed_code,
    code_changes,
    function_at,
    place_of,
    read_source,
)
from collect.code.syntax import is_pure, parse
from collect.oracle.candidates import as_it_is, correct_program, numbered_code, program
from collect.oracle.scripted import PHRASES, Turns, say
from collect.store.messages import Message, ToolCall
from sandbox.text import source_lines

COMPOUND = (ast.If, ast.While, ast.For, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)
LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
PAUSED = re.compile(r"^(?:Paused at (.+?):\d+ in \S+|> (\S+)\(\d+\)\S+)", re.MULTILINE)
"""Output of the probe and of pdb."""
SHOWN = re.compile(r"^[ \t]*(?P<name>\S.*?) =: (?P<value>.*)$", re.MULTILINE)
MAX_PROBES = 3
MAX_HITS = 5
SURE = "I have what I need: the cause, and what fixes it."
UNSURE = "The session shows where it goes wrong; whether my change is enough, the tests must tell."
TOO_MANY = (
    "This line may be one too many. I run what would come next without it, in the session, before "
    "the line itself has run."
)
FLAWED = (
    "This line itself may be wrong, so that continuing would prove nothing. I compare what it "
    "computes with what I believe it should, in the session."
)


@dataclass(frozen=True)
class Experiment:
    """Code to run in the paused frame: the correct statements in place of the wrong ones
    (InspectCoder, section 2.3.2: missing logic and flawed logic).
    """

    code: str
    """The correct statements."""
    shows: str
    """The expression that shows the result."""
    missing: bool = False
    """Whether it adds missing code, so that the program can continue with it."""
    wrong: str = ""
    """The expression that the program computes instead, if it can be evaluated without effects."""
    skips: bool = False
    """Whether it does what follows a superfluous statement."""


def experiment_of(instance: Instance) -> Experiment | None:
    """The correct program's statements at the first place where the two differ."""
    buggy, correct = parse(program(instance)), parse(correct_program(instance))
    for before, after in code_changes(instance.files, instance.gold_patch):
        statements = list(_statements(correct, after))
        pieces = [piece for piece in map(_piece, statements) if piece[0]]
        if after.insertion:
            # Superfluous statements: run the one after them, if it is in the same block.
            indents = {node.col_offset for node in _statements(buggy, before)}
            code, shows = _piece(statements[-1]) if statements else ("", "")
            fits = code and statements[-1].col_offset in indents
            return Experiment(code, shows, skips=True) if fits else None
        if pieces:
            code, shows = "\n".join(code for code, _ in pieces), pieces[-1][1]
            if not before.insertion:
                return Experiment(code, shows, wrong=_wrong(buggy, before, statements[-1]))
            missing = not any(isinstance(each, (*COMPOUND, *LEAVING)) for each in statements)
            return Experiment(code, shows, missing)
    return None


def _wrong(buggy: ast.Module, changed: ChangedRange, correct: ast.stmt) -> str:
    """The wrong statement's value as an expression: the last statement with the same subject."""
    for statement in reversed(list(_statements(buggy, changed))):
        given = getattr(statement, "value", None) or _value(statement)
        alike = _subject(statement) == _subject(correct)
        if alike and isinstance(given, ast.expr) and is_pure(given):
            return ast.unparse(given)
    return ""


def _subject(node: ast.stmt) -> str:
    """Two statements are comparable if it is the same."""
    match node:
        case ast.Assign(targets=[target, *_]):
            return ast.unparse(target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return ast.unparse(target)
        case ast.If() | ast.While():
            return "condition"
    return type(node).__name__


def _statements(tree: ast.Module, changed: ChangedRange) -> Iterator[ast.stmt]:
    """The innermost statements at these lines; for a removal, the next one."""
    for node in ast.walk(tree):
        whole = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Try)
        if whole or not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        # The last line of its header.
        end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        if node.lineno <= changed.end and end >= changed.start:
            yield node


def _piece(node: ast.stmt) -> tuple[str, str]:
    """Code with the statement's effect, and an expression that shows it."""
    value = _value(node)
    if value is not None:
        return f"tried = {ast.unparse(value)}", "tried"
    shown: ast.expr
    match node:
        case ast.Assign(targets=[target, *_]):
            shown = target
        case ast.AugAssign() | ast.AnnAssign(value=ast.expr()):
            shown = node.target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            shown = owner
        case _:
            return "", ""
    return ast.unparse(node), ast.unparse(shown)


def _value(node: ast.stmt) -> ast.expr | None:
    """The value that a statement tests or returns, if it binds no name."""
    match node:
        case ast.Return(value=value):
            return value
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return test
        case ast.For(iter=iterated):
            return ast.Call(ast.Name("list"), [iterated], [])
    return None


class OracleInspector:
    """One analysis of one version of the program."""

    def __init__(self, instance: Instance, variant: str, rng: random.Random) -> None:
        self._instance = instance
        self._may_look = variant != Ablation.NO_INSPECTION
        self._may_change = variant != Ablation.NO_MODIFICATION
        self._rng = rng
        self._findings: list[str] = []
        self._verdict = ""
        self._plan = "nothing could be established"

    def turns(self, task: str) -> Turns:
        """Stop at the fault, look, try a modification, propose."""
        now = as_it_is(self._instance, numbered_code(task))
        place = place_of(now.files, changed_code(now.files, now.gold_patch))
        source = read_source(place.path, program(now).encode())
        self._plan = _plan(now, place)
        # Stop at the fault, or else at the start of its function.
        lines = [place.line, *source.stops(function_at(source, place.line))[:1]]
        if (yield from self._go_to(list(dict.fromkeys(lines)))):
            names = source.probes(place.line, place.function)[:MAX_PROBES]
            if self._may_look and names:
                seen = yield say(
                    f"Paused before line {place.line}. Which values does it work on?",
                    # Parts before the whole, which may raise.
                    *(("interact_code", {"code": _show(name)}) for name in reversed(names)),
                )
                shown = SHOWN.findall("\n".join(seen))
                self._findings += [f"{name} was {value}" for name, value in shown]
            experiment = experiment_of(now)
            if experiment is not None and self._may_change:
                yield from self._try(experiment, place.line)
        thought = SURE if self._verdict else UNSURE
        yield say(thought, ("propose_repair", {"plan": self.last_word()}))

    def last_word(self) -> str:
        """The root cause report (InspectCoder, section 2.3.3)."""
        found = "; ".join(self._findings[:MAX_PROBES])
        seen = f"When the failing test was paused there, {found}." if found else ""
        # A multi-line code block stands alone.
        between = "\n" if self._plan.endswith("```") else " "
        observed = " ".join(filter(None, [seen, self._verdict]))
        return between.join(filter(None, [self._plan, observed]))

    def _go_to(self, lines: Sequence[int]) -> Generator[Message, list[str], bool]:
        """Whether the program is now paused at one of the lines: the first that is reached."""
        thought = self._rng.choice(PHRASES["inspector_opening"]).format(line=lines[0])
        for line in lines:
            seen = yield say(
                thought,
                ("set_breakpoint", {"line": line}),
                ("control_execution", {"cmd": "continue"}),
            )
            if self._is_paused(seen):
                return True
            thought = f"It did not get to line {line}; I begin again and stop earlier."
            yield say(thought, ("control_execution", {"cmd": "restart"}))
        return False

    def _is_paused(self, seen: list[str]) -> bool:
        """Whether the program is paused in the solution."""
        text = "\n".join(seen)
        stops = [file or path for file, path in PAUSED.findall(text)]
        paused = bool(stops) and stops[-1].endswith(self._instance.solution)
        return paused and "(post mortem" not in text

    def _try(self, experiment: Experiment, line: int) -> Turns:
        if experiment.missing:
            seen = yield say(
                "Something is missing before this line. I put it in and let the rest run.",
                ("interact_code", {"code": experiment.code}),
                ("control_execution", {"cmd": "continue"}),
            )
            if "ran to its end without an exception" in "\n".join(seen):
                self._verdict = "With the missing code put in, the failing test ran to its end."
            return
        thought = TOO_MANY if experiment.skips else FLAWED
        for _ in range(MAX_HITS):
            shown = yield from self._compare(experiment, thought)
            wrong, right = shown.get(experiment.wrong), shown.get(experiment.shows)
            if experiment.skips:
                if right is not None:
                    self._verdict = f"Without it, {experiment.shows} came to {right} there."
                return
            if wrong is None or wrong != right:
                if wrong is not None:
                    self._findings = [f"{experiment.wrong} was {wrong}"]
                if right is not None:
                    instead = " instead" if wrong is not None else ""
                    self._verdict = f"The corrected code gave {right} there{instead}."
                return
            seen = yield say(
                "Here the two agree, so this is not yet where it goes wrong. I go on to the next "
                "time that the line is reached.",
                ("set_breakpoint", {"line": line}),
                ("control_execution", {"cmd": "continue"}),
            )
            if not self._is_paused(seen):
                return
            thought = "The same comparison, this time."

    def _compare(
        self, experiment: Experiment, thought: str
    ) -> Generator[Message, list[str], dict[str, str]]:
        """What the program computes and what the correct code does, as far as it was shown."""
        seen: list[str] = []
        if experiment.wrong and self._may_look:
            seen += yield say(thought, ("interact_code", {"code": _show(experiment.wrong)}))
            thought = "And this is what I believe it should compute."
        # In a separate turn: if the wrong expression raises, later code is skipped.
        codes = [experiment.code, *([_show(experiment.shows)] if self._may_look else [])]
        seen += yield say(thought, *(("interact_code", {"code": code}) for code in codes))
        return dict(SHOWN.findall("\n".join(seen)))


def _show(expression: str) -> str:
    return f"print({expression + ' =:'!r}, repr({expression}))"


class SilentInspector:
    """An Inspector that proposes nothing, to measure the Patch Coder on its own."""

    def turns(self, task: str) -> Turns:
        yield say("I can't tell.", ("propose_repair", {"plan": self.last_word()}))

    def last_word(self) -> str:
        return "I don't know what is wrong."


class TerminalInspector(OracleInspector):
    """The oracle at a plain pdb prompt, for the ablation without InspectWare."""

    def turns(self, task: str) -> Turns:
        """The Inspector's turns, with calls as pdb commands."""
        inner = super().turns(task)
        reply = next(inner)
        while True:
            calls = [self._typed(call) for call in reply.tool_calls]
            seen = yield replace(reply, tool_calls=tuple(calls))
            try:
                reply = inner.send(seen)
            except StopIteration:
                return

    def _typed(self, call: ToolCall) -> ToolCall:
        arguments = json.loads(call.arguments)
        match call.name:
            case "set_breakpoint":
                command = f"tbreak {self._instance.solution}:{arguments['line']}"
            case "control_execution":
                command = "c" if arguments["cmd"] == "continue" else "run"
            case "interact_code":
                command = "!" + "; ".join(arguments["code"].splitlines())
            case _:
                return call
        return replace(call, name="debugger", arguments=json.dumps({"command": command}))


class OracleSimulator:
    """Replaces a model that simulates a debugger: it says where a breakpoint would stop, but knows
    no values.
    """

    def turns(self, task: str) -> Turns:
        said, line = task, "?"
        while True:
            if found := re.findall(r"^> set_breakpoint\((\d+)\)", said, re.MULTILINE):
                line = found[-1]
                answer = f"Breakpoint at line {line}."
            elif "control_execution" in said:
                answer = f"Paused before line {line}."
            else:
                answer = "(what this shows can't be told by reading)"
            state = f"{STATE_HEADING}\nPaused: line {line}"
            said = "".join((yield say(f"{answer}\n\n{state}")))

    def last_word(self) -> str:
        return "(no output)"


def _plan(now: Instance, place: Place) -> str:
    """The root cause and the fix: the lines that the gold patch first removes, and those that it
    puts in their place, with relative indents.
    """
    before, after = code_changes(now.files, now.gold_patch)[0]
    old, new = _text(program(now), before), _text(correct_program(now), after)
    where = f"{place.path}:{place.line}" + (f" in {place.function}" if place.function else "")
    first, *more = old.strip().splitlines() or [""]
    wrong = f"`{first}`" + (" with what follows it" if more else "")
    cause, fix = "The root cause of the bug is that", "To fix the bug, consider"
    if not old:
        between = f"between lines {before.start} and {before.end},"
        text = f"{cause} something is missing at {where}. {fix} adding, {between}"
    elif not new:
        return f"{cause} {wrong} at {where} should not be there. {fix} taking it out."
    else:
        told = f"{cause} {wrong} at {where} does not do what the task asks."
        text = f"{told} {fix} replacing it with"
    return f"{text}\n```python\n{new}\n```" if "\n" in new else f"{text} `{new}`."


def _text(code: str, changed: ChangedRange) -> str:
    if changed.insertion:
        return ""
    lines = source_lines(code)[changed.start - 1 : changed.end]
    return dedent("\n".join(line.rstrip() for line in lines))
