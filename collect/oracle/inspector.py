"""The oracle as Program Inspector. It knows the correct program: it stops where the buggy one
differs, looks, tries the correct code in the running program, and reports.

It states only values that the debugger showed it.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import dedent

from collect.agents.config import Variant
from collect.agents.inspectcoder.inspector_tools import STATE_HEADING
from collect.benchmarks.base import Instance
from collect.code.patches import ChangedRange, changed_lines, reverse_patch
from collect.code.python_source import PythonSource, is_pure
from collect.code.source import Place, function_at, place_of
from collect.code.syntax import parse
from collect.oracle.patching import as_it_is, correct_program, numbered_code, program
from collect.oracle.scripted import Turns, say
from collect.store.messages import Message, ToolCall
from sandbox.text import source_lines

# Experiments for the running program: the correct statements in place of the wrong ones
# (InspectCoder, section 2.3.2: missing logic and flawed logic).


Compound = ast.If | ast.While | ast.For | ast.With | ast.Try | ast.FunctionDef | ast.ClassDef
TRIED = "tried"
"""The name for a value that has none of its own."""


@dataclass(frozen=True)
class Experiment:
    """Code to run in the paused frame."""

    code: str
    """The correct statements."""
    shows: str
    """The expression that shows the result."""
    missing: bool
    """Whether it adds missing code, so that the program can continue with it."""
    wrong: str = ""
    """The expression that the program computes instead, if it can be evaluated without effects."""
    skips: bool = False
    """Whether it does what follows a superfluous statement."""


def experiment_of(instance: Instance) -> Experiment | None:
    """The correct program's statements at the first place where the two differ."""
    ranges = changed_lines(instance.gold_patch)
    targets = changed_lines(reverse_patch(instance.gold_patch))
    buggy, correct = parse(program(instance)), parse(correct_program(instance))
    for before, after in zip(ranges, targets, strict=True):
        statements = list(_statements(correct, after))
        if after.insertion:
            return _without(buggy, before, statements)
        pieces = [piece for piece in map(_piece, statements) if piece[0]]
        if pieces:
            missing = before.insertion and all(_is_simple(each) for each in statements)
            code = "\n".join(code for code, _ in pieces)
            wrong = "" if before.insertion else _wrong(buggy, before, statements[-1])
            return Experiment(code, pieces[-1][1], missing, wrong)
    return None


def _without(
    buggy: ast.Module, removed: ChangedRange, around: Sequence[ast.stmt]
) -> Experiment | None:
    """For superfluous statements: the statement after them in the same block."""
    indents = {node.col_offset for node in _statements(buggy, removed)}
    code, shows = _piece(around[-1]) if around else ("", "")
    if not code or around[-1].col_offset not in indents:
        return None
    return Experiment(code, shows, missing=False, skips=True)


def _wrong(buggy: ast.Module, changed: ChangedRange, correct: ast.stmt) -> str:
    """The wrong statement's value as an expression: the last statement with the same subject."""
    for statement in reversed(list(_statements(buggy, changed))):
        given = getattr(statement, "value", None) or _value(statement)
        if _gives(statement) == _gives(correct) and isinstance(given, ast.expr) and is_pure(given):
            return ast.unparse(given)
    return ""


def _gives(node: ast.stmt) -> str:
    """A statement's subject; two statements are comparable if it is the same."""
    match node:
        case ast.Assign(targets=[target, *_]) | ast.AugAssign(target=target):
            return ast.unparse(target)
        case ast.AnnAssign(target=target):
            return ast.unparse(target)
        case ast.If() | ast.While():
            return "condition"
        case _:
            return type(node).__name__


def replaced(instance: Instance) -> tuple[str, str]:
    """The lines that the gold patch first removes, and their replacement, with relative indents."""
    before = changed_lines(instance.gold_patch)[0]
    after = changed_lines(reverse_patch(instance.gold_patch))[0]
    return _text(program(instance), before), _text(correct_program(instance), after)


def _text(code: str, changed: ChangedRange) -> str:
    if changed.insertion:
        return ""
    lines = source_lines(code)[changed.start - 1 : changed.end]
    return dedent("\n".join(line.rstrip() for line in lines))


def _statements(tree: ast.Module, changed: ChangedRange) -> Iterator[ast.stmt]:
    """The innermost statements at these lines; for a removal, the next one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and _header_end(node) >= changed.start:
            starts_within = node.lineno <= changed.end
            if starts_within and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Try):
                yield node


def _header_end(node: ast.stmt) -> int:
    """The last line of a statement's header."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(node.lineno, int(body[0].lineno) - 1)
    return node.end_lineno or node.lineno


def _is_simple(node: ast.stmt) -> bool:
    return not isinstance(node, Compound | ast.Return | ast.Raise | ast.Break | ast.Continue)


def _piece(node: ast.stmt) -> tuple[str, str]:
    """Code with the statement's effect, and an expression that shows it."""
    value = _value(node)
    if value is not None:
        return f"{TRIED} = {ast.unparse(value)}", TRIED
    shown: ast.expr | None = None
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
        case _:
            return None


PAUSED = re.compile(
    r"^(?:Paused at (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+)"
    r"|> (?P<path>\S+)\((?P<number>\d+)\)\S+)",
    re.MULTILINE,
)
"""Output of the probe and of pdb."""
POST_MORTEM = "(post mortem"
RAN_OUT = "ran to its end without an exception"
SHOWN = re.compile(r"^\s*(?P<name>\S.*?) =: (?P<value>.*)$", re.MULTILINE)
MAX_PROBES = 3
OPENINGS = (
    "From the task and the failing test, line {line} is where I would look first.",
    "The failing test goes through line {line}, and what it does there looks suspicious.",
    "I suspect line {line}: let me see what it works on when the failing test gets there.",
)
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
AGAIN = "The same comparison, this time."
MAX_HITS = 5
Reached = Generator[Message, list[str], bool]


class OracleInspector:
    """One analysis of one version of the program."""

    def __init__(self, instance: Instance, variant: str, rng: random.Random) -> None:
        self._instance = instance
        self._may_look = variant != Variant.INSPECTCODER_NO_INSPECTION
        self._may_change = variant != Variant.INSPECTCODER_NO_MODIFICATION
        self._rng = rng
        self._findings: list[str] = []
        self._verdict = ""
        self._plan = "nothing could be established"

    def turns(self, task: str) -> Turns:
        """Stop at the fault, look, try a modification, propose."""
        now = as_it_is(self._instance, numbered_code(task))
        place = place_of(now.files, changed_lines(now.gold_patch))
        self._plan = _plan(now, place)
        if (yield from self._go_to(now, place)):
            if self._may_look:
                yield from self._look(now, place)
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

    def _go_to(self, now: Instance, place: Place) -> Reached:
        thought = self._rng.choice(OPENINGS).format(line=place.line)
        for line in _ways_to(now, place):
            seen = yield say(
                thought,
                ("set_breakpoint", {"line": line}),
                ("control_execution", {"cmd": "continue"}),
            )
            if self._is_paused_in(seen):
                return True
            thought = f"It did not get to line {line}; I begin again and stop earlier."
            yield say(thought, ("control_execution", {"cmd": "restart"}))
        return False

    def _is_paused_in(self, seen: list[str]) -> bool:
        """Whether the program is paused in the solution."""
        text = "\n".join(seen)
        stops = [found["file"] or found["path"] for found in PAUSED.finditer(text)]
        paused = bool(stops) and stops[-1].endswith(self._instance.solution)
        return paused and POST_MORTEM not in text

    def _look(self, now: Instance, place: Place) -> Turns:
        source = PythonSource.read(program(now).encode())
        names = source.probes(place.line, place.function)[:MAX_PROBES] if source else []
        if not names:
            return
        seen = yield say(
            f"Paused before line {place.line}. Which values does it work on?",
            # Parts before the whole, which may raise.
            *(("interact_code", {"code": _show(name)}) for name in reversed(names)),
        )
        self._note(seen)

    def _try(self, experiment: Experiment, line: int) -> Turns:
        if experiment.missing:
            yield from self._put_in(experiment)
            return
        if experiment.skips:
            shown = yield from self._compare(experiment, TOO_MANY)
            if experiment.shows in shown:
                value = shown[experiment.shows]
                self._verdict = f"Without it, {experiment.shows} came to {value} there."
            return
        for hit in range(MAX_HITS):
            shown = yield from self._compare(experiment, AGAIN if hit else FLAWED)
            if not self._same(experiment, shown):
                self._conclude(experiment, shown)
                return
            seen = yield say(
                "Here the two agree, so this is not yet where it goes wrong. I go on to the next "
                "time that the line is reached.",
                ("set_breakpoint", {"line": line}),
                ("control_execution", {"cmd": "continue"}),
            )
            if not self._is_paused_in(seen):
                return

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

    def _put_in(self, experiment: Experiment) -> Turns:
        seen = yield say(
            "Something is missing before this line. I put it in and let the rest run.",
            ("interact_code", {"code": experiment.code}),
            ("control_execution", {"cmd": "continue"}),
        )
        if RAN_OUT in "\n".join(seen):
            self._verdict = "With the missing code put in, the failing test ran to its end."

    def _same(self, experiment: Experiment, shown: Mapping[str, str]) -> bool:
        """Whether wrong and correct code gave the same result, as far as it was shown."""
        return shown.get(experiment.wrong, "") == shown.get(experiment.shows, " ")

    def _conclude(self, experiment: Experiment, shown: Mapping[str, str]) -> None:
        if experiment.wrong in shown:
            self._findings = [f"{experiment.wrong} was {shown[experiment.wrong]}"]
        if experiment.shows in shown:
            instead = " instead" if experiment.wrong in shown else ""
            self._verdict = f"The corrected code gave {shown[experiment.shows]} there{instead}."

    def _note(self, seen: list[str]) -> None:
        for value in SHOWN.finditer("\n".join(seen)):
            self._findings.append(f"{value['name']} was {value['value']}")


def _show(expression: str) -> str:
    return f"print({expression + ' =:'!r}, repr({expression}))"


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
        """One answer per action."""
        said, line = task, "?"
        while True:
            breakpoint_line = re.findall(r"^> set_breakpoint\((\d+)\)", said, re.MULTILINE)
            line = breakpoint_line[-1] if breakpoint_line else line
            if breakpoint_line:
                answer = f"Breakpoint at line {line}."
            elif "control_execution" in said:
                answer = f"Paused before line {line}."
            else:
                answer = "(what this shows can't be told by reading)"
            state = f"{STATE_HEADING}\nPaused: line {line}"
            said = "".join((yield say(f"{answer}\n\n{state}")))

    def last_word(self) -> str:
        return "(no output)"


def _ways_to(now: Instance, place: Place) -> list[int]:
    """Where to stop: at the fault, or at the start of its function."""
    source = PythonSource.read(program(now).encode())
    if source is None:
        return [place.line]
    found = function_at(source, place.line)
    first = source.stops(found)[:1]
    return [place.line, *(line for line in first if line != place.line)]


def _plan(now: Instance, place: Place) -> str:
    old, new = replaced(now)
    at = f"{place.path}:{place.line}"
    where = f" in {place.function}" if place.function else ""
    cause = "The root cause of the bug is that"
    fix = "To fix the bug, consider"
    if not old:
        gap = changed_lines(now.gold_patch)[0]
        text = f"{cause} something is missing at {at}{where}. {fix} adding, between lines "
        return _with_code(f"{text}{gap.start} and {gap.end},", new)
    wrong = _first_line(old)
    if not new:
        return f"{cause} {wrong} at {at}{where} should not be there. {fix} taking it out."
    text = f"{cause} {wrong} at {at}{where} does not do what the task asks. {fix} replacing it with"
    return _with_code(text, new)


def _first_line(code: str) -> str:
    first, *more = code.strip().splitlines()
    return f"`{first}`" + (" with what follows it" if more else "")


def _with_code(text: str, code: str) -> str:
    """The text with the code at its end, line breaks kept."""
    if "\n" not in code:
        return f"{text} `{code}`."
    return f"{text}\n```python\n{code}\n```"
