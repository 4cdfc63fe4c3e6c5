"""Answers to: where does it first go wrong? Here alone the oracle uses the gold patch."""

from __future__ import annotations

from collect.benchmarks.base import Instance
from collect.models.oracle.questions import wording as words
from collect.models.oracle.questions.going import Way
from collect.models.oracle.questions.session import Moves, Session
from collect.models.oracle.source import Place, line_at_fault, place_of, read_source
from collect.patches import changed_lines
from collect.questions.records import Location
from sandbox.text import source_lines

MAX_PROBES = 2


def investigate_root_cause(instance: Instance, session: Session) -> Moves[str | None]:
    """See the failure, sometimes from its end; then go to the code at fault and look."""
    rng = session.rng
    place = place_of(instance.files, changed_lines(instance.gold_patch))
    if session.habits.detour(0.4):
        yield from _see_failure(session)
    at = Location(file=place.path, line=place.line, last_line=place.line, function=place.function)
    way = Way(instance, session, at, 1)
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
    """The values that the statement works on, before and after it runs."""
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
