"""The overlap of a benchmark with training data, bug by bug.

The n-grams of the benchmark are held, and the training data streams by: a million rows need no more
memory than one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from collect.benchmarks.base import Instance
from collect.held_out import RepositoryNames, repository_key
from format.contamination.ngrams import (
    WORDS,
    Hashes,
    SeenNgrams,
    changed_ngrams,
    ngrams,
    patch_texts,
    words,
)
from format.contamination.report import BugOverlap, ContaminationReport, Shared
from format.contamination.training import TrainingRow

COMMIT_PREFIX = 7
"""Characters that two names of one commit share at least."""


@dataclass(frozen=True)
class _Wanted:
    """The n-grams of one bug, each once."""

    instance: Instance
    problem: Hashes
    patch: Hashes


@dataclass
class _SeenFacts:
    """What the training data says of bugs, as far as the benchmark has it too."""

    rows: int = 0
    ids: set[tuple[str, str]] = field(default_factory=set)
    hashes: set[str] = field(default_factory=set)
    commits: set[str] = field(default_factory=set)
    repositories: set[str] = field(default_factory=set)


def measure(
    instances: Sequence[Instance],
    rows: Iterable[TrainingRow],
    training: Sequence[str],
    length: int = WORDS,
) -> ContaminationReport:
    """Compare a benchmark's instances with training rows by n-grams of so many words.

    `training` names where the rows are from. Raises ConfigError where they can't be read.
    """
    wanted = [_wanted(instance, length) for instance in instances]
    seen = SeenNgrams(hashes for each in wanted for hashes in (each.problem, each.patch))
    facts = _SeenFacts()
    names, commits = _Names(instances), _Commits(instances)
    for row in rows:
        facts.rows += 1
        names.note(row, facts)
        facts.commits |= commits.same_as(row.commit)
        for text in (*row.texts, *(part for patch in row.patches for part in patch_texts(patch))):
            seen.see(ngrams(words(text), length), row.source)
    repositories = RepositoryNames(facts.repositories)
    return ContaminationReport(
        training=tuple(training),
        rows=facts.rows,
        ngram_words=length,
        bugs=tuple(_overlap(each, seen, facts, repositories) for each in wanted),
    )


class _Names:
    """The names that the benchmark's bugs go by."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._ids = {(bug.benchmark, bug.id) for bug in instances}
        self._by_id: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for bug in instances:
            self._by_id[bug.id].add((bug.benchmark, bug.id))
        self._hashes = {bug.hash for bug in instances}
        self._repositories = RepositoryNames(bug.repository for bug in instances)

    def note(self, row: TrainingRow, facts: _SeenFacts) -> None:
        """Note what a row shares with the benchmark; one that names no benchmark is of any."""
        if row.benchmark:
            facts.ids |= {(row.benchmark, row.instance_id)} & self._ids
        else:
            facts.ids |= self._by_id.get(row.instance_id, set())
        facts.hashes |= {row.instance_hash} & self._hashes
        if row.repository and row.repository in self._repositories:
            facts.repositories.add(repository_key(row.repository))


class _Commits:
    """The benchmark's commits, also by a part of their names."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._known: dict[str, set[str]] = defaultdict(set)
        for bug in instances:
            if len(bug.commit) >= COMMIT_PREFIX:
                self._known[bug.commit[:COMMIT_PREFIX].lower()].add(bug.commit)

    def same_as(self, commit: str) -> set[str]:
        """Those that are the same, where one of both names may be cut short."""
        name = commit.lower()
        return {
            known
            for known in self._known.get(name[:COMMIT_PREFIX], ())
            if known.lower().startswith(name) or name.startswith(known.lower())
        }


def _wanted(instance: Instance, length: int) -> _Wanted:
    problem = np.unique(ngrams(words(instance.problem_statement), length))
    return _Wanted(instance, problem, changed_ngrams(instance.gold_patch, length))


def _overlap(
    wanted: _Wanted, seen: SeenNgrams, facts: _SeenFacts, repositories: RepositoryNames
) -> BugOverlap:
    bug = wanted.instance
    problem, problem_source = seen.shared(wanted.problem)
    patch, patch_source = seen.shared(wanted.patch)
    return BugOverlap(
        benchmark=bug.benchmark,
        instance_id=bug.id,
        repository=bug.repository,
        same_id=(bug.benchmark, bug.id) in facts.ids,
        same_hash=bug.hash in facts.hashes,
        same_commit=bug.commit in facts.commits,
        same_repository=bug.repository in repositories,
        problem=Shared(shared=problem, of=len(wanted.problem), first_in=problem_source),
        patch=Shared(shared=patch, of=len(wanted.patch), first_in=patch_source),
    )
