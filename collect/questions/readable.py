"""Which answers can be read off the source, so that no program need run to give them.

The rule. A value is dropped where

1. anybody would guess it: None, True, False, -1, 0, 1, 2, an empty text or container, unless the
   expression had other values at other stops of the same line, so that the asked visit decides;
2. it stands verbatim as a literal, however written, in the function that is asked about, in one of
   its defaults, at the module's or the class's own level, in the function of the test that runs,
   in the fixtures and the constants beside it (an argument that the test passes on, the expected
   result of an assertion);
   None, True and False do stand in most functions: at a later visit they are kept where they vary.
3. it is a function, a class or a module, which its name gives away.

A line's reachability is dropped where it is reached and no branch decides that, and a count where
it is once. There are no more plain yes than noes about one bug, but for one. A root cause is
dropped where the whole run has no more than two statements of the program to choose from. An
exception raised in a function that is named is dropped where that function holds one `raise`, and
nothing else in it has raised. Other exceptions, and assertions, depend on the run whatever the
source says: no line of it tells which of them comes about, and what an assertion saw.
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
    """Whether a value needs no run. `varies`: whether it had others at other stops there."""
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
    """Whether no branch decides that a line is reached, or the count is once."""
    module = program.module(ask.place.file)
    statement = module.at(ask.place.line) if module is not None else None
    if module is None or statement is None:
        return True
    hits = trace.hits[ask.place.file, ask.place.line]
    guessed = ask.count and hits == 1
    return guessed or (hits > 0 and not statement.conditional)


def exception_is_readable(ask: ExceptionAsk, truth: ExceptionTruth, program: Program) -> bool:
    """Whether the function that is named can raise by one statement alone, and does."""
    module = program.module(truth.origin.file)
    raising = module.raising_lines(ask.function) if module is not None and ask.function else []
    return raising == [truth.origin.line]


def root_cause_is_readable(trace: Trace) -> bool:
    """Whether there is next to nothing to choose from."""
    return len({stop.statement.place for stop in trace.stops}) <= FEW_STATEMENTS
