"""The overlap of a benchmark with training data: `contamination.json`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import computed_field
from rich.table import Table

from collect.benchmarks.base import Instance
from collect.benchmarks.held_out import RepositoryNames, repository_key
from collect.code.patches import PatchError
from collect.code.unified import Hunk, parse
from collect.quantities import counted
from collect.store.atomic_files import write_text
from collect.store.record_lines import StrictRecord
from format.card import markdown_table
from format.contamination.training import TrainingRow

BOUNDS = (0.2, 0.5, 0.8)
"""Shares for which the report counts the bugs above."""


class Shared(StrictRecord):
    """N-grams of a text, each counted once."""

    shared: int
    """N-grams that the training data also has."""
    of: int
    """All n-grams; 0 if the text has fewer words than an n-gram."""
    first_in: str = ""
    """The first training row that has the most of them."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> float | None:
        """From 0 to 1; None if the text is too short."""
        return self.shared / self.of if self.of else None


class BugOverlap(StrictRecord):
    """Overlap of one bug of the benchmark."""

    benchmark: str
    instance_id: str
    repository: str
    same_id: bool
    """A row has the bug's benchmark and id."""
    same_hash: bool
    """A row's bug is identical in all its parts."""
    same_commit: bool
    same_repository: bool
    problem: Shared
    """Overlap of the problem statement."""
    patch: Shared
    """Overlap of the text that the gold patch adds."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> float:
        """1 for the same bug, else the larger share of problem and patch."""
        if self.same_id or self.same_hash:
            return 1.0
        return max(self.problem.share or 0.0, self.patch.share or 0.0)

    @property
    def in_training(self) -> bool:
        """Whether the training data has anything of it; the same repository is enough."""
        same = self.same_id or self.same_hash or self.same_commit or self.same_repository
        return same or self.share > 0


class ContaminationReport(StrictRecord):
    """Overlap of all bugs of a benchmark."""

    training: tuple[str, ...]
    """The sources of the training data."""
    rows: int
    ngram_words: int
    bugs: tuple[BugOverlap, ...]

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def problem(self) -> Shared:
        """Total over all problem statements."""
        return _sum(bug.problem for bug in self.bugs)

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def patch(self) -> Shared:
        """Total over all patches."""
        return _sum(bug.patch for bug in self.bugs)

    @property
    def worst(self) -> tuple[BugOverlap, ...]:
        """All bugs, largest share first."""
        return tuple(sorted(self.bugs, key=lambda bug: -bug.share))

    def over(self, share: float) -> int:
        """Number of bugs with a larger share than this."""
        return sum(bug.share > share for bug in self.bugs)

    def counts(self) -> dict[str, int]:
        """Number of bugs in the training data, by kind of evidence."""
        kinds: dict[str, Callable[[BugOverlap], object]] = {
            "same id": lambda bug: bug.same_id,
            "same in all parts (hash)": lambda bug: bug.same_hash,
            "same commit": lambda bug: bug.same_commit,
            "same repository": lambda bug: bug.same_repository,
            "any n-gram of the problem": lambda bug: bug.problem.shared,
            "any n-gram of the patch": lambda bug: bug.patch.shared,
            "problem too short for n-grams": lambda bug: not bug.problem.of,
            "patch too short for n-grams": lambda bug: not bug.patch.of,
        }
        counted = {name: sum(map(bool, map(test, self.bugs))) for name, test in kinds.items()}
        return counted | {f"share over {bound:.0%}": self.over(bound) for bound in BOUNDS}


def _sum(parts: Iterable[Shared]) -> Shared:
    counted = [(part.shared, part.of) for part in parts]
    return Shared(shared=sum(n for n, _ in counted), of=sum(n for _, n in counted))


# Word n-grams as hashes, and an index of those seen.
#
# Texts are compared as runs of N words in lower case, without white space, punctuation and the line
# numbers that tools put before code. N = 13 as in GPT-3 (arXiv:2005.14165, appendix C) and most
# later work; in code that is two to four lines. Punctuation doesn't count as a word, else 13 words
# could be one line, `for i in range(len(x)):`, which any program may contain.


WORDS = 13
Hashes = NDArray[np.uint64]
"""A 64-bit hash per n-gram. Like Python's own hashes, they are valid in this process only."""
NONE = np.empty(0, np.uint64)

_WORD = re.compile(r"\w+")
_LINE_NUMBER = re.compile(r"^[ \t]*\d+[ \t]*[:|>]?(?=\s)", re.MULTILINE)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SIEVE_BITS = 22


def words(text: str) -> list[str]:
    """The words that form n-grams."""
    return _WORD.findall(_LINE_NUMBER.sub("", text).lower())


def ngrams(found: Sequence[str], length: int = WORDS) -> Hashes:
    """The hash of every run of `length` words, in order; empty if there are fewer words."""
    count = len(found) - length + 1
    if count < 1:
        return NONE
    each = np.fromiter(map(hash, found), np.int64, len(found)).astype(np.uint64)
    total = np.zeros(count, np.uint64)
    for start in range(length):
        total = total * _FACTOR + each[start : start + count]
    return total


def changed_ngrams(patch: str, length: int = WORDS) -> Hashes:
    """The n-grams that a patch adds, each once: they reveal the fix.

    The lines around a change belong to the repository, which other bugs share. Empty if the patch
    is not a unified diff.
    """
    hunks = _hunks(patch)
    before = _joined(ngrams(words("".join(hunk.old)), length) for hunk in hunks)
    after = _joined(ngrams(words("".join(hunk.new)), length) for hunk in hunks)
    return np.setdiff1d(after, before)


def patch_texts(patch: str) -> list[str]:
    """The texts before and after a patch; the patch itself if it is not a unified diff."""
    hunks = _hunks(patch)
    sides = [side for hunk in hunks for side in (hunk.old, hunk.new)]
    return ["".join(lines) for lines in sides] or [patch]


class SeenNgrams:
    """Notes which of a fixed set of n-grams a stream of texts contains, and in which text first.

    Memory grows with the set, not with the stream: about 20 bytes per n-gram.
    """

    def __init__(self, wanted: Iterable[Hashes]) -> None:
        self._wanted = np.unique(_joined(wanted))
        self._first = np.full(len(self._wanted), -1, np.int32)
        self._sources: list[str] = []
        # Most n-grams of a stream are not wanted: a small table rules them out quickly.
        self._sieve = np.zeros(1 << _SIEVE_BITS, np.bool_)
        self._sieve[self._wanted >> np.uint64(64 - _SIEVE_BITS)] = True

    def see(self, found: Hashes, source: str) -> None:
        """Note the n-grams of a text; `source` names it."""
        found = found[self._sieve[found >> np.uint64(64 - _SIEVE_BITS)]]
        if not len(found):
            return
        places = np.minimum(np.searchsorted(self._wanted, found), len(self._wanted) - 1)
        places = places[self._wanted[places] == found]
        new = places[self._first[places] < 0]
        if len(new):
            if not self._sources or self._sources[-1] != source:
                self._sources.append(source)
            self._first[new] = len(self._sources) - 1

    def shared(self, wanted: Hashes) -> tuple[int, str]:
        """How many of these n-grams were seen, and the text that was first to have the most of
        them."""
        first = self._first[np.searchsorted(self._wanted, wanted)]
        first = first[first >= 0]
        if not len(first):
            return 0, ""
        return len(first), self._sources[int(np.bincount(first).argmax())]


def _joined(parts: Iterable[Hashes]) -> Hashes:
    return np.concatenate([NONE, *parts])


def _hunks(patch: str) -> list[Hunk]:
    try:
        return [hunk for file in parse(patch) for hunk in file.hunks]
    except PatchError:
        return []


# Compare a benchmark with training data, bug by bug. The benchmark's n-grams stay in memory while
# the training rows are streamed.


COMMIT_PREFIX = 7
"""Minimum length of a common prefix that makes two commit names the same."""


@dataclass(frozen=True)
class _Wanted:
    """N-grams of one bug, each once."""

    instance: Instance
    problem: Hashes
    patch: Hashes


@dataclass
class _SeenFacts:
    """Facts about bugs that the training data shares with the benchmark."""

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
    """Compare a benchmark's instances with training rows by n-grams of `length` words.

    `training` names the rows' sources. Raises ConfigError if they can't be read.
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
    """The names by which training data may refer to the benchmark's bugs."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._ids = {(bug.benchmark, bug.id) for bug in instances}
        self._by_id: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for bug in instances:
            self._by_id[bug.id].add((bug.benchmark, bug.id))
        self._hashes = {bug.hash for bug in instances}
        self._repositories = RepositoryNames(bug.repository for bug in instances)

    def note(self, row: TrainingRow, facts: _SeenFacts) -> None:
        """Note what a row shares with the benchmark; a row without a benchmark name may be of
        any."""
        if row.benchmark:
            facts.ids |= {(row.benchmark, row.instance_id)} & self._ids
        else:
            facts.ids |= self._by_id.get(row.instance_id, set())
        facts.hashes |= {row.instance_hash} & self._hashes
        if row.repository and row.repository in self._repositories:
            facts.repositories.add(repository_key(row.repository))


class _Commits:
    """The benchmark's commits, also by abbreviated names."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._known: dict[str, set[str]] = defaultdict(set)
        for bug in instances:
            if len(bug.commit) >= COMMIT_PREFIX:
                self._known[bug.commit[:COMMIT_PREFIX].lower()].add(bug.commit)

    def same_as(self, commit: str) -> set[str]:
        """Commits that match, where either name may be abbreviated."""
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


# A contamination report as a table for a terminal, and as files.


SHOWN_BUGS = 15
SHOWN_IN_FILE = 200
HEADER = ("bug", "repository", "same", "problem", "patch", "seen first in")


def report_tables(report: ContaminationReport) -> tuple[Table, ...]:
    """The counts, and the bugs with the largest shares if there are any."""
    counts = Table("of the benchmark", "bugs", title=_title(report))
    for name, count in report.counts().items():
        counts.add_row(name, str(count))
    found = [bug for bug in report.worst if bug.in_training]
    if not found:
        return (counts,)
    worst = Table(*HEADER, title="the largest shares")
    for column in worst.columns:
        column.overflow = "fold"
    for bug in found[:SHOWN_BUGS]:
        worst.add_row(*_cells(bug))
    return counts, worst


def totals(report: ContaminationReport) -> str:
    """One line with the shares over all bugs."""
    return (
        f"{report.ngram_words}-grams in the training data: {_percent(report.problem)} of the "
        f"problems, {_percent(report.patch)} of the patches"
    )


def write_report(report: ContaminationReport, stem: Path) -> tuple[Path, Path]:
    """Write `STEM.json`, with every bug, and `STEM.md`."""
    paths = stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.md")
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_text(paths[0], report.model_dump_json(indent=1) + "\n")
    write_text(paths[1], _markdown(report))
    return paths


def _markdown(report: ContaminationReport) -> str:
    counts = [[name, f"{count:,}"] for name, count in report.counts().items()]
    shown = f" (the {SHOWN_IN_FILE} largest)" if len(report.bugs) > SHOWN_IN_FILE else ""
    parts = [
        f"# {_title(report)}",
        f"Training data: {', '.join(report.training)}; {counted(report.rows, 'row')}.",
        f"{totals(report)}.",
        markdown_table(["of the benchmark", "bugs"], counts),
        f"## Bugs by share{shown}",
        markdown_table(list(HEADER), [_cells(bug) for bug in report.worst[:SHOWN_IN_FILE]]),
    ]
    return "\n\n".join(parts) + "\n"


def _title(report: ContaminationReport) -> str:
    names = ", ".join(sorted({bug.benchmark for bug in report.bugs}))
    bugs, rows = counted(len(report.bugs), "bug"), counted(report.rows, "training row")
    return f"{bugs} of {names} against {rows}"


def _cells(bug: BugOverlap) -> list[str]:
    kinds = {"id": bug.same_id, "hash": bug.same_hash, "commit": bug.same_commit}
    same = [
        name for name, is_same in {**kinds, "repository": bug.same_repository}.items() if is_same
    ]
    larger = max(bug.problem, bug.patch, key=lambda part: part.share or 0.0)
    shares = (_share(bug.problem), _share(bug.patch))
    return [bug.instance_id, bug.repository, ", ".join(same), *shares, larger.first_in]


def _share(part: Shared) -> str:
    return "too short" if part.share is None else f"{part.share:.0%}"


def _percent(part: Shared) -> str:
    return "none" if part.share is None else f"{part.share:.1%} ({part.shared:,} of {part.of:,})"
