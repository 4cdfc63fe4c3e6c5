"""The oracle as a Debug Subagent that answers one runtime question.

It knows the question as a place and an expression, and reads code like any subagent. It answers
only with what it saw in its own session: it is never given the true answer. Only for a root cause
does it use the gold patch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collect.benchmarks.base import Instance
from collect.code.source import (
    Place,
    changed_code,
    line_at_fault,
    place_of,
    read_source,
)
from collect.code.syntax import parse
from collect.comparison import Comparison
from collect.oracle.root_cause import RETURNED, RootCauseSearch
from collect.oracle.scripted import ExplorationPolicy, Turns, answer_block, say
from collect.oracle.session import (
    MAX_SHOWN,
    LineNavigator,
    Moves,
    Session,
    Stopped,
    shortened,
)
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

NO_OUTPUT = ("Error (", "Code ran ", "Program ended ", "Paused at ", "Killed: ")
"""How an answer to `debug_run_code` begins that is not what the code printed."""
PART = re.compile(r"^(?P<base>.+?)(?:\.(?P<field>\w+)|(?P<key>\[[^\[\]]+\]))$")
MODULE = "<module>"
MAX_CLEARED = 3
MAX_PROBES = 2
MAX_RAISES = 10
MAX_CONTINUES = 14
MAX_EVIDENCE = 8
MAX_NOTE = 240
LONG = 60
"""Evidence of so many characters is left out if the answer has its value."""


@dataclass(frozen=True)
class _Sides:
    """What a failing assertion compares."""

    place: str
    checked: str
    actual: str
    wanted: str | None
    """None if it compares with nothing."""
    expected: str | None


class OracleAnswerer:
    """One question's session."""

    def __init__(
        self,
        instance: Instance,
        ask: Ask,
        habits: ExplorationPolicy,
        run_code: bool = False,
        compare: Callable[[str], Comparison | None] | None = None,
    ) -> None:
        self._instance, self._ask, self._habits = instance, ask, habits
        self._compare = compare
        self._run_code = run_code and instance.language == "python"
        self._session = Session(habits)
        self._answer: str | None = None
        self._got = ""
        """The value that a failing assertion got, if it was read."""

    def turns(self, task: str) -> Turns:
        self._session.take(task)
        match self._ask:
            case ValueAsk() as ask:
                text = yield from self._value(ask)
                self._answer = None if text is None else self._value_worded(ask, text)
            case ReachAsk() as ask:
                self._answer = yield from self._reach(ask)
            case ExceptionAsk(ends_test=True):
                self._answer = yield from self._ending()
            case ExceptionAsk(function=function):
                self._answer = yield from self._first_raise(function)
            case AssertionAsk():
                self._answer = yield from self._assertion()
            case RootCauseAsk():
                self._answer = yield from self._root_cause()
            case PostFixAsk(value=value):
                self._answer = yield from self._fix(value)
        yield say(self.last_word())

    def last_word(self) -> str:
        session, place = self._session, self._session.place or self._session.nowhere
        answer = self._answer or "I could not establish this in the debugger."
        # A long value that the answer has is not copied again.
        notes = [
            note
            for note in session.evidence
            if len(note) < LONG or (note.partition(" = ")[2] or note) not in answer
        ]
        notes = notes or [f"the debugger stopped at {place}"] * bool(session.evidence)
        evidence = "; ".join(shortened(note, MAX_NOTE) for note in notes[:MAX_EVIDENCE])
        return answer_block(session.question, answer, evidence, place)

    def _value(self, ask: ValueAsk) -> Moves[str | None]:
        """The text of the value, or None if the program never reached the place."""
        session = self._session
        over = "step over it, " if ask.after else ""
        aim = f", go to visit {ask.hit}, {over}and read `{ask.expression}`"
        there = yield from LineNavigator(self._instance, session, ask.place, ask.hit, aim).go()
        if not there:
            return None
        if not ask.after:
            text = yield from self._read(ask)
            if text is not None and self._habits.detour(0.3):
                yield from self._look_around()
            if text is not None and ask.hit > 1 and self._habits.detour(0.25):
                yield from self._confirm(ask, text)
            return text
        # Let the line run without stopping at it again inside.
        for number in session.stopped.numbers[:MAX_CLEARED] if session.stopped else ():
            yield from session.remove_breakpoint(
                f"This is visit {ask.hit}. I take the breakpoint away, so that the step ends after "
                "it.",
                number,
            )
        stopped = yield from session.control(session.pick("over"), "step_over")
        return (yield from self._read(ask)) if stopped is not None else None

    def _read(self, ask: ValueAsk) -> Moves[str | None]:
        """The expression's value as text, or None if it can't be read."""
        session, expression = self._session, ask.expression
        why = session.pick("look", expression=expression, wanted=ask.hit)
        part = PART.match(expression)
        text: str | None = None
        chance = 1.0 if self._habits.direct else self._habits.rng.random()
        if expression.isidentifier() and chance < 0.45:
            text = (yield from session.locals(session.pick("all_locals"))).get(expression)
        elif part is not None and chance < 0.4:
            seen = yield from session.fields(f"I look into `{part['base']}`.", part["base"])
            text = seen.get(part["field"] or part["key"])
        elif self._run_code and chance < 0.7:
            code = f"print(repr({expression}))"
            printed = yield from session.do(why, "debug_run_code", code=code)
            if not printed.startswith(NO_OUTPUT):
                text = printed.partition("\n")[0].strip()
        if text is None or "..." in text or "0x" in text:
            text = yield from session.evaluate(why, expression)
        if text is not None:
            session.note(f"{expression} = {text}")
        return text

    def _look_around(self) -> Moves[None]:
        session = self._session
        if self._habits.rng.random() >= 0.5:
            yield from session.locals("And the rest of the frame?")
            return
        frames = yield from session.stack("Who called this?")
        if len(frames) > 1:
            caller = frames[1]
            session.note(f"called from {caller['file']}:{caller['line']} in {caller['function']}")

    def _confirm(self, ask: ValueAsk, text: str) -> Moves[None]:
        """Come back to the same visit by a conditional breakpoint, if the value can be one."""
        session = self._session
        if not is_literal(text) or len(text) >= 60 or session.stopped is None:
            return
        numbers = session.stopped.numbers
        condition = f"{ask.expression} == {text}"
        why = "I check this with a conditional breakpoint."
        yield from session.set_breakpoint(why, str(ask.place), condition=condition)
        for number in numbers:
            why = "The unconditional one would stop earlier."
            yield from session.remove_breakpoint(why, number)
        yield from session.control("From the start, with the condition.", "restart")
        if session.paused is not None:
            place = session.paused.place
            again = yield from session.evaluate(f"`{ask.expression}` once more.", ask.expression)
            if again == text:
                session.note(f"a breakpoint with the condition {condition} stops at {place}")

    def _value_worded(self, ask: ValueAsk, text: str) -> str:
        nth = f"the {ordinal(ask.hit)} time"
        when = f"after it has run {nth}" if ask.after else f"just before it runs {nth}"
        if self._habits.detour(0.4):
            when = f"right after visit {ask.hit}" if ask.after else f"on visit {ask.hit}"
        return self._session.pick(
            "value_answers",
            expression=ask.expression,
            text=text,
            when=when,
            When=when[0].upper() + when[1:],
            place=ask.place,
        )

    def _root_cause(self) -> Moves[str | None]:
        """Go back from the failure to the faulty code, or straight to it; then look."""
        session, instance = self._session, self._instance
        ranges = changed_code(instance.files, instance.gold_patch)
        comparison = self._compare(session.test) if self._compare is not None else None
        place = (comparison and comparison.place) or place_of(instance.files, ranges)
        wrong = comparison.visit if comparison is not None else None
        at = Location(
            file=place.path, line=place.line, last_line=place.line, function=place.function
        )
        hit = wrong.hit if wrong is not None else 1
        way = LineNavigator(instance, session, at, hit, next_visit="not_wrong_yet")
        if self._habits.direct:
            there = yield from way.go()
        else:
            there = yield from self._back_to(place, way)
        seen = (yield from self._look(place)) if there else []
        lines = source_lines(instance.files[place.path].decode("utf-8", "replace"))
        blamed = line_at_fault(ranges, place)
        values = f", where {', '.join(seen)}" if seen and self._habits.rng.random() < 0.7 else ""
        if wrong is None:
            values = ""
        session.place = f"{place.path}:{blamed}"
        return session.pick(
            "root_cause",
            place=session.place,
            function=place.function or "the module itself",
            source=lines[blamed - 1].strip(),
            values=values,
        )

    def _back_to(self, place: Place, way: LineNavigator) -> Moves[bool]:
        """From the failure back to the faulty visit; whether the program is paused there."""
        session = self._session
        stopped = yield from self._to_the_end()
        frames = stopped.frames if stopped is not None else []
        own = [frame for frame in frames if frame["file"] in self._instance.files]
        file = own[0]["file"] if own else ""
        if file.endswith(".py") and is_test_file(self._instance, file):
            sides = yield from self._compared(own[0])
            if sides is not None:
                self._got = sides.actual
                expected = f" instead of {sides.expected}" if sides.expected is not None else ""
                session.note(shortened(f"the test gets {sides.actual}{expected}", MAX_NOTE))
        elif own and self._habits.detour(0.7):
            why = f"What does `{own[0]['function']}` hold where it fails?"
            yield from session.locals(why, int(own[0]["index"]))
        search = RootCauseSearch(self._instance, session, place)
        why = yield from search.back(own, self._got)
        source = read_source(place.path, self._instance.files[place.path])
        watch = source.probes(place.line, place.function)[:2] if way.hit > 1 else []
        more = {"watch": watch} if watch else {}
        yield from session.start(why, [f"{place.path}:{place.line}"], False, **more)
        return (yield from way.arrive())

    def _look(self, place: Place) -> Moves[list[str]]:
        """The values that the statement uses, before and after it runs."""
        session = self._session
        source = read_source(place.path, self._instance.files[place.path])
        known = yield from session.locals("This is the code I suspect. What does it work on?")
        probes = source.probes(place.line, place.function)
        shown = [probe for probe in probes if probe in known][:MAX_PROBES]
        seen = [f"{name} = {shortened(known[name], MAX_SHOWN)}" for name in shown]
        rest = [probe for probe in probes if probe not in known]
        if place.path.endswith(".py"):
            # Such a name, if no variable of the frame, is mostly a module or a function.
            rest = [probe for probe in rest if not (probe.isidentifier() and probe.islower())]
        for expression in rest[:MAX_PROBES]:
            text = yield from session.evaluate(f"I check `{expression}`.", expression)
            if text is not None:
                seen.append(f"{expression} = {shortened(text, MAX_SHOWN)}")
        if self._habits.detour(0.85):
            stepped = yield from session.control(session.pick("over"), "step_over")
            returned = RETURNED.search(stepped.text) if stepped is not None else None
            if returned is not None:
                same = ", which the test gets" if returned["text"] == self._got else ""
                text = shortened(returned["text"], MAX_SHOWN)
                session.note(f"{returned['name']} returned {text}{same}")
            for target in source.assigned(place.line)[:1]:
                text = yield from session.evaluate(f"What is `{target}` now?", target)
                if text is not None:
                    session.note(f"afterwards {target} = {shortened(text, MAX_SHOWN)}")
        for each in seen:
            session.note(each)
        return seen[:2]

    def _ending(self) -> Moves[str | None]:
        """The exception that ends the test, or None if there was none."""
        session = self._session
        stopped = yield from self._to_the_end()
        if stopped is None or stopped.raised is None:
            return None
        frames = yield from session.stack("Where does it come from? I read the stack.")
        inside = [frame for frame in frames if frame["file"] in self._instance.files]
        if not inside:
            return None
        # Read the variables of the frame that raised, and sometimes of its caller.
        origin = inside[0]
        if self._habits.detour(0.7):
            why = f"What does {origin['function']} work on?"
            session.note_values((yield from session.locals(why, int(origin["index"]))))
        if len(inside) > 1 and self._habits.detour(0.5):
            caller = inside[1]
            why = f"One frame up, in {caller['function']}."
            yield from session.locals(why, int(caller["index"]))
            session.note(f"called from {caller['file']}:{caller['line']}")
        place = f"{origin['file']}:{origin['line']}"
        return self._exception_worded(stopped.raised, place, origin["function"])

    def _first_raise(self, function: str) -> Moves[str | None]:
        """Stop at every raise until one is in the program itself, or in this function of it."""
        session, instance = self._session, self._instance
        enters = function not in ("", MODULE) and not self._habits.detour(0.6)
        if not enters or not (yield from self._await_raise(function)):
            yield from self._stop_at_raises()
        for _ in range(MAX_RAISES):
            stopped = session.paused
            if stopped is None:
                return None
            own = stopped.file in instance.files and not is_test_file(instance, stopped.file)
            if own and stopped.raised is not None and function in ("", stopped.function):
                session.note(stopped.raised[0])
                if self._habits.detour(0.6):
                    yield from session.locals("Which values led to it?")
                return self._exception_worded(stopped.raised, stopped.place, stopped.function)
            elsewhere = function not in ("", stopped.function)
            asked = f"not in {function}" if elsewhere else "is not the one"
            why = f"{stopped.place}, in {stopped.function}, {asked}; I continue."
            yield from session.control(why, "continue")
        return None

    def _stop_at_raises(self) -> Moves[None]:
        session = self._session
        if self._habits.direct or self._habits.rng.random() < 0.5:
            why = "I stop at every exception that is raised."
            yield from session.start(why, ["exception Exception"], False)
            return
        yield from session.start(session.pick("start_at_test"), [], True)
        why = "I want to stop wherever an exception is raised."
        yield from session.set_breakpoint(why, "exception Exception")
        yield from session.control("Again from the start.", "restart")

    def _await_raise(self, function: str) -> Moves[bool]:
        """Run to the first exception after the function was entered, since many are raised before.
        Whether it is entered."""
        session = self._session
        name = ".".join(function.split(".")[-2:])
        yield from session.start(session.pick("enter", function=function), [name], False)
        numbers = session.paused.numbers if session.paused is not None else []
        if not numbers:
            return False
        why = f"`{function}` is entered. Which exception is raised in it?"
        yield from session.set_breakpoint(why, "exception Exception")
        for number in numbers:
            why = "I need no further stop where it is entered."
            yield from session.remove_breakpoint(why, number)
        yield from session.control("I run on to the exception.", "continue")
        return True

    def _exception_worded(self, raised: re.Match[str], place: str, function: str) -> str:
        self._session.place = place
        said = raised["message"] or ""
        message = f' ("{said}")' if said and len(said) < 80 and self._habits.detour(0.4) else ""
        values = {"type": raised["type"], "place": place, "function": function}
        return self._session.pick("exception_answers", **values, message=message)

    def _assertion(self) -> Moves[str | None]:
        """The answer, or None if no assertion of the tests failed."""
        session, instance = self._session, self._instance
        stopped = yield from self._to_the_end()
        if stopped is None:
            return None
        frames: list[Mapping[str, str]] = [
            {"index": "0", "file": stopped.file, "line": str(stopped.line)}
        ]
        if stopped.file not in instance.files or self._habits.detour(0.5):
            frames = yield from session.stack("Which assertion is it?")
        frame = next((f for f in frames if is_test_file(instance, f["file"])), None)
        if frame is None or frame["file"] not in instance.files:
            return None
        if self._habits.detour(0.5):
            line = int(frame["line"])
            yield from session.read("I read the assertion.", frame["file"], line - 2, line + 6)
        sides = yield from self._compared(frame)
        if sides is None:
            return None
        session.place, (checked, wanted) = sides.place, (sides.checked, sides.wanted)
        session.note(f"{checked} = {sides.actual}")
        if wanted is None:
            return session.pick("truth_answers", place=sides.place, actual=sides.actual)
        if sides.expected != wanted:
            session.note(f"{wanted} = {sides.expected}")
        values = {"actual": sides.actual, "expected": sides.expected}
        return session.pick("assertion_answers", place=sides.place, **values)

    def _compared(self, frame: Mapping[str, str]) -> Moves[_Sides | None]:
        """Read both sides of the assertion in a test's frame."""
        session, file = self._session, frame["file"]
        line, index = int(frame["line"]), int(frame["index"])
        sides = sides_at(parse(self._instance.files[file]), line)
        if sides is None:
            return None
        checked, wanted = sides
        why = f"The assertion checks `{checked}`. What did it come to?"
        if wanted is not None:
            why = f"The assertion compares `{checked}` with `{wanted}`. I read the first."
        actual = yield from session.evaluate(why, checked, index)
        if actual is None:
            return None
        expected = wanted
        if wanted is not None and not is_literal(wanted):
            expected = yield from session.evaluate(
                f"And the other side, `{wanted}`?", wanted, index
            )
        return _Sides(f"{file}:{line}", checked, actual, wanted, expected)

    def _to_the_end(self) -> Moves[Stopped | None]:
        """Run the test until an exception ends it, sometimes stopping at its first line before.
        None if it ends without one.
        """
        session = self._session
        at_test = self._habits.detour(0.6)
        why = session.pick("start_at_test" if at_test else "run_through")
        yield from session.start(why, [], at_test)
        if session.paused is not None and self._habits.detour(0.3):
            yield from session.control("I step over the first line.", "step_over")
        for _ in range(3):
            if session.paused is not None:
                yield from session.control(session.pick("run_on"), "continue")
        stopped = session.stopped
        if stopped is not None and stopped.raised is not None:
            session.place = stopped.place
            session.note(stopped.raised[0])
        return stopped if session.paused is None else None

    def _reach(self, ask: ReachAsk) -> Moves[str | None]:
        """The answer, or None if the run did not end, or the place may be reached elsewhere."""
        session = self._session
        aim = ", and count the visits" if ask.count else ", to see whether it is reached"
        way = LineNavigator(self._instance, session, ask.place, 1, aim)
        there = yield from way.go()
        if not there:
            is_known = session.paused is None and not session.has_children
            return (yield from self._missed(ask)) if is_known else None
        session.note(f"the debugger stopped at {ask.place}")
        if not ask.count:
            if self._habits.detour(0.5):
                why = "It is reached. With which values?"
                session.note_values((yield from session.locals(why)))
            return self._reach_worded("reached", ask, "")
        count = 1
        for _ in range(MAX_CONTINUES):
            stopped = yield from session.control(session.pick("count_on", count=count), "continue")
            if session.has_children:
                return None
            if session.paused is None:
                times = {1: "once", 2: "twice"}.get(count, f"{count} times")
                session.note(f"{times}, then the test ended")
                return self._reach_worded("reached", ask, f", {times}")
            count += stopped is not None and way.is_there(stopped)
        return None

    def _missed(self, ask: ReachAsk) -> Moves[str]:
        """Before answering no, sometimes look at where execution went instead."""
        session, function = self._session, ask.place.function
        if self._habits.detour(0.4):
            why = f"It did not stop there. Is `{function}` entered at all?"
            yield from session.start(why, [function], False)
            if session.paused is not None:
                place = session.paused.place
                yield from session.locals(f"It is, at {place}. Which way does it go?")
                session.note(f"{function} is entered at {place}")
            else:
                session.note(f"{function} is not entered")
        session.note(f"a breakpoint at {ask.place} was not hit until the test ended")
        session.place = str(ask.place)
        return self._reach_worded("not_reached", ask, ", 0 times" if ask.count else "")

    def _reach_worded(self, phrases: str, ask: ReachAsk, times: str) -> str:
        place = ask.place
        values = {"place": place, "line": place.line, "file": place.file}
        return self._session.pick(phrases, **values, times=times)

    def _fix(self, ask: ValueAsk) -> Moves[str | None]:
        """Read the value first, then run the test to its end."""
        session = self._session
        text = yield from self._value(ask)
        if text is None:
            return None
        place = session.place
        for _ in range(MAX_CONTINUES):
            if session.paused is None:
                break
            for number in session.paused.numbers:
                yield from session.remove_breakpoint("This stop has shown what I need.", number)
            yield from session.control(session.pick("run_on"), "continue")
        if session.paused is not None:
            return None
        stopped = session.stopped
        if stopped is not None and stopped.raised is not None:
            session.note(stopped.raised[0])
        else:
            session.note(f"the program ended with exit code {session.exit_code}")
        session.place = place
        passed = stopped is None and session.exit_code == 0
        return f"{session.pick('passes' if passed else 'fails')} {self._value_worded(ask, text)}"
