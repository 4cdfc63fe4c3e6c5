"""Phrases for the oracle's messages and answers, several of each.

The first of each is the plainest and says how far the search has come: direct sessions use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from collect.oracle.scripted import ExplorationPolicy

START = (
    "I stop at {place}{aim}.",
    "I start the test under the debugger with a breakpoint at {place}.",
    "The question is about {place}; I stop there.",
    "Breakpoint at {place}, then run.",
    "Let me run the test and stop at {place}.",
)
GUESS = (
    "I expect to see it at {place}, and stop there first.",
    "My first guess is {place}.",
    "It should show at {place}; breakpoint there.",
)
START_AT_TEST = (
    "I start at the test itself, to see how the code is called.",
    "First I stop where the test begins.",
    "I start a session on the failing test.",
)
RUN_THROUGH = (
    "I run the test until it fails.",
    "I run the test, to see how it ends.",
    "The test fails somewhere; I let it run there.",
)
NOT_YET = (
    "This is {here}, not {place} yet; I continue.",
    "Stopped at {here}. I go on to {place}.",
    "Not there yet. Continue.",
)
NEXT_VISIT = (
    "This is visit {seen} of {wanted}. I continue to the next.",
    "That was visit {seen}; I need number {wanted}.",
    "Visit {seen} of {wanted}. I continue to the next.",
    "The line is reached again later; I need hit {wanted}, this is {seen}.",
)
LOOK = (
    "This is visit {wanted} of {wanted}. I read `{expression}`.",
    "This is the place. What is `{expression}`?",
    "Visit {wanted}, now I look at `{expression}`.",
    "I read `{expression}` here.",
    "Here I can see `{expression}`.",
)
ALL_LOCALS = (
    "This is the place. I look at all local variables.",
    "Let me see the whole frame.",
    "Which values does the frame hold?",
)
WRONG_PLACE = (
    "That was a wrong guess: {here} is not the line in question. I set a breakpoint at {place}.",
    "This is not where I want to be. The line I need is {place}.",
    "I stopped in the wrong place ({here}); the question is about {place}.",
)
OVER = (
    "I let the line run.",
    "Step over it, then look again.",
    "Now I execute this line.",
)
COUNT_ON = (
    "That was visit {count}. I continue, to see whether there is another.",
    "Visit {count}. On to the next.",
    "I count on.",
    "Again?",
)
RUN_ON = (
    "I let the test run to its end.",
    "Continue, to see how the test ends.",
    "Does the program get anywhere else? I continue.",
)

VALUE_ANSWERS = (
    "`{expression}` is {text} {when}.",
    "At {place}, {when}, the value of `{expression}` is {text}.",
    "`{expression}` = {text}, seen {when} at {place}.",
    "{When}, `{expression}` holds {text}.",
    "The debugger shows `{expression}` = {text} {when}.",
)
EXCEPTION_ANSWERS = (
    "{type} is raised at {place}, in {function}{message}.",
    "The exception is {type}; it originates at {place} in `{function}`{message}.",
    "`{type}`, raised by {function} at {place}{message}.",
    "It is a {type}{message}. The line that raises it is {place}, in {function}.",
)
NO_EXCEPTION = "No exception is raised inside the program."
ASSERTION_ANSWERS = (
    "The assertion at {place} fails: the actual value is {actual}, expected is {expected}.",
    "{place} is the failing assert. Actual: {actual}. Expected: {expected}.",
    "At {place} the code gives {actual} instead of {expected}.",
    "The test fails at {place}: expected {expected}, but got {actual}.",
)
TRUTH_ANSWERS = (
    "The assertion at {place} fails: its expression is {actual}.",
    "{place} fails, because the checked expression gives {actual}.",
)
REACHED = (
    "Yes, {place} is reached{times}.",
    "Yes. The debugger stopped at {place}{times}.",
    "Yes, line {line} is executed{times}.",
    "Line {line} of {file} is reached{times}: yes.",
)
NOT_REACHED = (
    "No, {place} is never reached{times}.",
    "No. The test ran to its end without a stop at {place}{times}.",
    "No, line {line} is not executed in this run{times}.",
)
ROOT_CAUSE = (
    "The state first goes wrong in {function} at {place}, in `{source}`{values}.",
    "The statement to blame is `{source}` at {place}, in {function}{values}.",
    "{function} produces the wrong value at {place}: `{source}`{values}.",
    "The root cause is {place}, in {function}: `{source}`{values}.",
)
PASSES = (
    "Yes, the test passes now.",
    "The test passes with this change.",
    "Yes, it ran through: the test passes.",
)
FAILS = (
    "No, the test still fails.",
    "The test does not pass yet.",
    "No, the test fails.",
)
UNKNOWN = "I could not establish this in the debugger."


def pick(habits: ExplorationPolicy, phrases: Sequence[str], **values: object) -> str:
    """One of several phrases, filled in."""
    return (phrases[0] if habits.direct else habits.rng.choice(phrases)).format(**values)


def visits(count: int) -> str:
    """`once`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
