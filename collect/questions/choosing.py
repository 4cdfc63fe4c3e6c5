"""Chooses questions from all candidates, by rules and with a funnel, and writes their records."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import yaml

from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines, changed_paths, reverse_patch
from collect.code.source import function_at, read_source
from collect.question_records import (
    Ask,
    AssertionAsk,
    AssertionTruth,
    Category,
    Difficulty,
    Drop,
    ExceptionAsk,
    ExceptionTruth,
    Hints,
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
from collect.questions.claims import ordinal
from collect.questions.comparing import GUESSED, Name, parse_value, same, without_addresses
from collect.questions.config import QuestionsConfig
from collect.questions.program import Program
from collect.questions.tracing import Finding, Runs, Stop, Trace, TracedAsk, find, observed

CODE_TYPES = ("function", "method", "builtin_function_or_method", "type", "module", "ABCMeta")
FEW_STATEMENTS = 2
Candidate = tuple[Category, TracedAsk]
WORDINGS: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("wordings.yaml").read_text(encoding="utf-8")
)


def candidates(trace: Trace, program: Program) -> Iterator[Candidate]:
    """All questions about one run by category, before the rules, except those that need a patch."""
    for stop in trace.stops:
        yield from _values(stop, trace)
    # Every bound line of the executed modules, with and without its count.
    for path in sorted({file for file, _ in trace.hits}):
        for statement in program.modules[path].statements:
            if (path, statement.place.line) in trace.bound:
                yield Category.REACHABILITY, ReachAsk(place=statement.place)
                if statement.once:
                    yield Category.REACHABILITY, ReachAsk(place=statement.place, count=True)
    if trace.failed:
        yield Category.ASSERTION, AssertionAsk()
        yield Category.EXCEPTION, ExceptionAsk(ends_test=True)
    yield Category.EXCEPTION, ExceptionAsk(ends_test=False)
    for function in dict.fromkeys(origin.function for origin, _ in trace.raises):
        yield Category.EXCEPTION, ExceptionAsk(ends_test=False, function=function)


def _values(stop: Stop, trace: Trace) -> Iterator[Candidate]:
    """Questions about the variables that a statement reads, their attributes and entries, and the
    variable that it assigns.
    """
    statement, place = stop.statement, stop.statement.place
    if not statement.once or (place.file, place.line) in trace.mixed:
        return
    names = [name for name in statement.used if name in stop.locals]
    for name in names:
        if name not in ("self", "cls"):
            yield Category.LOCAL, ValueAsk(expression=name, place=place, hit=stop.hit)
    used = [name for name in statement.attributes if name in stop.fields]
    bases = tuple(f"{base}[" for base in (*statement.attributes, *names))
    entries = [n for n in stop.values if n.endswith("]") and n.startswith(bases)]
    fields = [name for name in stop.fields if "." in name]
    for name in dict.fromkeys([*used, *entries, *fields]):
        yield Category.ATTRIBUTE, ValueAsk(expression=name, place=place, hit=stop.hit)
    follower = trace.next_in_frame(stop)
    if follower is None or len(statement.assigned) != 1:
        return
    # The next stop is the next statement only if all breakpoints in the function stayed.
    visited = {each.statement.place for each in trace.stops}
    is_capped = any(
        (each.file, each.line) in trace.capped
        for each in visited
        if (each.file, each.function) == (place.file, place.function)
    )
    name = statement.assigned[0]
    if name in follower.locals and not is_capped:
        ask = ValueAsk(expression=name, place=place, hit=stop.hit, after=True)
        yield Category.LOCAL, ask


def root_cause(instance: Instance, trace: Trace, program: Program) -> RootCauseTruth | None:
    """The statements that the gold patch changes, if the failing test runs one of them."""
    places: dict[Location, None] = {}
    for changed in changed_lines(instance.gold_patch) if instance.gold_patch else ():
        module = program.modules.get(changed.path)
        if module is None:
            continue
        source = read_source(changed.path, module.text.encode())
        around = function_at(source, changed.end) if source is not None else None
        name = around.name if around is not None else ""
        inside = [
            each.place
            for each in module.statements
            if each.place.line <= changed.end and each.place.last_line >= changed.start
        ]
        places |= dict.fromkeys(place for place in inside if place.function == name)
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
            other = second.visit(place, stop.hit)
            again = other.locals if other is not None else {}
            shown = [
                f"{name} = {stop.locals[name].text}"
                for name in stop.statement.used[:3]
                if name in stop.locals and name in again
                if without_addresses(stop.locals[name].text) == without_addresses(again[name].text)
            ]
            return Finding(truth, (observed(stop, "; ".join(shown)),))
    return None


def is_readable(ask: Ask, truth: Truth, runs: Runs) -> bool:
    """Whether the answer can be read off the source without running the program.

    Reachability is dropped if the line is reached and no branch decides that, and a count if it is
    one. A root cause is dropped if the whole run has at most two statements of the program to
    choose from. An exception in a named function is dropped if that function holds one `raise`, and
    nothing else in it raised. Other exceptions and all assertions depend on the run: the source
    does not say which of them occurs, or what an assertion saw.
    """
    program = runs.program
    match ask, truth:
        case ValueAsk(), ValueTruth():
            varies = (ask.place, ask.expression) in runs.first.varied
            return value_is_readable(ask, truth, varies, program, runs.test)
        case ReachAsk(), _:
            module = program.module(ask.place.file)
            statement = module.at(ask.place.line) if module is not None else None
            hits = runs.first.hits[ask.place.file, ask.place.line]
            guessed = ask.count and hits == 1
            return statement is None or guessed or (hits > 0 and not statement.conditional)
        case ExceptionAsk(), ExceptionTruth():
            module = program.module(truth.origin.file)
            own = module.raising_lines(ask.function) if module is not None and ask.function else []
            return own == [truth.origin.line]
        case RootCauseAsk(), _:
            return len({stop.statement.place for stop in runs.first.stops}) <= FEW_STATEMENTS
    return False


def value_is_readable(
    ask: ValueAsk, truth: ValueTruth, varies: bool, program: Program, test: str
) -> bool:
    """Whether a value needs no run. It is dropped if

    1. anybody would guess it: None, True, False, -1, 0, 1, 2, an empty text or container, unless
       the expression had other values at other stops of the same line (`varies`), so that the visit
       decides;
    2. it is a literal, in any notation, in the function in question, in one of its defaults, at
       module or class level, in the function of the test, or in the fixtures and constants next to
       it (an argument that the test passes on, the expected result of an assertion). None, True and
       False occur in most functions: at a later visit they are kept if they vary;
    3. it is a function, a class or a module, since its name gives it away.
    """
    value = parse_value(truth.text)
    if truth.type in CODE_TYPES or isinstance(value, Name):
        return True
    if not varies and any(same(value, parse_value(guess)) for guess in GUESSED):
        return True
    if varies and ask.hit > 1 and isinstance(value, bool | None):
        return False
    written = program.written_out(ask.place.file, ask.place.function, test)
    return any(same(value, literal) for literal in written)


class Chooser:
    """The questions of one bug, and what became of all candidates."""

    def __init__(self, instance: Instance, config: QuestionsConfig) -> None:
        self.asked: Counter[Category] = Counter()
        self.dropped: dict[Category, Counter[Drop]] = defaultdict(Counter)
        self._instance, self._config = instance, config
        self._rng = random.Random(f"{config.seed}\0{instance.benchmark}\0{instance.id}")
        self._kept: list[tuple[Question, object]] = []
        """Questions and their groups."""
        self._known: set[tuple[object, ...]] = set()

    def add_runs(self, runs: Runs) -> None:
        """Check every candidate about the buggy program against both runs."""
        asks = list(candidates(runs.first, runs.program))
        self._rng.shuffle(asks)
        for category, ask in asks:
            finding = self._agreed(category, ask, runs)
            if finding is not None:
                readable = is_readable(ask, finding.truth, runs)
                self._keep(category, ask, finding, runs, readable)
        truth = root_cause(self._instance, runs.first, runs.program)
        finding = root_cause_finding(truth, runs.first, runs.second) if truth is not None else None
        if finding is not None and runs.first.failed and runs.second.failed:
            self.asked[Category.ROOT_CAUSE] += 1
            readable = is_readable(RootCauseAsk(), finding.truth, runs)
            self._keep(Category.ROOT_CAUSE, RootCauseAsk(), finding, runs, readable)

    def add_fix(self, runs: Runs, passes: bool) -> None:
        """Check every candidate about a changed program's values against both runs, and how the
        test fails with a change that is no fix.
        """
        if passes is runs.first.failed or passes is runs.second.failed:
            return
        failures: list[Candidate] = [
            (Category.EXCEPTION, ExceptionAsk(ends_test=True)),
            (Category.ASSERTION, AssertionAsk()),
        ]
        for category, failure in failures if not passes else ():
            finding = self._agreed(category, failure, runs)
            if finding is not None:
                self._keep(category, failure, finding, runs, readable=False)
        asks = [ask for _, ask in candidates(runs.first, runs.program)]
        self._rng.shuffle(asks)
        for ask in asks:
            if not isinstance(ask, ValueAsk) or ask.after:
                continue
            finding = self._agreed(Category.POST_FIX, ask, runs)
            if finding is not None and isinstance(finding.truth, ValueTruth):
                readable = is_readable(ask, finding.truth, runs)
                truth = PostFixTruth(passes=passes, value=finding.truth)
                found = replace(finding, truth=truth)
                self._keep(Category.POST_FIX, PostFixAsk(value=ask), found, runs, readable)

    def questions(self) -> list[Question]:
        """The chosen questions, up to the limit of each category and as different as possible: one
        from each group, then another.
        """
        chosen: list[Question] = []
        for category in Category:
            groups: dict[object, list[Question]] = defaultdict(list)
            for question, group in self._balanced(category):
                groups[group].append(question)
            rounds = zip_longest(*groups.values())
            spread = [each for one in rounds for each in one if each is not None]
            limit = self._config.limits.get(category, self._config.per_category)
            self.dropped[category][Drop.LIMIT] += len(spread[limit:])
            chosen += spread[:limit]
        return chosen

    def _balanced(self, category: Category) -> Iterator[tuple[Question, object]]:
        """Drop surplus "yes" answers on reachability, so that guessing does not pay: per bug, they
        exceed noes by at most one.
        """
        kept = [each for each in self._kept if each[0].category is category]
        truths = [question.truth for question, _ in kept]
        left = max(sum(isinstance(each, ReachTruth) and not each.reached for each in truths), 1)
        for question, group in kept:
            ask, truth = question.ask, question.truth
            plain = isinstance(ask, ReachAsk) and not ask.count
            yes = plain and isinstance(truth, ReachTruth) and truth.reached
            if yes and not left:
                self.dropped[category][Drop.UNBALANCED] += 1
            else:
                left -= yes
                yield question, group

    def _agreed(self, category: Category, ask: TracedAsk, runs: Runs) -> Finding | None:
        """The first run's answer, if there is one and the second run agrees."""
        one = find(ask, runs.first)
        if one is None and not isinstance(ask, ValueAsk):
            return None
        self.asked[category] += 1
        if one is None:
            self.dropped[category][Drop.UNREADABLE] += 1
            return None
        other = find(ask, runs.second)
        place = ask.place if isinstance(ask, ValueAsk) else None
        unsteady = place is not None and (place.file, place.function) in runs.unsteady
        if unsteady or other is None or one.truth != other.truth:
            self.dropped[category][Drop.NONDETERMINISTIC] += 1
            return None
        return one

    def _keep(
        self, category: Category, ask: Ask, finding: Finding, runs: Runs, readable: bool
    ) -> None:
        key = _key(category, ask, finding.truth, runs)
        if readable or key in self._known:
            self.dropped[category][Drop.ON_SOURCE if readable else Drop.DUPLICATE] += 1
            return
        self._known.add(key)
        seed = self._config.seed
        question = write(self._instance, category, ask, finding, runs, seed=seed)
        self._kept.append((question, _group(ask, finding.truth, runs)))


def _group(ask: Ask, truth: Truth, runs: Runs) -> object:
    """Questions of one group are alike."""
    match ask, truth:
        case ReachAsk(place=place), ReachTruth(reached=reached):
            # A skipped line in a function that runs is harder than one in a function that doesn't.
            return reached, (place.file, place.function) in runs.first.entered
        case PostFixAsk(), _:
            return runs.patch
        case ValueAsk(place=place, expression=expression), _:
            return place.file, place.function, expression
    return runs.test


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


def write(
    instance: Instance, category: Category, ask: Ask, finding: Finding, runs: Runs, *, seed: int
) -> Question:
    """The record of a question."""
    seen = finding.seen[0]
    facts = [instance.benchmark, instance.id, runs.test, runs.patch, ask.model_dump_json()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:10]
    rng = random.Random(f"{seed}\0{digest}")
    return Question(
        id=f"{instance.id}.{category}.{digest}",
        benchmark=instance.benchmark,
        instance_id=instance.id,
        instance_hash=instance.hash,
        repository=instance.repository,
        language=instance.language,
        category=category,
        question=_worded(ask, finding.truth, runs, rng),
        test=runs.test,
        hints=_hints(ask, rng),
        patch=runs.patch,
        ask=ask,
        truth=finding.truth,
        evidence=finding.seen,
        difficulty=Difficulty(
            hit=max(seen.hit, 1),
            depth=seen.depth,
            stops=sum(runs.first.hits.values()),
            in_test=seen.place.rpartition(":")[0] in runs.program.tests,
        ),
    )


def _worded(ask: Ask, truth: Truth, runs: Runs, rng: random.Random) -> str:
    """The question's text."""
    about = ask.value if isinstance(ask, PostFixAsk) else ask
    values = {"changed": _changed(runs), "function": getattr(ask, "function", "")}
    if isinstance(about, ValueAsk | ReachAsk):
        place, module = about.place, runs.program.module(about.place.file)
        values |= {"place": str(place), "file": place.file, "line": str(place.line)}
        values["source"] = module.lines[place.line - 1].strip() if module is not None else ""
        values["function"] = place.function
    if isinstance(about, ValueAsk):
        hit = {"hit": str(about.hit), "ordinal": ordinal(about.hit)}
        values |= {"expression": about.expression, **hit}
    match ask:
        case ValueAsk(after=True):
            kind = "after"
        case ValueAsk():
            kind = "first_visit" if ask.hit == 1 else "later_visit"
        case ExceptionAsk():
            kind = "ending_exception" if ask.ends_test else "first_exception"
            kind = "function_exception" if ask.function else kind
        case AssertionAsk():
            compares = getattr(truth, "expected", None) is not None
            kind = "assertion" if compares else "truth_assertion"
        case ReachAsk():
            kind = "count" if ask.count else "reach"
        case RootCauseAsk():
            kind = "root_cause"
        case PostFixAsk():
            kind = "post_fix"
    text = rng.choice(WORDINGS[kind]).format(**values)
    if not values["changed"] or isinstance(ask, PostFixAsk):
        return text
    return f"{rng.choice(WORDINGS['after_edit']).format(**values)} {text}"


def _changed(runs: Runs) -> str:
    """What a patch changed, as `Cart.total` in shop/cart.py; empty without a patch."""
    for path in sorted(changed_paths(runs.patch)) if runs.patch else ():
        module = runs.program.modules.get(path)
        if module is not None:
            changed = changed_lines(reverse_patch(runs.patch))
            statements = [module.at(each.start) for each in changed if each.path == path]
            names = [each.place.function for each in statements if each is not None]
            return f"`{names[0]}` in {path}" if names else path
    return ""


def _hints(ask: Ask, rng: random.Random) -> Hints:
    """What the main agent gives besides the question: sometimes everything, sometimes less."""
    about = ask.value if isinstance(ask, PostFixAsk) else ask
    if not isinstance(about, ValueAsk | ReachAsk):
        return Hints()
    has_line, has_path, has_variables = rng.random() < 0.6, rng.random() < 0.8, rng.random() < 0.5
    variables = (about.expression,) if isinstance(about, ValueAsk) else ()
    return Hints(
        path=about.place.file if has_path else None,
        lines=(about.place.line,) if has_path and has_line else (),
        variables=variables if has_variables else (),
    )
