"""From everything that could be asked to the questions that are: the rules, and their funnel."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from collect.benchmarks.base import Instance
from collect.patches import changed_lines, changed_paths, reverse_patch
from collect.questions.asking import candidates, root_cause, root_cause_finding, varying
from collect.questions.config import QuestionsConfig
from collect.questions.program import Program
from collect.questions.readable import (
    exception_is_readable,
    reach_is_readable,
    root_cause_is_readable,
    value_is_readable,
)
from collect.questions.records import (
    Ask,
    AssertionAsk,
    AssertionTruth,
    Category,
    Difficulty,
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
    Truth,
    ValueAsk,
    ValueTruth,
)
from collect.questions.tracing import Trace
from collect.questions.truths import Finding, agree, find
from collect.questions.wording import hints, word


@dataclass(frozen=True)
class Runs:
    """Two runs of one test, in fresh sandboxes."""

    test: str
    program: Program
    first: Trace
    second: Trace
    patch: str = ""
    """What was changed in the workspace before both."""


@dataclass
class Funnel:
    """What became of everything that could be asked about one bug."""

    asked: Counter[Category] = field(default_factory=Counter)
    dropped: Counter[tuple[Category, Drop]] = field(default_factory=Counter)

    def drop(self, category: Category, why: Drop) -> None:
        self.dropped[category, why] += 1


@dataclass(frozen=True)
class _Kept:
    """An ask that has passed the rules."""

    category: Category
    ask: Ask
    finding: Finding
    runs: Runs


class Chooser:
    """The questions of one bug."""

    def __init__(self, instance: Instance, config: QuestionsConfig, funnel: Funnel) -> None:
        self._instance, self._config, self._funnel = instance, config, funnel
        self._rng = random.Random(f"{config.seed}\0{instance.benchmark}\0{instance.id}")
        self._kept: list[_Kept] = []
        self._known: set[tuple[object, ...]] = set()

    def add_runs(self, runs: Runs) -> None:
        """Put every ask about the buggy program to both runs."""
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
        """Put every ask about the values of a changed program to both runs."""
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
        """How the test fails with a change that is no fix."""
        asks: list[tuple[Category, ExceptionAsk | AssertionAsk]] = [
            (Category.EXCEPTION, ExceptionAsk(ends_test=True)),
            (Category.ASSERTION, AssertionAsk()),
        ]
        for category, ask in asks:
            finding = self._agreed(category, ask, runs)
            if finding is not None:
                self._keep(category, ask, finding, runs, readable=False)

    def questions(self) -> list[Question]:
        """The chosen ones, at most the limit of each category."""
        chosen: list[_Kept] = []
        for category in Category:
            kept = [each for each in self._kept if each.category is category]
            picked = _spread(kept, self._config.limit(category))
            for _ in range(len(kept) - len(picked)):
                self._funnel.drop(category, Drop.LIMIT)
            chosen += picked
        return [self._question(each) for each in chosen]

    def _agreed(self, category: Category, ask: Ask, runs: Runs) -> Finding | None:
        """The answer of the first run, where there is one and the second agrees."""
        assert not isinstance(ask, RootCauseAsk | PostFixAsk)
        one = find(ask, runs.first, runs.program)
        if one is None and not isinstance(ask, ValueAsk):
            return None
        self._funnel.asked[category] += 1
        if one is None:
            self._funnel.drop(category, Drop.UNREADABLE)
            return None
        other = find(ask, runs.second, runs.program)
        if other is None or not agree(one.truth, other.truth):
            self._funnel.drop(category, Drop.NONDETERMINISTIC)
            return None
        return one

    def _add_root_cause(self, runs: Runs) -> None:
        truth = root_cause(self._instance, runs.first, runs.program)
        finding = root_cause_finding(truth, runs.first) if truth is not None else None
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
            self._kept.append(_Kept(category, ask, finding, runs))

    def _question(self, kept: _Kept) -> Question:
        instance, runs, ask = self._instance, kept.runs, kept.ask
        facts = [instance.benchmark, instance.id, runs.test, runs.patch, ask.model_dump_json()]
        digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:10]
        rng = random.Random(f"{self._config.seed}\0{digest}")
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


def _spread(kept: Sequence[_Kept], limit: int) -> list[_Kept]:
    """At most `limit`, as different from each other as there are: a round over all groups, then
    another."""
    groups: dict[object, list[_Kept]] = defaultdict(list)
    for each in kept:
        groups[_group(each)].append(each)
    rounds = zip_longest(*groups.values())
    return [each for one in rounds for each in one if each is not None][:limit]


def _group(kept: _Kept) -> object:
    ask, truth = kept.ask, kept.finding.truth
    if isinstance(truth, ReachTruth) and isinstance(ask, ReachAsk):
        # A line that is passed by in a function that runs is harder to tell than one in another.
        entered = (ask.place.file, ask.place.function) in kept.runs.first.entered
        return truth.reached, entered
    if isinstance(ask, PostFixAsk):
        return kept.runs.patch
    if isinstance(ask, ValueAsk):
        return ask.place.file, ask.place.function, ask.expression
    return kept.runs.test


def _key(category: Category, ask: Ask, truth: Truth, runs: Runs) -> tuple[object, ...]:
    """What makes two questions one."""
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


def _source(ask: Ask, program: Program) -> str:
    """The text of the line that is asked about."""
    place = getattr(ask.value if isinstance(ask, PostFixAsk) else ask, "place", None)
    module = program.module(place.file) if place is not None else None
    return module.lines[place.line - 1].strip() if place is not None and module is not None else ""


def _changed(runs: Runs) -> str:
    """`Cart.total in shop/cart.py`: what a patch changed."""
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


def _difficulty(kept: _Kept) -> Difficulty:
    seen = kept.finding.seen[0]
    return Difficulty(
        hit=max(seen.hit, 1),
        depth=seen.depth,
        stops=sum(kept.runs.first.hits.values()),
        in_test=kept.runs.program.tests.get(seen.place.rpartition(":")[0]) is not None,
    )
