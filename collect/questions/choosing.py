"""Chooses questions from all candidates: the rules and their funnel."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines
from collect.code.source import function_at, read_source
from collect.question_records import (
    Ask,
    AssertionAsk,
    AssertionTruth,
    Category,
    Drop,
    ExceptionAsk,
    ExceptionTruth,
    Location,
    PostFixAsk,
    PostFixTruth,
    Question,
    ReachAsk,
    ReachTruth,
    RootCauseAsk,
    RootCauseTruth,
    Truth,
    ValueAsk,
    ValueTruth,
)
from collect.questions.comparing import without_addresses
from collect.questions.config import QuestionsConfig
from collect.questions.program import Program
from collect.questions.readable import (
    exception_is_readable,
    reach_is_readable,
    root_cause_is_readable,
    value_is_readable,
)
from collect.questions.tracing import Stop, Trace
from collect.questions.truths import Finding, agree, find, next_in_frame, observed, values_at
from collect.questions.writing import Kept, Runs, write

# Everything that could be asked about a run, before the rules.


RECEIVERS = ("self", "cls")

Candidate = tuple[Category, "ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk"]


def candidates(trace: Trace, program: Program) -> Iterator[Candidate]:
    """All questions about one run by category, except those that need a patch."""
    for stop in trace.stops:
        yield from _values(stop, trace)
    yield from _reach(trace, program)
    if trace.failed:
        yield Category.ASSERTION, AssertionAsk()
        yield Category.EXCEPTION, ExceptionAsk(ends_test=True)
    yield Category.EXCEPTION, ExceptionAsk(ends_test=False)
    for function in dict.fromkeys(r.function for r in trace.raises if r.file in program.modules):
        yield Category.EXCEPTION, ExceptionAsk(ends_test=False, function=function)


def varying(trace: Trace) -> Mapping[tuple[Location, str], int]:
    """The number of different values of an expression at a place."""
    seen: dict[tuple[Location, str], set[str]] = {}
    for stop in trace.stops:
        for name, value in values_at(stop).items():
            seen.setdefault((stop.statement.place, name), set()).add(value.text)
    return Counter({key: len(texts) for key, texts in seen.items()})


def root_cause(instance: Instance, trace: Trace, program: Program) -> RootCauseTruth | None:
    """The statements that the gold patch changes, if the failing test runs one of them."""
    if not instance.gold_patch:
        return None
    places: dict[Location, None] = {}
    for changed in changed_lines(instance.gold_patch):
        module = program.modules.get(changed.path)
        if module is None:
            continue
        source = read_source(changed.path, module.text.encode())
        around = function_at(source, changed.end) if source is not None else None
        name = around.name if around is not None else ""
        inside = [
            each
            for each in module.statements
            if each.place.line <= changed.end and each.place.last_line >= changed.start
        ]
        for statement in inside:
            if statement.place.function == name:
                places[statement.place] = None
        if not inside and name:
            place = Location(
                file=changed.path, line=changed.start, last_line=changed.end, function=name
            )
            places[place] = None
    functions = {(place.file, place.function) for place in places}
    return RootCauseTruth(places=tuple(places)) if functions & trace.entered else None


def root_cause_finding(truth: RootCauseTruth, first: Trace, second: Trace) -> Finding | None:
    """The root cause with the first stop in its function, and what two runs agree on there."""
    functions = {(place.file, place.function) for place in truth.places}
    for stop in first.stops:
        place = stop.statement.place
        if (place.file, place.function) in functions:
            position = second.position(place, stop.hit)
            again = second.stops[position].locals if position is not None else {}
            shown = [
                f"{name} = {stop.locals[name].text}"
                for name in stop.statement.used[:3]
                if name in stop.locals and name in again
                if without_addresses(stop.locals[name].text) == without_addresses(again[name].text)
            ]
            return Finding(truth, (observed(stop, "; ".join(shown)),))
    return None


def _values(stop: Stop, trace: Trace) -> Iterator[Candidate]:
    statement = stop.statement
    place = statement.place
    if not statement.once or (place.file, place.line) in trace.mixed:
        return
    names = [name for name in statement.used if name in stop.locals]
    for name in (each for each in names if each not in RECEIVERS):
        yield Category.LOCAL, ValueAsk(expression=name, place=place, hit=stop.hit)
    for name in _inside(stop, names):
        yield Category.ATTRIBUTE, ValueAsk(expression=name, place=place, hit=stop.hit)
    follower = next_in_frame(stop, trace)
    if len(statement.assigned) == 1 and follower is not None and _untouched(trace, place):
        name = statement.assigned[0]
        if name in follower.locals:
            yield (
                Category.LOCAL,
                ValueAsk(expression=name, place=place, hit=stop.hit, after=True),
            )


def _inside(stop: Stop, names: Sequence[str]) -> list[str]:
    """The attributes and entries of what the statement reads."""
    bases = (*stop.statement.attributes, *names)
    seen = values_at(stop)
    entries = [
        name for name in seen if name.endswith("]") and any(name.startswith(f"{b}[") for b in bases)
    ]
    fields = [name for name in stop.fields if "." in name]
    used = [name for name in stop.statement.attributes if name in stop.fields]
    return list(dict.fromkeys([*used, *entries, *fields]))


def _untouched(trace: Trace, place: Location) -> bool:
    """Whether all breakpoints in the function stayed: otherwise the next stop is not the next
    statement.
    """
    return not any(
        stop.statement.place.function == place.function
        and (stop.statement.place.file, stop.statement.place.line) in trace.capped
        for stop in trace.stops
        if stop.statement.place.file == place.file
    )


def _reach(trace: Trace, program: Program) -> Iterator[Candidate]:
    """Every bound line of the executed modules, with and without its count."""
    executed = {file for file, _ in trace.hits}
    for path in sorted(executed):
        for statement in program.modules[path].statements:
            if (path, statement.place.line) in trace.bound:
                yield Category.REACHABILITY, ReachAsk(place=statement.place)
                if statement.once:
                    yield Category.REACHABILITY, ReachAsk(place=statement.place, count=True)


@dataclass
class Funnel:
    """What became of all candidates of one bug."""

    asked: Counter[Category] = field(default_factory=Counter)
    dropped: Counter[tuple[Category, Drop]] = field(default_factory=Counter)

    def drop(self, category: Category, why: Drop) -> None:
        self.dropped[category, why] += 1


class Chooser:
    """The questions of one bug."""

    def __init__(self, instance: Instance, config: QuestionsConfig, funnel: Funnel) -> None:
        self._instance, self._config, self._funnel = instance, config, funnel
        self._rng = random.Random(f"{config.seed}\0{instance.benchmark}\0{instance.id}")
        self._kept: list[Kept] = []
        self._known: set[tuple[object, ...]] = set()

    def add_runs(self, runs: Runs) -> None:
        """Check every candidate about the buggy program against both runs."""
        varied = varying(runs.first)
        asks = list(candidates(runs.first, runs.program))
        self._rng.shuffle(asks)
        for category, ask in asks:
            finding = self._agreed(category, ask, runs)
            if finding is None:
                continue
            readable = _is_readable(ask, finding.truth, runs, varied)
            self._keep(category, ask, finding, runs, readable)
        self._add_root_cause(runs)

    def add_fix(self, runs: Runs, passes: bool) -> None:
        """Check every candidate about a changed program's values against both runs."""
        if passes is runs.first.failed or passes is runs.second.failed:
            return
        if not passes:
            self._add_new_failure(runs)
        varied = varying(runs.first)
        asks = [ask for _, ask in candidates(runs.first, runs.program)]
        self._rng.shuffle(asks)
        for ask in asks:
            if not isinstance(ask, ValueAsk) or ask.after:
                continue
            finding = self._agreed(Category.POST_FIX, ask, runs)
            if finding is None or not isinstance(finding.truth, ValueTruth):
                continue
            readable = _is_readable(ask, finding.truth, runs, varied)
            truth = PostFixTruth(passes=passes, value=finding.truth)
            asked = PostFixAsk(value=ask)
            self._keep(Category.POST_FIX, asked, replace(finding, truth=truth), runs, readable)

    def _add_new_failure(self, runs: Runs) -> None:
        """Ask how the test fails with a change that is no fix."""
        asks: list[tuple[Category, ExceptionAsk | AssertionAsk]] = [
            (Category.EXCEPTION, ExceptionAsk(ends_test=True)),
            (Category.ASSERTION, AssertionAsk()),
        ]
        for category, ask in asks:
            finding = self._agreed(category, ask, runs)
            if finding is not None:
                self._keep(category, ask, finding, runs, readable=False)

    def questions(self) -> list[Question]:
        """The chosen questions, up to the limit of each category."""
        chosen: list[Kept] = []
        for category in Category:
            kept = self._balanced([each for each in self._kept if each.category is category])
            picked = _spread(kept, self._config.limit(category))
            for _ in range(len(kept) - len(picked)):
                self._funnel.drop(category, Drop.LIMIT)
            chosen += picked
        return [write(self._instance, self._config.seed, each) for each in chosen]

    def _balanced(self, kept: list[Kept]) -> list[Kept]:
        """Drop surplus "yes" answers on reachability, so that guessing does not pay."""
        truths = [each.finding.truth for each in kept]
        noes = sum(isinstance(truth, ReachTruth) and not truth.reached for truth in truths)
        balanced: list[Kept] = []
        left = max(noes, 1)
        for each in kept:
            if _is_yes(each) and not left:
                self._funnel.drop(each.category, Drop.UNBALANCED)
                continue
            left -= _is_yes(each)
            balanced.append(each)
        return balanced

    def _agreed(self, category: Category, ask: Ask, runs: Runs) -> Finding | None:
        """The first run's answer, if there is one and the second run agrees."""
        assert not isinstance(ask, RootCauseAsk | PostFixAsk)
        one = find(ask, runs.first, runs.program)
        if one is None and not isinstance(ask, ValueAsk):
            return None
        self._funnel.asked[category] += 1
        if one is None:
            self._funnel.drop(category, Drop.UNREADABLE)
            return None
        other = find(ask, runs.second, runs.program)
        unsteady = (
            isinstance(ask, ValueAsk) and (ask.place.file, ask.place.function) in runs.unsteady
        )
        if unsteady or other is None or not agree(one.truth, other.truth):
            self._funnel.drop(category, Drop.NONDETERMINISTIC)
            return None
        return one

    def _add_root_cause(self, runs: Runs) -> None:
        truth = root_cause(self._instance, runs.first, runs.program)
        finding = root_cause_finding(truth, runs.first, runs.second) if truth is not None else None
        if finding is not None and runs.first.failed and runs.second.failed:
            self._funnel.asked[Category.ROOT_CAUSE] += 1
            readable = root_cause_is_readable(runs.first)
            self._keep(Category.ROOT_CAUSE, RootCauseAsk(), finding, runs, readable)

    def _keep(
        self, category: Category, ask: Ask, finding: Finding, runs: Runs, readable: bool
    ) -> None:
        key = _key(category, ask, finding.truth, runs)
        if readable:
            self._funnel.drop(category, Drop.ON_SOURCE)
        elif key in self._known:
            self._funnel.drop(category, Drop.DUPLICATE)
        else:
            self._known.add(key)
            self._kept.append(Kept(category, ask, finding, runs))


def _is_yes(kept: Kept) -> bool:
    ask, truth = kept.ask, kept.finding.truth
    plain = isinstance(ask, ReachAsk) and not ask.count
    return plain and isinstance(truth, ReachTruth) and truth.reached


def _is_readable(
    ask: Ask, truth: Truth, runs: Runs, varied: Mapping[tuple[Location, str], int]
) -> bool:
    match ask, truth:
        case ValueAsk(), ValueTruth():
            varies = varied[ask.place, ask.expression] > 1
            return value_is_readable(ask, truth, varies, runs.program, runs.test)
        case ReachAsk(), _:
            return reach_is_readable(ask, runs.first, runs.program)
        case ExceptionAsk(), ExceptionTruth():
            return exception_is_readable(ask, truth, runs.program)
    return False


def _spread(kept: Sequence[Kept], limit: int) -> list[Kept]:
    """Up to `limit` questions, as different as possible: one from each group, then another."""
    groups: dict[object, list[Kept]] = defaultdict(list)
    for each in kept:
        groups[_group(each)].append(each)
    rounds = zip_longest(*groups.values())
    return [each for one in rounds for each in one if each is not None][:limit]


def _group(kept: Kept) -> object:
    ask, truth = kept.ask, kept.finding.truth
    if isinstance(truth, ReachTruth) and isinstance(ask, ReachAsk):
        # A skipped line in a function that runs is harder than one in a function that does not.
        entered = (ask.place.file, ask.place.function) in kept.runs.first.entered
        return truth.reached, entered
    if isinstance(ask, PostFixAsk):
        return kept.runs.patch
    if isinstance(ask, ValueAsk):
        return ask.place.file, ask.place.function, ask.expression
    return kept.runs.test


def _key(category: Category, ask: Ask, truth: Truth, runs: Runs) -> tuple[object, ...]:
    """Two questions with the same key count as one."""
    match ask, truth:
        case ValueAsk(), ValueTruth():
            return category, ask.place.file, ask.place.function, ask.expression, truth.text
        case ReachAsk(), ReachTruth():
            return category, ask.place, truth.reached
        case PostFixAsk(), PostFixTruth():
            value, text = ask.value, truth.value.text
            return category, runs.patch, value.place.function, value.expression, text
        case _, ExceptionTruth():
            return category, truth.type, truth.origin
        case _, AssertionTruth():
            return category, truth.place, truth.actual.text
    return category, runs.test
