"""AutoSD: debugging by the scientific method (Kang et al., "Explainable automated debugging via
large language model-driven scientific debugging", arXiv:2304.02195), with edits of several lines
(InspectCoder, section 3.5)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from pydantic import Field

from collect.agents.conversation import AgentSpec
from collect.agents.inspectcoder.code_blocks import fenced_blocks, syntax_problem
from collect.agents.inspectcoder.patching import (
    OneFileRepair,
    Patch,
    Round,
    numbered,
    shortened,
    write_patch,
)
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Answered, Arguments, MalformedAction, TextForm, Toolbox, ToolReply
from collect.benchmarks.base import TestStatus
from collect.benchmarks.pytest_run import section_of
from collect.benchmarks.running import run_tests
from collect.code.syntax import literal, split_outside
from collect.store.messages import Message, ToolCall
from collect.store.records import Role, ToolOutcome
from sandbox.debugger import Action, BreakpointRequest, DebugEvent, Debugger, Launch, StopReason
from sandbox.debugger.rendering import render
from sandbox.text import source_lines

# Edit scripts: `REPLACE(12, "c>b", "c>=b") AND REPLACE(14, "x", "y") AND RUN`. Models quote
# carelessly, so a quoted text can have several readings. The right one occurs in the program and
# leaves it valid. It stands with its line number and not after a dot, since texts may contain calls
# of `str.replace`.
REPLACE = re.compile(
    r"(?<![.\w])REPLACE\s*+\(\s*+(?:line(?:no)?\s*+=?\s*+)?(\d{1,9}+)\s*+,\s*+", re.IGNORECASE
)
CLOSED = r"(?:,|(?<!\s))\s*+\)\s*+(?:AND|;;?|,|&&?)?\s*+"
BETWEEN = re.compile(rf"{CLOSED}$", re.IGNORECASE)
AND_RUN = re.compile(rf"{CLOSED}(?:RUN\s*+(?:\(\s*+\))?)?\s*+[;.]?$", re.IGNORECASE)
COMMA = re.compile(r",(?=\s*+(?:new\s*+=\s*+)?[\"'])")
NAME = re.compile(r"^(?:old|new)\s*=\s*")
QUOTES = ('"""', "'''", '"', "'")
ESCAPES = (("", ""), ('""', '"'), ('\\"', '"'), ("\\'", "'"), ("\\n", "\n"))
"""Careless escapes in texts that Python can't read, and what they stand for."""

MAX_COMMAS = 50
"""Maximum number of commas to try as the separator of the two texts."""
MAX_QUOTED = 200
"""Characters of a script that a message quotes."""


class UnreadableExperiment(Exception):
    """A script that can't be run; the message tells the model why."""


@dataclass(frozen=True)
class Replacement:
    """Text to replace on one line, or from that line on."""

    line: int
    """Of the original program."""
    readings: tuple[tuple[str, str], ...]
    """Old and new text, for each reading of the quotes."""


def quoted(text: str) -> str:
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def parse_edits(text: str) -> list[Replacement]:
    """The replacements to make together before the test runs. Raises UnreadableExperiment."""
    starts = list(REPLACE.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    closings = [BETWEEN] * (len(starts) - 1) + [AND_RUN]
    return [
        Replacement(int(start[1]), _readings(start[0], text[start.end() : end], closing))
        for start, end, closing in zip(starts, ends, closings, strict=True)
    ]


def apply_edits(code: str, edits: Sequence[Replacement]) -> str:
    """The program with all replacements made.

    Raises UnreadableExperiment if the old text is not in the program.
    """
    # Entries stay original lines, even if their new text has several.
    lines = source_lines(code, keepends=True)
    for edit in edits:
        if not 1 <= edit.line <= len(lines):
            raise UnreadableExperiment(
                f"There is no line {edit.line}: the program has {len(lines)} lines."
            )
        results = []
        for old, new in edit.readings:
            first, last = edit.line - 1, edit.line + old.count("\n")
            covered = lines[first:last]
            text = "".join(covered)
            if old and old in text:
                changed = [text.replace(old, new), *[""] * (len(covered) - 1)]
                results.append([*lines[:first], *changed, *lines[last:]])
        if not results:
            raise UnreadableExperiment(
                f"`{quoted(edit.readings[0][0])}` was not found in line {edit.line}, which reads "
                f"`{quoted(lines[edit.line - 1].rstrip())}`."
            )
        valid = (result for result in results if syntax_problem("".join(result)) is None)
        lines = next(valid, results[0])
    return "".join(lines)


def _readings(opening: str, rest: str, closing: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    """Possible readings of a replacement's two texts."""
    rest = rest.strip()
    end = closing.search(rest)
    found = list(_pairs(rest[: end.start()])) if end else []
    if not found:
        raise UnreadableExperiment(
            f"`{quoted(opening + rest)}` could not be read; give REPLACE a line number and two "
            'quoted texts, the old and the new one: REPLACE(12, "c>b", "c>=b") AND RUN.'
        )
    return tuple(dict.fromkeys(found))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Two quoted texts: as Python reads them, and raw between their quotes."""
    try:
        value: object = literal(f"({text})")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        value = None
    if isinstance(value, tuple) and [type(item) for item in value] == [str, str]:
        yield value[0], value[1]
    for comma in islice(COMMA.finditer(text), MAX_COMMAS):
        old, new = _inside(text[: comma.start()]), _inside(text[comma.end() :])
        if old is not None and new is not None:
            yield from ((old.replace(*each), new.replace(*each)) for each in ESCAPES)


def _inside(text: str) -> str | None:
    """The text between the outermost quotes."""
    text = NAME.sub("", text.strip())
    for quotes in QUOTES:
        if text.startswith(quotes) and text.endswith(quotes) and len(text) >= 2 * len(quotes):
            return text[len(quotes) : -len(quotes)]
    return None


BREAK = ("b", "break", "tbreak")
PRINT = ("p", "pp", "print")
MOVES = {
    **dict.fromkeys(("c", "cont", "continue"), Action.CONTINUE),
    **dict.fromkeys(("n", "next"), Action.STEP_OVER),
    **dict.fromkeys(("s", "step"), Action.STEP_INTO),
    **dict.fromkeys(("r", "return"), Action.STEP_OUT),
    **dict.fromkeys(("q", "quit", "exit"), Action.CLOSE),
}
HOW_TO = (
    "An experiment is either a debugger script such as `b 12 ;; c ;; p total`, or an edit script "
    'such as `REPLACE(12, "c>b", "c>=b") AND RUN`.'
)
MAX_SCRIPT = 50_000
"""Characters."""
WORD = re.compile(r"(?:\(?pdb\)\s*)?([A-Za-z]+)(?![\w.])(.*)", re.DOTALL | re.IGNORECASE)
PLACE = re.compile(r"(?:(?P<file>[^\s:,]+):|line\s+)?(?P<line>[0-9]{1,9})$")
FUNCTION = re.compile(r"[A-Za-z_][\w.:/]*")


@dataclass(frozen=True)
class Print:
    expression: str


Command = Print | BreakpointRequest | Action


@dataclass(frozen=True)
class DebuggerScript:
    """Breakpoints, and commands for their hits."""

    breakpoints: tuple[BreakpointRequest, ...]
    at_hits: tuple[tuple[Command, ...], ...]
    """Commands by hit. The last entry applies to all later hits too."""


def parse_experiment(text: str) -> DebuggerScript | list[Replacement]:
    """Read an experiment. Raises UnreadableExperiment."""
    text = text.strip().strip("`").strip()
    if not text:
        raise UnreadableExperiment(f"The experiment is empty. {HOW_TO}")
    if len(text) > MAX_SCRIPT:
        raise UnreadableExperiment(
            f"The experiment has more than {MAX_SCRIPT} characters. {HOW_TO}"
        )
    return parse_edits(text) if REPLACE.search(text) else _debugger_script(text)


def _debugger_script(text: str) -> DebuggerScript:
    breakpoints: list[BreakpointRequest] = []
    hits: list[list[Command]] = []
    for piece in _pieces(text):
        command = _command(piece)
        if command is Action.CLOSE:
            break
        if isinstance(command, BreakpointRequest) and not hits:
            breakpoints.append(command)
        elif command is Action.CONTINUE:
            hits.append([])
        elif hits:
            hits[-1].append(command)
        else:
            # Commands at a breakpoint run even if no `c` continues to it.
            hits.append([command])
    if not breakpoints:
        raise UnreadableExperiment(f"The script sets no breakpoint before it goes on. {HOW_TO}")
    if not any(isinstance(command, Print) for hit in hits for command in hit):
        raise UnreadableExperiment(f"The script prints nothing. {HOW_TO}")
    return DebuggerScript(tuple(breakpoints), tuple(map(tuple, hits)))


def _command(piece: str) -> Command:
    mark = WORD.match(piece)
    word, rest = (mark[1].lower(), mark[2].strip()) if mark else ("", "")
    if word in BREAK and rest:
        return _breakpoint(rest, temporary=word == "tbreak")
    if word in PRINT and rest:
        return Print(rest)
    if word in MOVES and not rest:
        return MOVES[word]
    raise UnreadableExperiment(f"`{quoted(piece)}` is not a command of a debugger script. {HOW_TO}")


def _breakpoint(text: str, temporary: bool) -> BreakpointRequest:
    """`12`, `solution.py:12` or a function's name, with an optional condition after a comma."""
    where, _, condition = (part.strip() for part in text.partition(","))
    request = BreakpointRequest(condition=condition or None, temporary=temporary)
    place = PLACE.match(where)
    if place:
        return replace(request, file=place["file"], line=int(place["line"]))
    name = where.removesuffix("()")
    if not FUNCTION.fullmatch(name):
        raise UnreadableExperiment(f"`b {quoted(text)}` names no line to stop at. {HOW_TO}")
    return replace(request, function=name)


def _pieces(text: str) -> list[str]:
    """The commands: split at `;`, `;;` and line breaks, except in quotes or brackets."""
    pieces, is_closed = split_outside(text, ";\n")
    # Unclosed quotes or brackets must not hide separators.
    pieces = pieces if is_closed else re.split(r"[;\n]", text)
    return [piece.strip() for piece in pieces if piece.strip()]


EXPERIMENT_TOOL = "experiment"
DONE = "<DEBUGGING DONE>"
HEADING = re.compile(
    r"^[ \t>#*_-]*(Attempt(?=[ \t]*\d)|Hypothesis|Prediction|Experiment|Observation|Conclusion)"
    r"(?:[ \t]*+\d++\.?)?[ \t]*+[*_]*+(?::[*_]*+|[ \t]*+$)[ \t]*+",
    re.MULTILINE | re.IGNORECASE,
)
VERDICT = re.compile(
    r"(?P<undecided>undecided|not rejected)"
    r"|(?P<rejected>(?:\bnot|n't)(?: be| been)? (?:supported|confirmed)|unsupported"
    r"|rejected|refuted)"
    r"|(?P<supported>supported|confirmed)",
    re.IGNORECASE,
)
NO_EXPERIMENT = (
    'There was no experiment in your response. Write "Hypothesis:", "Prediction:" and '
    f'"Experiment:" with one script in backticks. {HOW_TO} If the cause is confirmed, end your '
    f"conclusion with {DONE} instead."
)
WARN_AT = 2


Trial = dict[str, str]
"""One turn of the scientific method: the parts that the model gave, by name, in order."""


def is_rejected(conclusion: str) -> bool:
    verdict = VERDICT.search(conclusion)
    return verdict is not None and verdict.lastgroup == "rejected"


class ScientificForm(TextForm):
    """One experiment per reply; a reply without one ends the debugging."""

    stop = ("\nObservation:", "\n**Observation")

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        parts = list(sections(reply.said))
        script = next((script_of(text) for name, text in parts if name == "experiment"), "")
        if script:
            arguments = json.dumps({"script": script})
            return [ToolCall(f"experiment_{step}", EXPERIMENT_TOOL, arguments)]
        if is_done(reply.said):
            return []
        raise MalformedAction(f"Format error: {NO_EXPERIMENT}")

    def observation(self, answered: Sequence[Answered], left_out: int, steps_left: int) -> str:
        text = "\n".join(f"Observation: {each.reply.text}" for each in answered)
        if 0 < steps_left <= WARN_AT:
            text += f"\n\nYou have {steps_left} steps left; end with {DONE} within them."
        return text


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The headed parts of a reply, with names in lower case.

    Stops where the model invents an observation, continues past its experiment, or says that it is
    done.
    """
    done = text.lower().find(DONE.lower())
    text = text if done < 0 else text[: done + len(DONE)]
    marks = list(HEADING.finditer(text))
    ends = [mark.start() for mark in marks[1:]]
    experimented = False
    for mark, end in zip(marks, [*ends, len(text)], strict=False):
        name = mark[1].lower()
        if name == "observation" or experimented:
            return
        experimented = name == "experiment"
        yield name, text[mark.end() : end].strip()


def is_done(text: str) -> bool:
    """Whether a reply ends the debugging."""
    return DONE.lower() in text.lower()


def script_of(text: str) -> str:
    """The script in an experiment's text: in a fenced block, in backticks, or the whole text."""
    blocks = [block for block in fenced_blocks(text) if block.strip()]
    start, end = text.find("`"), text.rfind("`")
    inside = text[start + 1 : end] if 0 <= start < end else text.strip().strip("`")
    return (blocks[0] if blocks else inside).strip()


def trials_of(messages: Sequence[Message]) -> list[Trial]:
    """The trials of a debugging conversation, from the messages after its task."""
    trials: list[Trial] = []
    for message in messages:
        if message.role == "assistant":
            parts = dict(sections(message.said))
            if trials and parts.get("conclusion"):
                trials[-1]["conclusion"] = parts["conclusion"].removesuffix(DONE).rstrip()
            names = ("hypothesis", "prediction", "experiment")
            if new := {name: parts[name] for name in names if parts.get(name)}:
                trials.append(new)
        elif message.role == "user" and trials and message.content.startswith("Observation:"):
            observed = message.content.removeprefix("Observation:").partition("\n\nYou have ")[0]
            trials[-1]["observation"] = observed.strip()
    return trials


def debugging_log(trials: Sequence[Trial]) -> str:
    """The log for the Patch Coder, without rejected hypotheses."""
    texts: list[str] = []
    for trial in trials:
        if not is_rejected(trial.get("conclusion", "")):
            lines = [f"{name.capitalize()}: {text}" for name, text in trial.items() if text]
            texts.append("\n".join([f"Attempt {len(texts) + 1}.", *lines]))
    return "\n\n".join(texts) or "No hypothesis about the cause was supported by an experiment."


ACTION, EDIT = "experiment/debugger", "experiment/edit"
NOT_COVERED = "[The breakpoint line was not covered by the test.]"
NO_EXCEPTION = "[No exception triggered]"
ENDLESS = (StopReason.INTERRUPTED, StopReason.KILLED)
Shown = tuple[str, bool]
"""What a `p` printed at one hit, and whether it is a value."""


def run_script(
    debugger: Debugger, script: DebuggerScript, solution: str, test: str, max_hits: int
) -> ToolReply:
    """Run to each hit of the script's breakpoints, and print the requested values there.

    `solution` is the file for breakpoints that name none. The reply's debugger record is that of
    the first stop.
    """

    def placed(point: BreakpointRequest) -> BreakpointRequest:
        return replace(point, file=point.file or solution) if point.line else point

    points = tuple(map(placed, script.breakpoints))
    started = debugger.start(Launch(test, points, stop_at_entry=False))
    notes = [f"[Note: {note}]" for note in started.notes]
    if started.stop_reason is not StopReason.BREAKPOINT:
        told = [NOT_COVERED, *notes]
        if started.stop_reason is None:
            told = [f"[{render(started)}]"]
        elif started.stop_reason in ENDLESS:
            told = [NOT_COVERED, _stopped(started)]
        return ToolReply("\n".join(told), ToolOutcome.ERROR, started, action=ACTION)
    event, hits, shown = started, 0, defaultdict[str, list[Shown]](list)
    while event.stop_reason is StopReason.BREAKPOINT and hits < max_hits:
        for command in script.at_hits[min(hits, len(script.at_hits) - 1)]:
            if isinstance(command, Print):
                text, ok = _printed(debugger, command.expression)
                line = f"(line {event.line}) " if len(script.breakpoints) > 1 else ""
                shown[command.expression].append((f"{line}{text}", ok))
            elif isinstance(command, BreakpointRequest):
                debugger.set_breakpoint(placed(command))
            else:
                debugger.control(command)
        hits += 1
        event = debugger.control(Action.CONTINUE)
    told = [*_values(shown), *notes]
    if event.stop_reason is StopReason.BREAKPOINT:
        told.append(f"[These are the first {max_hits} executions; there are more.]")
    elif event.stop_reason in ENDLESS:
        told.append(_stopped(event))
    ok = any(ok for each in shown.values() for _, ok in each)
    outcome = ToolOutcome.OK if ok else ToolOutcome.ERROR
    return ToolReply("\n".join(told), outcome, started, action=ACTION)


def _printed(debugger: Debugger, expression: str) -> Shown:
    # Evaluated as an expression `locals()` would include the module's names.
    names = expression == "locals()"
    event = debugger.locals() if names else debugger.evaluate(expression)
    if event.error_kind is not None:
        return f"*** {event.error}", False
    if names:
        values = ", ".join(f"{value.name!r}: {value.text}" for value in event.values)
        return f"{{{values}}}", True
    return "\n".join(value.text for value in event.values), True


def _values(shown: Mapping[str, Sequence[Shown]]) -> Iterator[str]:
    """By expression, as in AutoSD's paper: the value, or a list if there are several."""
    if not shown:
        yield "[The test ended before the script came to what it prints.]"
    for expression, each in shown.items():
        label = f"{expression}: " if len(shown) > 1 else ""
        # An expression that fails each time is itself wrong.
        if len(each) == 1 or not any(ok for _, ok in each):
            yield f"{label}{each[0][0]}"
        else:
            values = ", ".join(text for text, _ in each)
            yield f"{label}At each loop execution, the expression was: [{values}]"


def _stopped(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.KILLED:
        return f"[The test did not end, and was killed: {event.error}]"
    return f"[The test did not end, and was interrupted at {event.file}:{event.line}.]"


NAMED = re.compile(r"E {3}(?! )")


class ExperimentArguments(Arguments):
    script: Annotated[str, Field(description="A debugger script or an edit script.")]


@dataclass(frozen=True)
class Experiment:
    """Runs one experiment on the failing test; the program stays as it is."""

    context: RolloutContext
    test: str
    name: str = EXPERIMENT_TOOL
    description: str = "Run a debugger script, or an edit script, on the failing test."
    arguments: type[Arguments] = ExperimentArguments

    def call(self, arguments: ExperimentArguments, call_id: str) -> ToolReply:
        context, solution = self.context, self.context.instance.solution
        config = context.config.repair
        original = context.sandbox.read_file(solution).decode("utf-8", "replace")
        try:
            script = parse_experiment(arguments.script)
            if isinstance(script, DebuggerScript):
                with context.debugger() as debugger:
                    most = config.max_experiment_hits
                    done = run_script(debugger, script, solution, self.test, most)
            else:
                edited = apply_edits(original, script)
                context.sandbox.write_file(solution, edited.encode())
                done = ToolReply(self._result(), action=EDIT)
        except UnreadableExperiment as error:
            return ToolReply(f"[{error}]", ToolOutcome.INVALID)
        finally:
            context.reset(original)
        text = shortened(done.text, config.observation_lines, config.observation_chars)
        return replace(done, text=text)

    def _result(self) -> str:
        """The test's result, in one line."""
        context, test = self.context, self.test
        # An edit may cause an endless loop, so it gets the time that a session has to start.
        seconds = context.config.debugger.start_timeout
        results = run_tests(context.instance, context.sandbox, [test], seconds)
        if results.statuses[test] is TestStatus.PASSED:
            return NO_EXCEPTION
        if results.timed_out:
            return f"[The test did not end within {seconds:g} seconds and was killed.]"
        return error_line(section_of(test, results.output))


def error_line(section: str) -> str:
    """The exception in pytest's output, named by the last lines marked `E`."""
    lines = section.splitlines()
    # Lines that belong to an exception are indented below it; a SyntaxError's source is above it.
    named = [bool(NAMED.match(line)) for line in lines]
    first = [n for n, line in enumerate(lines) if named[n] and not (n and named[n - 1])]
    if first:
        return lines[first[-1]].removeprefix("E").strip()
    return lines[-1].strip() if lines else "[The test failed without a message.]"


class ScientificDebugger:
    """One conversation per round; all rounds share a budget of reasoning steps."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        return self._steps_left <= 0

    def repair(self, current: Round) -> Patch:
        """Let the Patch Coder write the patch from the debugging log."""
        context, failing = self._context, current.version.failing
        spec = AgentSpec(
            prompt("autosd/system", steps=str(self._steps_left)),
            Toolbox([Experiment(context, failing.id)]),
            max_steps=self._steps_left,
            form=ScientificForm(),
        )
        agent = context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
        task = prompt(
            "autosd/task",
            coding_task=context.instance.problem_statement,
            code=numbered(current.version.code),
            test=failing.id,
            test_source=failing.source,
            error=failing.error,
        )
        try:
            agent.run(task)
        finally:
            self._steps_left -= agent.log.steps
        # After the system prompt and the task.
        plan = debugging_log(trials_of(agent.log.sent()[2:]))
        return write_patch(context, current, plan)


SYSTEMS = (OneFileRepair(name="autosd", title="AutoSD", open_repair=ScientificDebugger),)
