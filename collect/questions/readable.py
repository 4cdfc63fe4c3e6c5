"""Which answers can be read off the source without running the program.

A value is dropped if

1. anybody would guess it: None, True, False, -1, 0, 1, 2, an empty text or container, unless the
   expression had other values at other stops of the same line, so that the visit decides;
2. it is a literal, in any notation, in the function in question, in one of its defaults, at module
   or class level, in the function of the test, or in the fixtures and constants next to it (an
   argument that the test passes on, the expected result of an assertion). None, True and False
   occur in most functions: at a later visit they are kept if they vary;
3. it is a function, a class or a module, since its name gives it away.

Reachability is dropped if the line is reached and no branch decides that, and a count if it is one.
Per bug, plain yes answers exceed noes by at most one. A root cause is dropped if the whole run has
at most two statements of the program to choose from. An exception in a named function is dropped if
that function holds one `raise`, and nothing else in it raised. Other exceptions and all assertions
depend on the run: the source does not say which of them occurs, or what an assertion saw.
"""

from __future__ import annotations

from collect.question_records import ExceptionAsk, ExceptionTruth, ReachAsk, ValueAsk, ValueTruth
from collect.questions.comparing import Name, parse_value, same
from collect.questions.program import Program
from collect.questions.tracing import Trace

GUESSED = ("None", "True", "False", "-1", "0", "1", "2", "''", "b''", "[]", "()", "{}", "set()")
CODE_TYPES = ("function", "method", "builtin_function_or_method", "type", "module", "ABCMeta")
FEW_STATEMENTS = 2


def value_is_readable(
    ask: ValueAsk, truth: ValueTruth, varies: bool, program: Program, test: str
) -> bool:
    """Whether a value needs no run. `varies`: whether it had other values at other stops there."""
    value = parse_value(truth.text)
    if truth.type in CODE_TYPES or isinstance(value, Name):
        return True
    if not varies and any(same(value, parse_value(guess)) for guess in GUESSED):
        return True
    if varies and ask.hit > 1 and isinstance(value, bool | None):
        return False
    written = program.written_out(ask.place.file, ask.place.function, test)
    return any(same(value, literal) for literal in written)


def reach_is_readable(ask: ReachAsk, trace: Trace, program: Program) -> bool:
    """Whether the line is reached without any branch deciding it, or the count is one."""
    module = program.module(ask.place.file)
    statement = module.at(ask.place.line) if module is not None else None
    if module is None or statement is None:
        return True
    hits = trace.hits[ask.place.file, ask.place.line]
    guessed = ask.count and hits == 1
    return guessed or (hits > 0 and not statement.conditional)


def exception_is_readable(ask: ExceptionAsk, truth: ExceptionTruth, program: Program) -> bool:
    """Whether the named function has a single raising statement, and that one raised."""
    module = program.module(truth.origin.file)
    raising = module.raising_lines(ask.function) if module is not None and ask.function else []
    return raising == [truth.origin.line]


def root_cause_is_readable(trace: Trace) -> bool:
    """Whether there are too few statements to choose from."""
    return len({stop.statement.place for stop in trace.stops}) <= FEW_STATEMENTS
