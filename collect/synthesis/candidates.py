"""Select the edits of a project to try, and the tests to run for each."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.project import Project
from collect.errors import ConfigError
from collect.synthesis.java_mutations.finding import find_java_mutations
from collect.synthesis.mutations.base import Mutation
from collect.synthesis.mutations.finding import chosen, combined, find_project_mutations
from collect.synthesis.workbench import Suite

TRIES_PER_FUNCTION = 3
"""Candidates tried in one function for each bug that may be kept there."""
TEST_SECONDS = 4.0
"""Limit for the tests of one candidate, by their duration in the unedited project."""


@dataclass(frozen=True)
class Candidate:
    """One edited version of a project."""

    parts: tuple[Mutation, ...]
    """Edits of one file, in text order."""
    tests: tuple[str, ...]
    """Tests to run, in suite order."""
    covering: int
    """Number of tests that reach the edited code; `tests` may be a sample of them."""

    @property
    def id(self) -> str:
        """8 hex digits, equal for the same edit of the same project."""
        facts = [f"{part.path}\0{part.start}\0{part.end}\0{part.text}" for part in self.parts]
        return hashlib.sha256("\0\0".join(facts).encode()).hexdigest()[:8]

    @property
    def kind(self) -> str:
        """The edits' kinds, joined by "+"."""
        return "+".join(part.kind for part in self.parts)

    @property
    def places(self) -> set[tuple[str, str]]:
        """The file, and the qualified name of the function or class in it, of each edit."""
        return {(part.path, part.scope) for part in self.parts}


@dataclass(frozen=True)
class Candidates:
    """Candidates in the order to try them."""

    chosen: Sequence[Candidate]
    found: int
    """Number of edits that the mutation kinds find."""
    reached: int
    """Number of those edits in code that tests run."""
    unread: tuple[str, ...]
    """Files that can't be parsed."""


def find_candidates(project: Project, suite: Suite, config: FactoryConfig) -> Candidates:
    """At most `candidates_per_project`; deterministic for a project, suite and seed."""
    find = find_java_mutations if project.language == "java" else find_project_mutations
    mutations: list[Mutation] = []
    unread = []
    for path in project.code_paths:
        if path in suite.lines:
            try:
                mutations += find(project.source.files[path].decode(), path)
            except (ConfigError, UnicodeDecodeError):
                unread.append(path)
    seed = f"{config.seed}:{project.source.name}"
    reached = [mutation for mutation in mutations if _reaching(mutation, suite)]
    per_scope = config.bugs_per_function * TRIES_PER_FUNCTION
    single = chosen(reached, seed, config.candidates_per_project, per_scope=per_scope)
    pairs = _pairs(single, seed, round(config.combined_share * len(single)))
    # Single edits, with the pairs at even distances.
    order: list[tuple[Mutation, ...]] = []
    step = len(single) // len(pairs) if pairs else len(single) + 1
    for number, mutation in enumerate(single, start=1):
        order.append((mutation,))
        if number % step == 0 and pairs:
            order.append(pairs.pop(0))
    candidates = []
    for parts in order[: config.candidates_per_project]:
        covering = frozenset().union(*(_reaching(part, suite) for part in parts))
        candidates.append(Candidate(parts, _sample(covering, suite, config, seed), len(covering)))
    return Candidates(candidates, len(mutations), len(reached), tuple(unread))


def _pairs(single: Sequence[Mutation], seed: str, count: int) -> list[tuple[Mutation, Mutation]]:
    """Pairs within files, alternating between the files."""
    by_path: dict[str, list[Mutation]] = {}
    for mutation in single:
        by_path.setdefault(mutation.path, []).append(mutation)
    share = -(-count // max(len(by_path), 1))
    found = [combined(each, f"{seed}:{path}", share) for path, each in by_path.items()]
    return [pair for turn in zip_longest(*found) for pair in turn if pair is not None][:count]


def _reaching(mutation: Mutation, suite: Suite) -> frozenset[int]:
    """The tests that run the edited line. For the header of a function or class, or module-level
    code, all tests that run the code below it: the line itself runs only during import."""
    lines = suite.lines.get(mutation.path, {})
    first, last = mutation.scope_lines
    inside = [line for line in lines if first <= line <= last] if mutation.scope else list(lines)
    if mutation.scope and mutation.line in lines:
        inside = [mutation.line]
    elif mutation.scope and mutation.line > first:
        # Coverage reports a statement of several lines at its first line.
        before = [line for line in inside if line <= mutation.line]
        inside = [max(before)] if before else inside
    return frozenset(test for line in inside for test in lines[line])


def _sample(
    covering: frozenset[int], suite: Suite, config: FactoryConfig, seed: str
) -> tuple[str, ...]:
    """At most `max_tests` of them, with a total duration of at most TEST_SECONDS."""
    order = sorted(covering)
    random.Random(seed).shuffle(order)
    taken: list[int] = []
    seconds = 0.0
    for number in order:
        seconds += suite.seconds[suite.tests[number]]
        if taken and (len(taken) >= config.max_tests or seconds > TEST_SECONDS):
            break
        taken.append(number)
    return tuple(suite.tests[number] for number in sorted(taken))
