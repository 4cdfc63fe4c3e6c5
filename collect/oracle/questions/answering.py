"""Investigates a runtime question with the debugger and writes the answer block."""

from __future__ import annotations

import re
from collections.abc import Mapping

from collect.agents.subagent_task import read_start, read_subagent_task
from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines
from collect.code.source import Place, line_at_fault, place_of, read_source
from collect.code.syntax import parse
from collect.oracle.questions import wording as words
from collect.oracle.questions.line_navigator import LineNavigator
from collect.oracle.questions.session import Moves, Session, Stopped
from collect.oracle.scripted import ExplorationPolicy, Turns, say
from collect.question_records import (
    Ask,
    AssertionAsk,
    ExceptionAsk,
    Location,
    PostFixAsk,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)
from collect.questions.claims import ordinal
from collect.questions.program import is_literal, is_test_file, sides_at
from sandbox.text import source_lines

# Answers to: what is this expression at that line?


NO_OUTPUT = ("Error (", "Code ran ", "Program ended ", "Paused at ", "Killed: ")
"""How an answer to `debug_run_code` begins that is not what the code printed."""
PART = re.compile(r"^(?P<base>.+?)(?:\.(?P<field>\w+)|(?P<key>\[[^\[\]]+\]))$")


def read_expression(
    session: Session, expression: str, wanted: int, run_code: bool
) -> Moves[str | None]:
    """The expression's value as text, or None if it can't be read."""
    why = words.pick(session.habits, words.LOOK, expression=expression, wanted=wanted)
    part = PART.match(expression)
    text: str | None = None
    chance = 1.0 if session.habits.direct else session.rng.random()
    if expression.isidentifier() and chance < 0.45:
        text = (yield from session.locals(words.pick(session.habits, words.ALL_LOCALS))).get(
            expression
        )
    elif part is not None and chance < 0.4:
        name = part["field"] or part["key"]
        base = part["base"]
        text = (yield from session.fields(f"I look into `{base}`.", base)).get(name)
    elif run_code and chance < 0.7:
        code = f"print(repr({expression}))"
        seen = yield from session.do(why, "debug_run_code", code=code)
        text = None if seen.startswith(NO_OUTPUT) else seen.partition("\n")[0].strip()
    if text is None or "..." in text or "0x" in text:
        text = yield from session.evaluate(why, expression)
    if text is not None:
        session.note(f"{expression} = {text}")
    return text


MAX_CLEARED = 3


def investigate_value(
    instance: Instance, session: Session, ask: ValueAsk, run_code: bool
) -> Moves[str | None]:
    """The text of the value, or None if the program never reached the place."""
    over = "step over it, " if ask.after else ""
    aim = f", go to visit {ask.hit}, {over}and read `{ask.expression}`"
    way = LineNavigator(instance, session, ask.place, ask.hit, aim)
    there = yield from way.go()
    if not there:
        return None
    if ask.after:
        return (yield from _after(session, ask, run_code))
    text = yield from read_expression(session, ask.expression, ask.hit, run_code)
    if text is not None and session.habits.detour(0.3):
        yield from _look_around(session)
    if text is not None and ask.hit > 1 and session.habits.detour(0.25):
        yield from _confirm(session, ask, text)
    return text


def word_value(session: Session, ask: ValueAsk, text: str) -> str:
    """The answer as text."""
    visit = f"the {ordinal(ask.hit)} time"
    before, after = f"just before it runs {visit}", f"after it has run {visit}"
    when = after if ask.after else before
    if session.habits.detour(0.4):
        when = f"on visit {ask.hit}" if not ask.after else f"right after visit {ask.hit}"
    return words.pick(
        session.habits,
        words.VALUE_ANSWERS,
        expression=ask.expression,
        text=text,
        when=when,
        When=when[0].upper() + when[1:],
        place=ask.place,
    )


def _after(session: Session, ask: ValueAsk, run_code: bool) -> Moves[str | None]:
    """Let the line run without stopping at it again inside, then read."""
    stopped = session.stopped
    for number in stopped.numbers[:MAX_CLEARED] if stopped is not None else ():
        yield from session.remove_breakpoint(
            f"This is visit {ask.hit}. I take the breakpoint away, so that the step ends after it.",
            number,
        )
    stopped = yield from session.control(words.pick(session.habits, words.OVER), "step_over")
    if stopped is None:
        return None
    return (yield from read_expression(session, ask.expression, ask.hit, run_code))


def _look_around(session: Session) -> Moves[None]:
    if session.rng.random() < 0.5:
        frames = yield from session.stack("Who called this?")
        if len(frames) > 1:
            caller = frames[1]
            session.note(f"called from {caller['file']}:{caller['line']} in {caller['function']}")
    else:
        yield from session.locals("And the rest of the frame?")


def _confirm(session: Session, ask: ValueAsk, text: str) -> Moves[None]:
    """Come back to the same visit by a conditional breakpoint, if the value can be one."""
    if not is_literal(text) or len(text) >= 60 or session.stopped is None:
        return
    numbers = session.stopped.numbers
    condition = f"{ask.expression} == {text}"
    yield from session.set_breakpoint(
        "I check this with a conditional breakpoint.", str(ask.place), condition=condition
    )
    for number in numbers:
        yield from session.remove_breakpoint("The unconditional one would stop earlier.", number)
    stopped = yield from session.control("From the start, with the condition.", "restart")
    if stopped is not None and not stopped.post_mortem:
        again = yield from session.evaluate(f"`{ask.expression}` once more.", ask.expression)
        if again == text:
            session.note(f"a breakpoint with the condition {condition} stops at {stopped.place}")


# Answers to: where does it first go wrong? Only here does the oracle use the gold patch.


MAX_PROBES = 2


def investigate_root_cause(instance: Instance, session: Session) -> Moves[str | None]:
    """See the failure, sometimes from the test's end; then go to the faulty code and look."""
    rng = session.rng
    place = place_of(instance.files, changed_lines(instance.gold_patch))
    if session.habits.detour(0.4):
        yield from _see_failure(session)
    at = Location(file=place.path, line=place.line, last_line=place.line, function=place.function)
    way = LineNavigator(instance, session, at, 1)
    there = yield from way.go()
    seen: list[str] = []
    if there:
        seen = yield from _look(instance, session, place)
    lines = source_lines(instance.files[place.path].decode("utf-8", "replace"))
    blamed = line_at_fault(changed_lines(instance.gold_patch), place)
    values = f", where {', '.join(seen)}" if seen and rng.random() < 0.7 else ""
    session.place = f"{place.path}:{blamed}"
    return words.pick(
        session.habits,
        words.ROOT_CAUSE,
        place=session.place,
        function=place.function or "the module itself",
        source=lines[blamed - 1].strip(),
        values=values,
    )


def _see_failure(session: Session) -> Moves[None]:
    stopped = yield from session.start("First I see how the test fails.", [], False)
    if stopped is not None and stopped.post_mortem:
        if stopped.raised is not None:
            session.note(stopped.raised[0][:160])
        if session.habits.detour(0.5):
            yield from session.locals("What does the frame hold where it fails?")


def _look(instance: Instance, session: Session, place: Place) -> Moves[list[str]]:
    """The values that the statement uses, before and after it runs."""
    seen: list[str] = []
    source = read_source(place.path, instance.files[place.path])
    known = yield from session.locals("This is the code I suspect. What does it work on?")
    probes = source.probes(place.line, place.function) if source is not None else []
    for name in [probe for probe in probes if probe in known][:MAX_PROBES]:
        seen.append(f"{name} = {known[name][:80]}")
    for expression in [probe for probe in probes if probe not in known][:MAX_PROBES]:
        text = yield from session.evaluate(f"I check `{expression}`.", expression)
        if text is not None:
            seen.append(f"{expression} = {text[:80]}")
    if session.habits.detour(0.6):
        yield from session.control(words.pick(session.habits, words.OVER), "step_over")
        for target in source.assigned(place.line)[:1] if source is not None else ():
            text = yield from session.evaluate(f"What is `{target}` now?", target)
            if text is not None:
                session.note(f"afterwards {target} = {text[:80]}")
    for each in seen:
        session.note(each)
    return seen[:2]


# Answers to: which exception, from where? Which assertion, with what values?


MAX_RAISES = 10


def investigate_exception(
    instance: Instance, session: Session, ask: ExceptionAsk
) -> Moves[str | None]:
    """The answer, or None if no exception was seen."""
    if not ask.ends_test:
        return (yield from _first_raise(instance, session, ask.function))
    stopped = yield from _to_the_end(session)
    if stopped is None or not stopped.post_mortem or stopped.raised is None:
        return None
    frames = yield from session.stack("Where does it come from? I read the stack.")
    inside = [frame for frame in frames if frame["file"] in instance.files]
    if not inside:
        return None
    origin = inside[0]
    yield from _look_at_frames(session, origin, inside)
    return _word(session, stopped, f"{origin['file']}:{origin['line']}", origin["function"])


def investigate_assertion(instance: Instance, session: Session) -> Moves[str | None]:
    """The answer, or None if no assertion of the tests failed."""
    stopped = yield from _to_the_end(session)
    if stopped is None or not stopped.post_mortem:
        return None
    frames: list[Mapping[str, str]] = [
        {"index": "0", "file": stopped.file, "line": str(stopped.line)}
    ]
    if stopped.file not in instance.files or session.habits.detour(0.5):
        frames = yield from session.stack("Which assertion is it?")
    frame = next((f for f in frames if is_test_file(instance, f["file"])), None)
    if frame is None or frame["file"] not in instance.files:
        return None
    line = int(frame["line"])
    sides = sides_at(parse(instance.files[frame["file"]]), line)
    if sides is None:
        return None
    if session.habits.detour(0.5):
        yield from session.read("I read the whole assertion.", frame["file"], line - 2, line + 6)
    index = int(frame["index"])
    why = f"The assertion checks `{sides.actual}`. What did it come to?"
    if sides.expected is not None:
        why = f"The assertion compares `{sides.actual}` with `{sides.expected}`. I read the first."
    actual = yield from session.evaluate(why, sides.actual, index)
    if actual is None:
        return None
    session.place = f"{frame['file']}:{line}"
    session.note(f"{sides.actual} = {actual}")
    if sides.expected is None:
        return words.pick(session.habits, words.TRUTH_ANSWERS, place=session.place, actual=actual)
    expected = yield from session.evaluate(
        f"And the other side, `{sides.expected}`?", sides.expected, index
    )
    session.note(f"{sides.expected} = {expected}")
    return words.pick(
        session.habits,
        words.ASSERTION_ANSWERS,
        place=session.place,
        actual=actual,
        expected=expected,
    )


def _to_the_end(session: Session) -> Moves[Stopped | None]:
    """Run the test until an exception ends it, sometimes stopping at its first line before."""
    at_test = session.habits.detour(0.6)
    why = words.pick(session.habits, words.START_AT_TEST if at_test else words.RUN_THROUGH)
    stopped = yield from session.start(why, [], at_test)
    if stopped is not None and not stopped.post_mortem and session.habits.detour(0.3):
        stopped = yield from session.control("I step over the first line.", "step_over")
    for _ in range(3):
        if stopped is None or stopped.post_mortem:
            break
        stopped = yield from session.control(words.pick(session.habits, words.RUN_ON), "continue")
    if stopped is not None and stopped.raised is not None:
        session.place = stopped.place
        session.note(stopped.raised[0])
    return stopped


def _look_at_frames(
    session: Session, origin: Mapping[str, str], frames: list[Mapping[str, str]]
) -> Moves[None]:
    """Read the variables of the frame that raised, and sometimes of its caller."""
    if session.habits.detour(0.7):
        seen = yield from session.locals(
            f"What does {origin['function']} work on?", int(origin["index"])
        )
        for name, text in list(seen.items())[:2]:
            session.note(f"{name} = {text[:80]}")
    if len(frames) > 1 and session.habits.detour(0.5):
        caller = frames[1]
        yield from session.locals(f"One frame up, in {caller['function']}.", int(caller["index"]))
        session.note(f"called from {caller['file']}:{caller['line']}")


def _first_raise(instance: Instance, session: Session, function: str) -> Moves[str | None]:
    """Stop at every raise until one is in the program itself."""
    rng = session.rng
    if rng.random() < 0.5 or session.habits.direct:
        stopped = yield from session.start(
            "I stop at every exception that is raised.", ["exception Exception"], False
        )
    else:
        yield from session.start(words.pick(session.habits, words.START_AT_TEST), [], True)
        yield from session.set_breakpoint(
            "I want to stop wherever an exception is raised.", "exception Exception"
        )
        stopped = yield from session.control("Again from the start.", "restart")
    for _ in range(MAX_RAISES):
        if stopped is None or stopped.post_mortem:
            return None
        own = stopped.file in instance.files and not is_test_file(instance, stopped.file)
        if own and stopped.raised is not None and function in ("", stopped.function):
            session.note(stopped.raised[0])
            if session.habits.detour(0.6):
                yield from session.locals("Which values led to it?")
            session.place = stopped.place
            return _word(session, stopped, stopped.place, stopped.function)
        stopped = yield from session.control(
            f"{stopped.place}, in {stopped.function}, is not the one; I continue.", "continue"
        )
    return None


def _word(session: Session, stopped: Stopped, place: str, function: str) -> str:
    assert stopped.raised is not None
    session.place = place
    said = stopped.raised["message"] or ""
    message = f' ("{said}")' if said and len(said) < 80 and session.habits.detour(0.4) else ""
    return words.pick(
        session.habits,
        words.EXCEPTION_ANSWERS,
        type=stopped.raised["type"],
        place=place,
        function=function,
        message=message,
    )


# Answers to: is this line reached, how often, and does the change make the test pass?


MAX_CONTINUES = 14


def investigate_reach(instance: Instance, session: Session, ask: ReachAsk) -> Moves[str | None]:
    """The answer, or None if the run did not end."""
    aim = ", and count the visits" if ask.count else ", to see whether it is reached"
    way = LineNavigator(instance, session, ask.place, 1, aim)
    there = yield from way.go()
    if not there:
        over = session.stopped is None or session.stopped.post_mortem
        return (yield from _missed(session, ask)) if over else None
    session.note(f"the debugger stopped at {ask.place}")
    count = 1
    if not ask.count:
        if session.habits.detour(0.5):
            seen = yield from session.locals("It is reached. With which values?")
            for name, text in list(seen.items())[:2]:
                session.note(f"{name} = {text[:80]}")
        return _times_word(session, ask, None)
    for _ in range(MAX_CONTINUES):
        stopped = yield from session.control(
            words.pick(session.habits, words.COUNT_ON, count=count), "continue"
        )
        if stopped is None or stopped.post_mortem:
            session.note(f"{words.visits(count)}, then the test ended")
            return _times_word(session, ask, count)
        count += way.is_there(stopped)
    return None


def investigate_fix(
    instance: Instance, session: Session, ask: PostFixAsk, run_code: bool
) -> Moves[str | None]:
    """Read the value first, then run the test to its end."""
    habits = session.habits
    text = yield from investigate_value(instance, session, ask.value, run_code)
    if text is None:
        return None
    place = session.place
    for _ in range(MAX_CONTINUES):
        stopped = session.stopped
        if stopped is None or stopped.post_mortem:
            break
        for number in stopped.numbers:
            yield from session.remove_breakpoint("This stop has shown what I need.", number)
        yield from session.control(words.pick(habits, words.RUN_ON), "continue")
    stopped = session.stopped
    if stopped is not None and not stopped.post_mortem:
        return None
    passed = stopped is None and session.exit_code == 0
    if stopped is not None and stopped.raised is not None:
        session.note(stopped.raised[0])
    else:
        session.note(f"the program ended with exit code {session.exit_code}")
    session.place = place
    verdict = words.pick(habits, words.PASSES if passed else words.FAILS)
    return f"{verdict} {word_value(session, ask.value, text)}"


def _missed(session: Session, ask: ReachAsk) -> Moves[str | None]:
    """Before answering no, sometimes look at where execution went instead."""
    if session.habits.detour(0.4):
        function = ask.place.function
        stopped = yield from session.start(
            f"It did not stop there. Is `{function}` entered at all?", [function], False
        )
        if stopped is not None and not stopped.post_mortem:
            yield from session.locals(f"It is, at {stopped.place}. Which way does it go?")
            session.note(f"{function} is entered at {stopped.place}")
        else:
            session.note(f"{function} is not entered")
    session.note(f"a breakpoint at {ask.place} was not hit until the test ended")
    session.place = str(ask.place)
    return _times_word(session, ask, 0)


def _times_word(session: Session, ask: ReachAsk, count: int | None) -> str:
    place = ask.place
    phrases = words.NOT_REACHED if count == 0 else words.REACHED
    times = ""
    if ask.count and count is not None:
        times = ", 0 times" if count == 0 else f", {words.visits(count)}"
    return words.pick(
        session.habits, phrases, place=place, line=place.line, file=place.file, times=times
    )


MAX_EVIDENCE = 8
MAX_NOTE = 240


class OracleAnswerer:
    def __init__(
        self, instance: Instance, ask: Ask, habits: ExplorationPolicy, run_code: bool = False
    ) -> None:
        self._instance, self._ask = instance, ask
        self._run_code = run_code and instance.language == "python"
        self._session = Session("", habits)
        self._question = ""
        self._answer: str | None = None

    def turns(self, task: str) -> Turns:
        asked = read_subagent_task(task)
        self._question, self._session.test = (asked.question, asked.test) if asked else ("", "")
        self._session.opening = read_start(task)
        self._answer = yield from self._investigate()
        yield say(self.last_word())

    def last_word(self) -> str:
        """The answer block, from what has been observed so far."""
        session = self._session
        evidence = "; ".join(note[:MAX_NOTE] for note in session.evidence[:MAX_EVIDENCE])
        return (
            "<debug_answer>\n"
            f"**Question**: {self._question}\n"
            f"**Answer**: {self._answer or words.UNKNOWN}\n"
            f"**Evidence**: {evidence or 'none'}\n"
            f"**Location**: {session.place or 'not reached'}\n"
            "</debug_answer>"
        )

    def _investigate(self) -> Moves[str | None]:
        instance, session, ask = self._instance, self._session, self._ask
        match ask:
            case ValueAsk():
                text = yield from investigate_value(instance, session, ask, self._run_code)
                answer = None if text is None else word_value(session, ask, text)
            case ReachAsk():
                answer = yield from investigate_reach(instance, session, ask)
            case ExceptionAsk():
                answer = yield from investigate_exception(instance, session, ask)
            case AssertionAsk():
                answer = yield from investigate_assertion(instance, session)
            case RootCauseAsk():
                answer = yield from investigate_root_cause(instance, session)
            case PostFixAsk():
                answer = yield from investigate_fix(instance, session, ask, self._run_code)
        return answer
