"""The overlap of a benchmark with training data: `contamination.json`.

The benchmark's n-grams stay in memory while the training rows are streamed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import computed_field
from rich.table import Table

from collect.benchmarks.base import Instance
from collect.benchmarks.held_out import RepositoryNames, repository_key
from collect.benchmarks.row_files import SUFFIXES, file_rows
from collect.code.patches import Hunk, PatchError, parse
from collect.errors import ConfigError
from collect.quantities import counted
from collect.store.files import StrictRecord, refuse_links
from format.dataset import read_rows, split_file
from format.duplicates import Hashes, runs_of

# Training data of several kinds as one stream of rows, with each row's texts and bug.


COLUMNS = {
    "benchmark": ("benchmark",),
    "instance_id": ("instance_id", "task_id", "question_id", "bug_id", "id"),
    "instance_hash": ("instance_hash", "hash"),
    "repository": ("repository", "repo", "repo_name"),
    "commit": ("base_commit", "commit", "commit_hash"),
}
"""Column names for a row's bug in published data sets."""
PATCHES = ("patch", "gold_patch", "bug_patch")


@dataclass(frozen=True)
class TrainingRow:
    """One row of training data; empty strings for unknown values."""

    source: str
    """The row's name in a report."""
    texts: tuple[str, ...]
    patches: tuple[str, ...] = ()
    """Unified diffs."""
    benchmark: str = ""
    instance_id: str = ""
    instance_hash: str = ""
    repository: str = ""
    commit: str = ""


def instance_rows(instances: Iterable[Instance]) -> Iterator[TrainingRow]:
    for bug in instances:
        yield TrainingRow(
            f"{bug.benchmark} {bug.id}",
            (bug.problem_statement,),
            (bug.gold_patch,) if bug.gold_patch else (),
            bug.benchmark,
            bug.id,
            bug.hash,
            bug.repository,
            bug.commit,
        )


def rows_of(path: Path) -> Iterator[TrainingRow]:
    """The rows of training data, streamed. Raises ConfigError.

    Accepts a run folder or its `sft/` folder (the train split), and files of rows (.parquet,
    .jsonl, .jsonl.gz, .json, .csv) or a folder of them.
    """
    if (path / "rollouts").is_dir() or (path / "sft").is_dir():
        refuse_links(path)
        yield from _sft_rows(path / "sft")
    elif (path / "data").is_dir():
        yield from _sft_rows(path)
    else:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        files = [file for file in inside if file.is_file() and file.name.endswith(SUFFIXES)]
        if not files:
            raise ConfigError(
                f"{path} is no training data: give a run folder, its sft folder, a benchmark's "
                f"config, or a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, or "
                "a folder of such files"
            )
        for file in files:
            yield from _file_rows(file)


def _sft_rows(folder: Path) -> Iterator[TrainingRow]:
    facts = ("benchmark", "instance_id", "instance_hash", "repository")
    for row in read_rows(split_file(folder, "train"), ("messages", "conversation_id", *facts)):
        source, texts = f"row {row['conversation_id']}", tuple(_texts(row["messages"]))
        yield TrainingRow(source, texts, **{name: row[name] for name in facts})


def _file_rows(file: Path) -> Iterator[TrainingRow]:
    for where, row in file_rows(file, "--training"):
        if not isinstance(row, dict):
            raise ConfigError(f"{where}: must be an object with named columns")
        texts = {name: value for name, value in row.items() if isinstance(value, str)}
        facts = {
            name: next((texts[column] for column in columns if column in texts), "")
            for name, columns in COLUMNS.items()
        }
        patches = tuple(texts[name] for name in PATCHES if texts.get(name))
        named = f" ({facts['instance_id']})" if facts["instance_id"] else ""
        source = where.removeprefix(f"{file.parent}/")
        yield TrainingRow(f"{source}{named}", tuple(_texts(row)), patches, **facts)


def _texts(value: object) -> Iterator[str]:
    """Every string in nested lists and objects, except keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


# Word n-grams as hashes, and an index of those seen.
#
# Texts are compared as runs of N words in lower case, without white space, punctuation and the line
# numbers that tools put before code. N = 13 as in GPT-3 (arXiv:2005.14165, appendix C) and most
# later work; in code that is two to four lines. With punctuation as words 13 could be one line.


WORDS = 13
NONE = np.empty(0, np.uint64)

_WORD = re.compile(r"\w+")
_LINE_NUMBER = re.compile(r"^[ \t]*\d+[ \t]*[:|>]?(?=\s)", re.MULTILINE)


def words(text: str) -> list[str]:
    return _WORD.findall(_LINE_NUMBER.sub("", text).lower())


def ngrams(found: Sequence[str], length: int = WORDS) -> Hashes:
    """The hash of every run of `length` words, in order; valid in this process only, like Python's
    own hashes. Empty if there are fewer words."""
    return runs_of(np.fromiter(map(hash, found), np.int64, len(found)).astype(np.uint64), length)


def hunks_of(patch: str) -> list[Hunk]:
    """All hunks of a patch; none if it is not a unified diff."""
    try:
        return [hunk for file in parse(patch) for hunk in file.hunks]
    except PatchError:
        return []


def changed_ngrams(patch: str, length: int = WORDS) -> Hashes:
    """The n-grams that a patch adds, each once: they reveal the fix.

    The lines around a change belong to the repository, which other bugs share. Empty if the patch
    is not a unified diff.
    """
    hunks = hunks_of(patch)
    before = [ngrams(words("".join(hunk.old)), length) for hunk in hunks]
    after = [ngrams(words("".join(hunk.new)), length) for hunk in hunks]
    return np.setdiff1d(np.concatenate([NONE, *after]), np.concatenate([NONE, *before]))


def patch_texts(patch: str) -> list[str]:
    """The texts before and after a patch; the patch itself if it is not a unified diff."""
    sides = [side for hunk in hunks_of(patch) for side in (hunk.old, hunk.new)]
    return ["".join(lines) for lines in sides] or [patch]


class SeenNgrams:
    """Notes which of a fixed set of n-grams a stream of texts contains, and in which text first."""

    def __init__(self, wanted: Iterable[Hashes]) -> None:
        self._wanted = np.unique(np.concatenate([NONE, *wanted]))
        self._first: dict[int, str] = {}

    def see(self, found: Hashes, source: str) -> None:
        starts = np.searchsorted(self._wanted, found, "left")
        ends = np.searchsorted(self._wanted, found, "right")
        for each in found[starts < ends].tolist():
            self._first.setdefault(each, source)

    def shared(self, wanted: Hashes) -> Shared:
        first = [self._first[each] for each in wanted.tolist() if each in self._first]
        source = Counter(first).most_common(1)[0][0] if first else ""
        return Shared(shared=len(first), of=len(wanted), first_in=source)


# Compare a benchmark with training data, bug by bug.


BOUNDS = (0.2, 0.5, 0.8)
"""Shares for which the report counts the bugs above."""
COMMIT_PREFIX = 7
"""Minimum length of a common prefix that makes two commit names the same."""


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
    patch: Shared
    """Overlap of the text that the gold patch adds."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> float:
        """1 for the same bug, else the larger share of problem and patch."""
        if self.same_id or self.same_hash:
            return 1.0
        return max(self.problem.share or 0.0, self.patch.share or 0.0)


class ContaminationReport(StrictRecord):
    training: tuple[str, ...]
    rows: int
    ngram_words: int
    bugs: tuple[BugOverlap, ...]

    @property
    def worst(self) -> list[BugOverlap]:
        return sorted(self.bugs, key=lambda bug: -bug.share)

    def counts(self) -> dict[str, int]:
        """Number of bugs in the training data, by kind of evidence."""
        bugs = self.bugs
        found = {
            "same id": sum(bug.same_id for bug in bugs),
            "same in all parts (hash)": sum(bug.same_hash for bug in bugs),
            "same commit": sum(bug.same_commit for bug in bugs),
            "same repository": sum(bug.same_repository for bug in bugs),
            "any n-gram of the problem": sum(bug.problem.shared > 0 for bug in bugs),
            "any n-gram of the patch": sum(bug.patch.shared > 0 for bug in bugs),
            "problem too short for n-grams": sum(not bug.problem.of for bug in bugs),
            "patch too short for n-grams": sum(not bug.patch.of for bug in bugs),
        }
        over = {bound: sum(bug.share > bound for bug in bugs) for bound in BOUNDS}
        return found | {f"share over {bound:.0%}": count for bound, count in over.items()}


def measure(
    instances: Sequence[Instance],
    rows: Iterable[TrainingRow],
    training: Sequence[str],
    length: int = WORDS,
) -> ContaminationReport:
    """Compare a benchmark's instances with training rows by n-grams of `length` words.

    `training` names the rows' sources. Raises ConfigError if they can't be read.
    """
    problems = [np.unique(ngrams(words(bug.problem_statement), length)) for bug in instances]
    patches = [changed_ngrams(bug.gold_patch, length) for bug in instances]
    seen = SeenNgrams([*problems, *patches])
    # A row without a benchmark's name may be of any benchmark.
    our_ids = {(name, bug.id) for bug in instances for name in (bug.benchmark, "")}
    our_hashes = {bug.hash for bug in instances}
    our_repositories = RepositoryNames(bug.repository for bug in instances)
    our_commits: dict[str, set[str]] = defaultdict(set)
    for bug in instances:
        if len(bug.commit) >= COMMIT_PREFIX:
            our_commits[bug.commit[:COMMIT_PREFIX].lower()].add(bug.commit.lower())
    ids = set[tuple[str, str]]()
    hashes, commits, names = set[str](), set[str](), set[str]()
    count = 0
    for row in rows:
        count += 1
        ids |= {(row.benchmark, row.instance_id)} & our_ids
        hashes |= {row.instance_hash} & our_hashes
        if row.repository and row.repository in our_repositories:
            names.add(repository_key(row.repository))
        # Either commit's name may be abbreviated.
        commit = row.commit.lower()
        for known in our_commits.get(commit[:COMMIT_PREFIX], ()):
            if known.startswith(commit) or commit.startswith(known):
                commits.add(known)
        for text in (*row.texts, *(part for patch in row.patches for part in patch_texts(patch))):
            seen.see(ngrams(words(text), length), row.source)
    repositories = RepositoryNames(names)
    overlaps = [
        BugOverlap(
            benchmark=bug.benchmark,
            instance_id=bug.id,
            repository=bug.repository,
            same_id=not ids.isdisjoint({(bug.benchmark, bug.id), ("", bug.id)}),
            same_hash=bug.hash in hashes,
            same_commit=bug.commit.lower() in commits,
            same_repository=bug.repository in repositories,
            problem=seen.shared(problem),
            patch=seen.shared(patch),
        )
        for bug, problem, patch in zip(instances, problems, patches, strict=True)
    ]
    return ContaminationReport(
        training=tuple(training), rows=count, ngram_words=length, bugs=tuple(overlaps)
    )


# A contamination report as tables for a terminal.


SHOWN_BUGS = 15


def report_tables(report: ContaminationReport) -> tuple[Table, ...]:
    names = ", ".join(sorted({bug.benchmark for bug in report.bugs}))
    bugs, rows = counted(len(report.bugs), "bug"), counted(report.rows, "training row")
    title = f"{bugs} of {names} against {rows}"
    counts = Table("of the benchmark", "bugs", title=title)
    for name, count in report.counts().items():
        counts.add_row(name, str(count))
    columns = ("bug", "repository", "same", "problem", "patch", "seen first in")
    worst = Table(*columns, title="the largest shares")
    for bug in report.worst[:SHOWN_BUGS]:
        worst.add_row(*_cells(bug))
    return counts, worst


def _cells(bug: BugOverlap) -> list[str]:
    same = [name for name in ("id", "hash", "commit", "repository") if getattr(bug, f"same_{name}")]
    parts = (bug.problem, bug.patch)
    shares = ["too short" if each.share is None else f"{each.share:.0%}" for each in parts]
    larger = max(parts, key=lambda part: part.share or 0.0)
    return [bug.instance_id, bug.repository, ", ".join(same), *shares, larger.first_in]
