"""Writes a chosen question: its wording, hints and record."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines, changed_paths, reverse_patch
from collect.question_records import (
    Ask,
    AssertionAsk,
    Category,
    Difficulty,
    ExceptionAsk,
    Hints,
    PostFixAsk,
    Question,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)
from collect.questions.claims import ordinal
from collect.questions.tracing import Runs
from collect.questions.truths import Finding

WORDINGS: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("wordings.yaml").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Kept:
    """A candidate that has passed the rules."""

    category: Category
    ask: Ask
    finding: Finding
    runs: Runs


def write(instance: Instance, seed: int, kept: Kept) -> Question:
    """The record of a chosen question."""
    runs, ask, seen = kept.runs, kept.ask, kept.finding.seen
    facts = [instance.benchmark, instance.id, runs.test, runs.patch, ask.model_dump_json()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:10]
    rng = random.Random(f"{seed}\0{digest}")
    return Question(
        id=f"{instance.id}.{kept.category}.{digest}",
        benchmark=instance.benchmark,
        instance_id=instance.id,
        instance_hash=instance.hash,
        repository=instance.repository,
        language=instance.language,
        category=kept.category,
        question=_worded(kept, rng),
        test=runs.test,
        hints=_hints(ask, rng),
        patch=runs.patch,
        ask=ask,
        truth=kept.finding.truth,
        evidence=seen,
        difficulty=Difficulty(
            hit=max(seen[0].hit, 1),
            depth=seen[0].depth,
            stops=sum(runs.first.hits.values()),
            in_test=seen[0].place.rpartition(":")[0] in runs.program.tests,
        ),
    )


def _worded(kept: Kept, rng: random.Random) -> str:
    """The question's text."""
    ask, runs = kept.ask, kept.runs
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
            compares = getattr(kept.finding.truth, "expected", None) is not None
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
