"""Writes a chosen question: its wording, hints and record."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from functools import cached_property

from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines, changed_paths, reverse_patch
from collect.question_records import (
    Ask,
    AssertionAsk,
    Category,
    Difficulty,
    ExceptionAsk,
    Hints,
    Location,
    PostFixAsk,
    Question,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)
from collect.questions.comparing import is_comparable
from collect.questions.program import Program
from collect.questions.tracing import Stop, Trace
from collect.questions.truths import Finding

# How a main agent would word a question: several ways per category, chosen by seed.


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

FIRST_VISIT = (
    "What is the value of `{expression}` when execution first reaches {place}, in `{function}`?",
    "I need the value of `{expression}` at {place} ({function}), just before that line first runs.",
    "When `{source}` at {place} is about to run for the first time, what does `{expression}` hold?",
    "Stop at {place} and tell me what `{expression}` is there, at the first visit.",
    "Which value does `{expression}` have on the way into line {line} of {file}, in {function}, "
    "the first time this test gets there?",
)
LATER_VISIT = (
    "What is `{expression}` the {ordinal} time execution reaches {place}, in `{function}`?",
    "Line {line} of {file} runs more than once in this test. What does `{expression}` hold just "
    "before its {ordinal} run?",
    "At the {ordinal} hit of {place} (`{source}`), what is the value of `{expression}`?",
    "I want to see `{expression}` in {function} at {place}, on visit number {hit}, before the line "
    "runs.",
)
AFTER = (
    "What does `{expression}` hold right after {place} (`{source}`) has run {visit}?",
    "Which value does line {line} of {file}, in `{function}`, give `{expression}` {visit}?",
    "Step over `{source}` at {place} {visit}: what is `{expression}` then?",
    "After {place} has been executed {visit}, what is the value of `{expression}`?",
)
ENDING_EXCEPTION = (
    "Which exception ends this test, and which line raises it?",
    "The test does not fail at an assertion. What exception is thrown, and where in the code does "
    "it originate (file and line)?",
    "Identify the exception that this test dies of: its type, and the file, line and function that "
    "it comes from.",
    "What is raised here, and at which statement? I need the innermost place in our own code.",
    "Where does the exception of this failing test come from, and of what type is it?",
)
FIRST_EXCEPTION = (
    "Does our own code raise an exception on the way, handled or not? Tell me the type of the "
    "first one and the line that raises it.",
    "Which exception does the program (not the test) raise first while this test runs, and where?",
    "I suspect that something is raised and swallowed. What is the first exception raised inside "
    "the program during this test, and at which file and line?",
)
FUNCTION_EXCEPTION = (
    "Which exception is raised in `{function}` during this test, and at which line?",
    "`{function}` seems to fail at some point of this test, perhaps unnoticed. What does it raise "
    "first, and where exactly?",
    "Stop at the first exception that is raised in `{function}`: what type is it, and which "
    "statement raises it?",
)
ASSERTION = (
    "Which assertion of this test fails, and what are the actual and the expected value?",
    "At which line does the assertion fail, and what did the code give in place of what was "
    "expected?",
    "Tell me the failing assert (file and line), the actual value, and the expected value.",
    "What exactly is compared when this test fails: where, which actual value, which expected one?",
)
TRUTH_ASSERTION = (
    "Which assertion of this test fails, and what is the value of the expression that it checks?",
    "At which line does the assertion fail, and what did the checked expression come to?",
)
REACH = (
    "Does execution reach {place} (`{source}`) during this test?",
    "Is line {line} of {file}, in `{function}`, executed when this test runs?",
    "I want to know whether this test ever gets to `{source}` at {place}. Does it?",
    "Is the branch at {place} in {function} taken in this run?",
    "Is {place} ever hit by this test?",
)
COUNT = (
    "How many times does execution reach {place} (`{source}`) during this test, if at all?",
    "How often is line {line} of {file}, in `{function}`, executed when this test runs?",
    "Count the visits to {place} in {function} during this test. Is it reached, and how often?",
)
ROOT_CAUSE = (
    "What is the root cause of this failure: which line of which function first produces a wrong "
    "value?",
    "Where does the value that makes this test fail first go wrong? Give the file, the line and "
    "the function.",
    "Follow the wrong result of this test back to the statement that produces it. Which one is it?",
    "This test fails. Which statement in the program (file and line) is to blame, and what are the "
    "values there?",
    "Find the function and the line where the state first becomes wrong while this test runs.",
)
POST_FIX = (
    "I have changed {changed}. Does the test pass now, and what is `{expression}` at {place} "
    "{visit}?",
    "After my edit of {changed}, verify the fix: does this test pass, and what value does "
    "`{expression}` have at {place}, {visit}?",
    "Check my change to {changed}: is the test fixed, and what does `{expression}` hold {visit} "
    "that execution comes to {place}?",
    "Please confirm that {changed} is right now. Does the test go through, and what do you see for "
    "`{expression}` at {place} ({visit})?",
)
AFTER_EDIT = (
    "I have changed {changed}, and the test still fails. ",
    "After my edit of {changed} the test fails again. ",
    "With {changed} changed, this test does not pass. ",
)


def ordinal(hit: int) -> str:
    """`third`; `11th`."""
    return ORDINALS[hit - 1] if hit <= len(ORDINALS) else f"{hit}th"


def word(
    ask: Ask, rng: random.Random, *, source: str = "", compares: bool = True, changed: str = ""
) -> str:
    """The question's text. `source` is the line at the place, `changed` what was edited."""
    match ask:
        case ValueAsk():
            text = _value(ask, rng, source)
        case ExceptionAsk():
            text = _exception(ask, rng)
        case AssertionAsk():
            text = rng.choice(ASSERTION if compares else TRUTH_ASSERTION)
        case ReachAsk():
            text = rng.choice(COUNT if ask.count else REACH).format(**_place(ask.place, source))
        case RootCauseAsk():
            text = rng.choice(ROOT_CAUSE)
        case PostFixAsk():
            return _post_fix(ask, rng, changed)
    return rng.choice(AFTER_EDIT).format(changed=changed) + text if changed else text


def hints(ask: Ask, rng: random.Random) -> Hints:
    """What the main agent gives besides the question: sometimes everything, sometimes less."""
    value = ask.value if isinstance(ask, PostFixAsk) else ask
    variables: tuple[str, ...] = ()
    if isinstance(value, ValueAsk):
        place, variables = value.place, (value.expression,)
    elif isinstance(value, ReachAsk):
        place = value.place
    else:
        return Hints()
    lines = (place.line,) if rng.random() < 0.6 else ()
    given = rng.random() < 0.8
    return Hints(
        path=place.file if given else None,
        lines=lines if given else (),
        variables=variables if rng.random() < 0.5 else (),
    )


def _exception(ask: ExceptionAsk, rng: random.Random) -> str:
    if ask.function:
        return rng.choice(FUNCTION_EXCEPTION).format(function=ask.function)
    return rng.choice(ENDING_EXCEPTION if ask.ends_test else FIRST_EXCEPTION)


def _value(ask: ValueAsk, rng: random.Random, source: str) -> str:
    values = {**_place(ask.place, source), "expression": ask.expression, "hit": str(ask.hit)}
    values |= {"ordinal": ordinal(ask.hit), "visit": f"for the {ordinal(ask.hit)} time"}
    if ask.after:
        return rng.choice(AFTER).format(**values)
    return rng.choice(FIRST_VISIT if ask.hit == 1 else LATER_VISIT).format(**values)


def _post_fix(ask: PostFixAsk, rng: random.Random, changed: str) -> str:
    value = ask.value
    return rng.choice(POST_FIX).format(
        changed=changed,
        expression=value.expression,
        place=str(value.place),
        visit=f"the {ordinal(value.hit)} time",
    )


def _place(place: Location, source: str) -> dict[str, str]:
    return {
        "place": str(place),
        "file": place.file,
        "line": str(place.line),
        "function": place.function,
        "source": source,
    }


@dataclass(frozen=True)
class Runs:
    """Two runs of one test, in fresh sandboxes."""

    test: str
    program: Program
    first: Trace
    second: Trace
    patch: str = ""
    """The change made in the workspace before both runs."""

    @cached_property
    def unsteady(self) -> frozenset[tuple[str, str]]:
        """The files and functions in which the runs differ in any value or visit.

        If the order of a set decides (by addresses), two runs agree on single values only by
        chance.
        """
        pairs = ((self.first, self.second), (self.second, self.first))
        return frozenset(
            (stop.statement.place.file, stop.statement.place.function)
            for one, other in pairs
            for stop in one.stops
            if not _is_alike(stop, other)
        )


def _is_alike(stop: Stop, other: Trace) -> bool:
    position = other.position(stop.statement.place, stop.hit)
    if position is None:
        return False
    again = other.stops[position].locals
    return all(
        value.text == again[name].text
        or not (is_comparable(value.text) and is_comparable(again[name].text))
        for name, value in stop.locals.items()
        if name in again
    )


@dataclass(frozen=True)
class Kept:
    """A candidate that has passed the rules."""

    category: Category
    ask: Ask
    finding: Finding
    runs: Runs


def write(instance: Instance, seed: int, kept: Kept) -> Question:
    runs, ask = kept.runs, kept.ask
    facts = [instance.benchmark, instance.id, runs.test, runs.patch, ask.model_dump_json()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:10]
    rng = random.Random(f"{seed}\0{digest}")
    text = word(
        ask,
        rng,
        source=_source(ask, runs.program),
        compares=getattr(kept.finding.truth, "expected", True) is not None,
        changed=_changed(runs),
    )
    return Question(
        id=f"{instance.id}.{kept.category}.{digest}",
        benchmark=instance.benchmark,
        instance_id=instance.id,
        instance_hash=instance.hash,
        repository=instance.repository,
        language=instance.language,
        category=kept.category,
        question=text,
        test=runs.test,
        hints=hints(ask, rng),
        patch=runs.patch,
        ask=ask,
        truth=kept.finding.truth,
        evidence=kept.finding.seen,
        difficulty=_difficulty(kept),
    )


def _source(ask: Ask, program: Program) -> str:
    """The source line in question."""
    place = getattr(ask.value if isinstance(ask, PostFixAsk) else ask, "place", None)
    module = program.module(place.file) if place is not None else None
    return module.lines[place.line - 1].strip() if place is not None and module is not None else ""


def _changed(runs: Runs) -> str:
    """What a patch changed, as `Cart.total in shop/cart.py`."""
    for path in sorted(changed_paths(runs.patch)) if runs.patch else ():
        module = runs.program.modules.get(path)
        if module is None:
            continue
        lines = [
            each.start for each in changed_lines(reverse_patch(runs.patch)) if each.path == path
        ]
        statements = [module.at(line) for line in lines]
        names = [each.place.function for each in statements if each is not None]
        return f"`{names[0]}` in {path}" if names else path
    return ""


def _difficulty(kept: Kept) -> Difficulty:
    seen = kept.finding.seen[0]
    return Difficulty(
        hit=max(seen.hit, 1),
        depth=seen.depth,
        stops=sum(kept.runs.first.hits.values()),
        in_test=kept.runs.program.tests.get(seen.place.rpartition(":")[0]) is not None,
    )
