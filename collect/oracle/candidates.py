"""The oracle where it edits: as Patch Coder, and as main agent.

It may not use the gold patch directly. It gets candidates in random order and takes the one that
the subagent's answer points at. If the answer points at none, it chooses at random. Its systems
differ in what they know when they choose.
"""

from __future__ import annotations

import random
import re
import shlex
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from enum import StrEnum, auto
from functools import partial

from collect.agents.subagent_task import parse_answer
from collect.agents.systems import SYSTEMS
from collect.benchmarks.base import Instance
from collect.code.patches import (
    ChangedRange,
    Edit,
    PatchError,
    apply_patch,
    diff_trees,
    hunk_edits,
    outside,
)
from collect.code.source import changed_code, place_of, read_source
from collect.errors import ModelFailure
from collect.oracle.scripted import PHRASES, Turns, say
from collect.questions import claims
from collect.store.messages import Message
from sandbox.debugger import Action, BreakpointRequest, Debugger, Launch
from sandbox.java.project import GRADLE_FILES

NEARBY = 5
"""Lines by which an answer may miss a candidate and still point at it."""
FENCED = re.compile(r"^```python\n((?:(?!```).*\n)*+)```$", re.MULTILINE)
NUMBER = re.compile(r"^ *\d+  ?", re.MULTILINE)
SUFFIXES = {"python": ".py", "java": ".java"}
NOT_YET = "Don't write a repaired program yet"
THOUGHT = "I can't tell from reading alone which of the lines that I suspect is the wrong one."

# What a failing test does at the lines of possible patches, measured once in the debugger.
TIMEOUT = 60.0
"""Seconds for one run of the test; what it had not reached by then counts as not reached."""


@dataclass(frozen=True)
class Line:
    """A line that may run, with an expression that is true where a change of it matters."""

    path: str
    number: int
    differs: str = ""

    @property
    def place(self) -> tuple[str, int]:
        return self.path, self.number


class Kind(StrEnum):
    """What the test does at a line, the best suspects first."""

    CHANGES = auto()
    """It comes there while the original and the changed statement compute different values."""
    REACHED = auto()
    """It comes there."""
    ELSEWHERE = auto()


@dataclass
class Reached:
    """What one run of a failing test has reached."""

    order: dict[tuple[str, int], int] = field(default_factory=dict)
    """Files and lines, with their place in the order in which they were first reached."""
    changing: set[Line] = field(default_factory=set)
    """Lines that were reached while their expression was true."""

    def kind(self, line: Line) -> Kind:
        if line in self.changing:
            return Kind.CHANGES
        return Kind.REACHED if line.place in self.order else Kind.ELSEWHERE


def watch(debugger: Debugger, test: str, lines: Iterable[Line]) -> Reached:
    """Run the test and stop at each line once when it is reached, and once when its expression is
    true. Nothing is reached if the test can't be debugged."""
    found = Reached()
    wanted = set(lines)
    points = dict.fromkeys(
        BreakpointRequest(
            file=line.path, line=line.number, condition=condition or None, temporary=True
        )
        for line in sorted(wanted, key=astuple)
        for condition in ("", line.differs)
    )
    deadline = time.monotonic() + TIMEOUT
    event = debugger.start(Launch(test, tuple(points), stop_at_entry=False))
    while event.stops_program and event.hit and time.monotonic() < deadline:
        found.order.setdefault((event.file or "", event.line or 0), len(found.order))
        for point in event.hit:
            line = Line(point.file, point.line, point.condition or "")
            # A condition that can't be evaluated stops, too.
            if line in wanted and point.condition:
                values = debugger.evaluate(point.condition).values
                found.changing |= {line for value in values if value.text.lower() == "true"}
        left = max(deadline - time.monotonic(), 0.1)
        event = debugger.control(Action.CONTINUE, timeout=left)
    return found


@dataclass(frozen=True)
class Candidate:
    """A patch and its place."""

    ranges: tuple[ChangedRange, ...]
    edits: tuple[Edit, ...]
    line: Line
    """Of the first statement where the debugger can stop."""
    function: str
    """Qualified name; empty at module level."""
    kind: Kind | None = None
    """What the failing test does there; None for the right patch."""

    @property
    def place(self) -> str:
        return f"{self.line.path}:{self.line.number}"


Watch = Callable[[Iterable[Line]], Reached]
"""Runs a failing test and tells which of the lines it reaches."""


def make_candidates(
    instance: Instance,
    count: int,
    rng: random.Random,
    watch: Watch = lambda lines: Reached(),
) -> list[Candidate]:
    """The gold patch and up to `count - 1` wrong ones, in random order.

    Wrong patches that change a value in the failing test come before those of lines that it only
    reaches, and these before all others. A random number of them is reached before the place of the
    gold patch, all as near to it as possible, and in other functions if there are enough: so the
    order in which a test reaches the candidates does not tell which is right.
    """
    gold = gold_candidate(instance)
    changes = list(_wrong_changes(instance, gold))
    rng.shuffle(changes)
    reached = watch([gold.line, *(change.line for change in changes)])
    at = reached.order.get(gold.line.place, rng.randrange(len(reached.order) + 1))
    earlier = rng.randrange(count)

    def steps(change: _Change) -> int:
        return reached.order.get(change.line.place, at) - at

    wrong: list[_Change] = []
    for kind in Kind:
        found = [change for change in changes if reached.kind(change.line) is kind]
        found.sort(key=lambda change: abs(steps(change)))
        before = [change for change in found if steps(change) <= 0]
        after = [change for change in found if steps(change) > 0]
        for pool, limit in ((before, earlier), (after, count - 1), (before, count - 1)):
            _take(wrong, pool, limit, gold)
    kinds = [reached.kind(change.line) for change in wrong]
    chosen = [gold, *map(partial(_wrong_candidate, instance), wrong, kinds)]
    rng.shuffle(chosen)
    return chosen


def _take(wrong: list[_Change], pool: Sequence[_Change], limit: int, gold: Candidate) -> None:
    """Add changes of a pool up to this number, those in other functions than the others first."""
    functions = {(gold.line.path, gold.function), *(each.where for each in wrong)}
    for repeated in (False, True):
        for change in pool:
            apart = all(change.line.place != other.line.place for other in wrong)
            if len(wrong) < limit and apart and (repeated or change.where not in functions):
                wrong.append(change)
                functions.add(change.where)


def gold_candidate(instance: Instance) -> Candidate:
    """The gold patch as a candidate. Raises ModelFailure if the oracle's tools can't apply it."""
    try:
        ranges = tuple(changed_code(instance.files, instance.gold_patch))
        if not ranges:
            raise PatchError("it changes no line that is there, so nothing stops at it")
        edits = tuple(hunk_edits(instance.files, instance.gold_patch))
    except PatchError as error:
        raise ModelFailure(
            f"the oracle can't make the gold patch of {instance.id}: {error}; take another model "
            "for this bug, or leave it out"
        ) from error
    place = place_of(instance.files, ranges)
    return Candidate(ranges, edits, Line(place.path, place.line), place.function)


def choose(answer: str, candidates: list[Candidate], rng: random.Random) -> Candidate:
    """The candidate nearest to the place in an answer, or a random one if it names none."""
    parsed = parse_answer(answer)
    texts = [parsed.location, f"{parsed.answer}\n{parsed.evidence}"] if parsed else [answer]
    for text in texts:
        for path, line, _ in claims.places(text):
            near = [(_distance(c, path, line), i) for i, c in enumerate(candidates)]
            distance, index = min(near)
            if distance <= NEARBY:
                return candidates[index]
    return rng.choice(candidates)


def places_in(text: str) -> list[str]:
    """The places that a text names, as `file:line`."""
    return list(dict.fromkeys(f"{path}:{line}" for path, line, _ in claims.places(text)))


def _distance(candidate: Candidate, path: str, line: int) -> float:
    """In lines, from its changed lines or its place, which may be far below: the place of a changed
    default value is the function's first statement.
    """
    own = ChangedRange(candidate.line.path, candidate.line.number, candidate.line.number)
    distances = [
        max(changed.start - line, line - changed.end, 0)
        for changed in (*candidate.ranges, own)
        if changed.path == path or changed.path.endswith(f"/{path}") or path.endswith(changed.path)
    ]
    return min(distances, default=float("inf"))


@dataclass(frozen=True)
class _Change:
    """A possible wrong candidate. A large project has thousands, and a diff takes time, so the diff
    is made later."""

    line: Line
    function: str
    text: str
    """The whole changed file."""

    @property
    def where(self) -> tuple[str, str]:
        return self.line.path, self.function


def _wrong_changes(instance: Instance, gold: Candidate) -> Iterator[_Change]:
    for path, data in sorted(outside(instance.files, instance.test_paths).items()):
        if not path.endswith(SUFFIXES[instance.language]):
            continue
        source = read_source(path, data)
        for function in source.functions:
            for mutation in source.mutations(function):
                line = Line(path, mutation.line, mutation.differs)
                fixed = (each for each in gold.ranges if each.path == path)
                if line.place != gold.line.place and not any(
                    each.start <= line.number <= each.end for each in fixed
                ):
                    yield _Change(line, function.name, mutation.text)


def _wrong_candidate(instance: Instance, change: _Change, kind: Kind) -> Candidate:
    path, number = change.line.place
    patch = diff_trees({path: instance.files[path]}, {path: change.text.encode()})
    edits = tuple(hunk_edits(instance.files, patch))
    ranges = (ChangedRange(path, number, number),)
    return Candidate(ranges, edits, Line(path, number), change.function, kind)


def numbered_code(task: str) -> str:
    """The program in an Inspector's task, without its line numbers."""
    # A coding task may itself contain code blocks.
    found = FENCED.search(task.rpartition("## Buggy Code\n")[2])
    return NUMBER.sub("", found[1]) if found else ""


def newest_code(task: str) -> str:
    """The program in a Patch Coder's task: the last block, since versions come in order."""
    blocks = FENCED.findall(task)
    return str(blocks[-1]) if blocks else ""


def as_it_is(instance: Instance, code: str) -> Instance:
    """The bug with this version of its program, and a gold patch for that version.

    Raises ModelFailure if no correct program is known.
    """
    if not instance.gold_patch:
        raise ModelFailure(
            f"{instance.id} comes without a correct program, and the oracle knows no other; take "
            "a model instead, or bugs that have one"
        )
    correct = apply_patch(instance.files, instance.gold_patch)
    files = {**instance.files, instance.solution: code.encode()}
    patch = diff_trees(files, correct)
    if not patch:
        raise ModelFailure(
            f"{instance.id} still fails with its correct program, and the oracle knows no other"
        )
    return replace(instance, files=files, gold_patch=patch)


def program(instance: Instance) -> str:
    return instance.files[instance.solution].decode("utf-8", "replace")


def correct_program(instance: Instance) -> str:
    """The program after the gold patch."""
    return program(replace(instance, files=apply_patch(instance.files, instance.gold_patch)))


@dataclass(frozen=True)
class Patching:
    """The candidate patches of one bug, and how to choose one."""

    instance: Instance
    count: int
    """Number of candidates, including the correct one."""
    rng: random.Random

    def choose(self, now: Instance, hint: str) -> Candidate:
        return choose(hint, make_candidates(now, self.count, self.rng), self.rng)

    def reply(self, code: str, hint: str) -> str:
        """A reply with this version of the program, patched with the chosen candidate."""
        chosen = self.choose(as_it_is(self.instance, code), hint)
        for edit in chosen.edits:
            code = code.replace(edit.old, edit.new, 1)
        return f"I change {chosen.place}.\n\n```python\n{code.rstrip()}\n```"


class OraclePatchCoder:
    """Chooses from the correct patch and wrong ones, by the given plan or at random: it can write
    patches, but must be told which is right.
    """

    def __init__(self, patching: Patching) -> None:
        self._patching = patching
        self._reply = ""

    def turns(self, task: str) -> Turns:
        """The whole patched program; a message without a program gets a comment on the last one."""
        said = task
        while True:
            code = newest_code(said)
            if code:
                plan = said.rpartition("### Repair Plan")[2]
                self._reply = self._patching.reply(code, plan)
            said = "".join((yield say(THOUGHT if NOT_YET in said else self._reply)))

    def last_word(self) -> str:
        return self._reply


ASSERTIONS = {"AssertionError", "AssertionFailedError", "ComparisonFailure"}
RAISED = r"([A-Z]\w*(?:Error|Exception))\b"


@dataclass(frozen=True)
class TestRuns:
    """Test commands and output formats for one kind of project."""

    __test__ = False

    every: str
    one: str
    """`{test}` is its name, `{dotted}` the same with a dot before the method."""
    failed: re.Pattern[str]
    """Finds the name of a failed test: the full name or only its method."""
    report: re.Pattern[str]
    """Finds where the report of a failed test begins, and the test's name in it."""
    raised: re.Pattern[str]
    """In a report, finds the class of the exception that ended the test."""
    shown: str = "2>&1 | tail -{lines}"

    def run_one(self, test: str) -> str:
        dotted = test.replace("#", ".")
        command = self.one.format(test=shlex.quote(test), dotted=shlex.quote(dotted))
        return f"{command} {self.shown.format(lines=15)}"

    def failing(self, output: str, tests: Sequence[str]) -> str:
        """The first of `tests` that is said to have failed, else the first of all."""
        known = {test.rpartition("#")[2]: test for test in tests}
        named = (known[name] for name in self.failed.findall(output) if name in known)
        return next(named, tests[0])

    def exception(self, output: str, test: str) -> str | None:
        """The exception that ended a test, by its own report; None for an assertion, or if there is
        no such report.
        """
        path, _, name = test.partition("::")
        name = name.replace("::", ".") or test.rpartition("#")[2]
        starts = [*self.report.finditer(output)]
        ends = [*(each.start() for each in starts[1:]), len(output)]
        for start, end in zip(starts, ends, strict=False):
            report = output[start.start() : end]
            if start[1] == name and (path == test or path in report):
                raised = self.raised.search(report)
                return raised[1] if raised and raised[1] not in ASSERTIONS else None
        return None


_PYTEST = "timeout 60 python -m pytest -q --no-header -p no:cacheprovider"
PYTEST = TestRuns(
    every=_PYTEST,
    one=f"{_PYTEST} {{test}}",
    failed=re.compile(r"^(?:FAILED|ERROR) ([^\s[]+::[^\s[]+(?:\[.*?\](?= - |$))?)", re.MULTILINE),
    report=re.compile(r"^_+ (?:ERROR at \w+ of )?([A-Za-z].*?) _+$", re.MULTILINE),
    raised=re.compile(rf"^E\s+{RAISED}", re.MULTILINE),
)
_MAVEN_FAILED = re.compile(
    r"^\[ERROR\] ++(?:[\w$]*+\.)*+(\w++)\S*+  Time elapsed.*<<< (?:FAILURE|ERROR)", re.MULTILINE
)
MAVEN = TestRuns(
    every="timeout 110 mvn -q test",
    one="timeout 110 mvn -q test -DfailIfNoTests=false -Dtest={test}",
    failed=_MAVEN_FAILED,
    report=_MAVEN_FAILED,
    raised=re.compile(rf"^(?:[\w$]+\.)*{RAISED}", re.MULTILINE),
)
_GRADLE_FAILED = re.compile(r"^.+ > (\w++)\S*+ FAILED", re.MULTILINE)
GRADLE = TestRuns(
    every="timeout 110 gradle test",
    one="timeout 110 gradle test --tests {dotted}",
    failed=_GRADLE_FAILED,
    report=_GRADLE_FAILED,
    raised=re.compile(rf"^ +(?:[\w$]+\.)*{RAISED} at \S+\.java:\d+$", re.MULTILINE),
    shown=r"2>&1 | grep -v '^\s*at \|^WARNING' | tail -{lines}",
)
_JAVAC = "mkdir -p /tmp/classes && javac -nowarn -d /tmp/classes $(find . -name '*.java')"
MAIN_CLASS = TestRuns(
    every=_JAVAC,
    one=f"{_JAVAC} && timeout 60 java -ea -cp /tmp/classes {{test}}",
    failed=re.compile(r"(?!)"),
    report=re.compile(r"(?!)"),
    raised=re.compile(rf"^Exception in thread \S+ (?:[\w$]+\.)*{RAISED}", re.MULTILINE),
)


def test_runs(instance: Instance) -> TestRuns:
    """The commands for the instance's project, by its build file."""
    if instance.language == "python":
        return PYTEST
    if "pom.xml" in instance.files:
        return MAVEN
    return GRADLE if instance.files.keys() & set(GRADLE_FILES) else MAIN_CLASS


class OracleMain:
    """One attempt at one bug. It chooses one candidate and keeps it."""

    def __init__(
        self,
        instance: Instance,
        variant: str,
        rng: random.Random,
        candidates: Callable[[str], list[Candidate]],
    ) -> None:
        """`candidates` gives those for a failing test."""
        self._system = SYSTEMS[variant]
        self._tests = instance.fail_to_pass
        self._runs = test_runs(instance)
        self._make_candidates = candidates
        self._candidates: list[Candidate] = []
        self._rng = rng

    def turns(self, task: str) -> Turns:
        """Reproduce, ask, choose, edit, check, stop."""
        command = f"{self._runs.every} {self._runs.shown.format(lines=60)}"
        (output,) = yield say("I reproduce the problem first.", ("bash", {"command": command}))
        test = self._runs.failing(output, self._tests)
        self._candidates = self._make_candidates(test)
        chosen = yield from self._decide(test, output)
        edits = [
            ("edit_file", {"path": e.path, "old_string": e.old, "new_string": e.new})
            for e in chosen.edits
        ]
        yield say(f"I change {chosen.place}.", *edits)
        again = {"command": self._runs.run_one(test)}
        yield say("I run the failing test again.", ("bash", again))
        yield say(self.last_word())

    def last_word(self) -> str:
        return "I changed the code where the wrong value came from."

    def _decide(self, test: str, output: str) -> Generator[Message, list[str], Candidate]:
        """Ask the subagent, or stop at the suspects with the debug tools and take the first that is
        reached, or choose at random.
        """
        if self._system.subagent is not None:
            raised = self._runs.exception(output, test)
            question = self._rng.choice(PHRASES["main_exception" if raised else "main_root_cause"])
            suspects = [f"{c.place} ({c.function or 'module level'})" for c in self._candidates]
            told = f"I suspect one of these places: {', '.join(suspects)}."
            question = f"{question.format(exception=raised)} {told}"
            seen = yield say(
                "I ask the debugger where this goes wrong before I change anything.",
                ("debug_subagent", {"question": question, "test": test}),
            )
        elif self._system.main_debugs:
            places = [candidate.place for candidate in self._candidates]
            arguments = {"test": test, "breakpoints": places, "stop_at_test": False}
            start = ("debug_start_session", arguments)
            seen = yield say("I run the test under the debugger.", start)
            yield say("I look at the values here.", ("debug_inspect", {"what": "locals"}))
            yield say("I have seen enough.", ("debug_control", {"action": "terminate"}))
        else:
            return self._rng.choice(self._candidates)
        return choose(seen[0], self._candidates, self._rng)
