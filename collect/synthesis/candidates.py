"""Select the edits of a project to try, and the tests to run for each."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collect.benchmarks.base import Language
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.project import Project
from collect.errors import ConfigError
from collect.synthesis.java_mutations import find_java_mutations
from collect.synthesis.mutations import (
    CombinedMutation,
    Mutation,
    chosen,
    combined,
    find_project_mutations,
)
from collect.synthesis.suite import Suite

FINDERS: Mapping[Language, Callable[[str, str], list[Mutation]]] = {
    "python": find_project_mutations,
    "java": find_java_mutations,
}
"""Finds every mutation of a file, from its text and path; raises ConfigError."""

Place = tuple[str, str]
"""A file, and the qualified name of a function or class in it."""
TRIES_PER_FUNCTION = 3
"""Candidates tried in one function for each bug that may be kept there."""
TEST_SECONDS = 4.0
"""Limit for the tests of one candidate, by their duration in the unedited project."""


@dataclass(frozen=True)
class Candidate:
    """One edited version of a project."""

    mutation: Mutation | CombinedMutation
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
    def places(self) -> set[Place]:
        """The place of each edit."""
        return {(part.path, part.scope) for part in self.parts}

    @property
    def parts(self) -> tuple[Mutation, ...]:
        """The single edits."""
        mutation = self.mutation
        return mutation.parts if isinstance(mutation, CombinedMutation) else (mutation,)


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
    mutations, unread = _mutations(project, suite)
    seed = f"{config.seed}:{project.source.name}"
    reach = _Reach(suite, config, seed)
    reached = [mutation for mutation in mutations if reach.of(mutation)]
    per_scope = config.bugs_per_function * TRIES_PER_FUNCTION
    single = chosen(reached, seed, config.candidates_per_project, per_scope=per_scope)
    pairs = _pairs(single, seed, round(config.combined_share * len(single)))
    order = list(_mixed(single, pairs))[: config.candidates_per_project]
    candidates = []
    for mutation in order:
        parts = mutation.parts if isinstance(mutation, CombinedMutation) else (mutation,)
        covering = frozenset().union(*map(reach.of, parts))
        candidates.append(Candidate(mutation, reach.sample(covering), len(covering)))
    return Candidates(candidates, len(mutations), len(reached), unread)


def _mutations(project: Project, suite: Suite) -> tuple[list[Mutation], tuple[str, ...]]:
    find = FINDERS[project.language]
    found: list[Mutation] = []
    unread = []
    for path in project.code_paths:
        if path not in suite.lines:
            continue
        try:
            found += find(project.source.files[path].decode(), path)
        except (ConfigError, UnicodeDecodeError):
            unread.append(path)
    return found, tuple(unread)


def _pairs(single: Sequence[Mutation], seed: str, count: int) -> list[CombinedMutation]:
    """Pairs within files, alternating between the files."""
    by_path: dict[str, list[Mutation]] = {}
    for mutation in single:
        by_path.setdefault(mutation.path, []).append(mutation)
    share = -(-count // max(len(by_path), 1))
    found = [list(combined(each, f"{seed}:{path}", share)) for path, each in by_path.items()]
    turns = max(map(len, found), default=0)
    return [pairs[turn] for turn in range(turns) for pairs in found if turn < len(pairs)][:count]


def _mixed(
    single: Sequence[Mutation], pairs: Sequence[CombinedMutation]
) -> Iterator[Mutation | CombinedMutation]:
    """Single edits, with pairs of edits at even distances."""
    step = len(single) // len(pairs) if pairs else 0
    waiting = iter(pairs)
    for number, mutation in enumerate(single, start=1):
        yield mutation
        if step and number % step == 0:
            yield from [pair] if (pair := next(waiting, None)) else []


class _Reach:
    """Which tests run which code."""

    def __init__(self, suite: Suite, config: FactoryConfig, seed: str) -> None:
        self._suite = suite
        self._config = config
        self._seed = seed

    def of(self, mutation: Mutation) -> frozenset[int]:
        """The tests that run the edited line. For the header of a function or class, or
        module-level code, all tests that run the code below it: the line itself runs only during
        import."""
        lines = self._suite.lines.get(mutation.path, {})
        first, last = mutation.scope_lines
        if not mutation.scope:
            return _union(lines, lines)
        if mutation.line in lines:
            return frozenset(lines[mutation.line])
        inside = [line for line in lines if first <= line <= last]
        # Coverage reports a statement of several lines at its first line.
        before = max((line for line in inside if line <= mutation.line), default=None)
        if before is None or mutation.line <= first:
            return _union(lines, inside)
        return frozenset(lines[before])

    def sample(self, covering: frozenset[int]) -> tuple[str, ...]:
        """At most `max_tests` of them, with a total duration of at most TEST_SECONDS."""
        order = sorted(covering)
        random.Random(self._seed).shuffle(order)
        taken: list[int] = []
        seconds = 0.0
        for number in order:
            test = self._suite.tests[number]
            seconds += self._suite.seconds[test]
            if taken and (len(taken) >= self._config.max_tests or seconds > TEST_SECONDS):
                break
            taken.append(number)
        return tuple(self._suite.tests[number] for number in sorted(taken))


def _union(lines: Mapping[int, tuple[int, ...]], wanted: Iterable[int]) -> frozenset[int]:
    return frozenset(test for line in wanted for test in lines[line])
