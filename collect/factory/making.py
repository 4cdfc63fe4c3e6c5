"""One project through the factory: its suite, its candidates, and which bugs are kept.

Candidates are judged in waves, and what is kept is chosen in their order: the result is the same
however many are judged at once, and wherever an earlier start was killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collect.benchmarks.local_records import LocalBug
from collect.config import Machinery
from collect.factory.candidates import Candidate, Candidates, find_candidates
from collect.factory.config import FactoryConfig, ProjectConfig
from collect.factory.judging import Judge
from collect.factory.languages import arrange, open_workbench
from collect.factory.project import Project, ProjectRefused, Source
from collect.factory.records import ProjectCard, Step
from collect.factory.selection import Selection
from collect.factory.sources import fetch
from collect.factory.suite import Suite
from collect.factory.work import Work, settings_hash
from collect.funnel import funnel
from collect.runner import AsyncioRunner

SHOWN_PROBLEMS = 5
"""On a project's card."""
MIN_WAVE = 8
"""Candidates judged at least before it is asked whether there are enough bugs."""


@dataclass(frozen=True)
class ProjectBugs:
    """What a project gave."""

    card: ProjectCard
    bugs: Sequence[LocalBug] = ()
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The correct tree."""


@dataclass(frozen=True)
class ProjectMaker:
    """Makes the bugs of projects, one after the other."""

    machinery: Machinery
    config: FactoryConfig
    folder: Path
    stop: threading.Event

    def make(self, wanted: ProjectConfig, on_kept: Callable[[int], None]) -> ProjectBugs | None:
        """A project's bugs; where it is refused none, and the reason on the card.

        None where the run was stopped before the end. `on_kept` hears how many there are so far.
        Raises ConfigError where a work file is of other settings, SandboxError.
        """
        source: Source | None = None
        try:
            source = fetch(wanted, self.config)
            project = arrange(wanted, source, self.machinery.sandbox)
            return self._make(project, on_kept)
        except ProjectRefused as refusal:
            return ProjectBugs(_refused(wanted, source, refusal))

    def _make(self, project: Project, on_kept: Callable[[int], None]) -> ProjectBugs | None:
        work = Work(self.folder, project, settings_hash(self.machinery, self.config, project))
        workbench = open_workbench(project, self.machinery.sandbox, self.config)
        began = time.monotonic()
        try:
            suite = work.suite()
            if suite is None:
                suite = workbench.run_suite()
                work.keep_suite(suite)
            candidates = find_candidates(project, suite, self.config)
            judge = Judge(project, suite, workbench, self.config)
            selection = self._select(judge, candidates.chosen, work, on_kept)
        finally:
            work.add_seconds(time.monotonic() - began)
        if self.stop.is_set():
            return None
        card = _card(project, suite, candidates, selection, work.seconds)
        return ProjectBugs(card, selection.kept, project.source.files)

    def _select(
        self,
        judge: Judge,
        candidates: Sequence[Candidate],
        work: Work,
        on_kept: Callable[[int], None],
    ) -> Selection:
        """Judge wave after wave, until there are enough bugs or nothing is left.

        Of a place with enough bugs, no more edits are tried.
        """
        selection = Selection(self.config)
        runner = AsyncioRunner(self.machinery.runner.concurrency, self.stop)
        size = max(MIN_WAVE, self.config.bugs_per_project // 2)
        for start in range(0, len(candidates), size):
            wave = [
                candidate
                for candidate in candidates[start : start + size]
                if not selection.is_crowded(candidate.places)
            ]
            missing = [candidate for candidate in wave if candidate.id not in work.outcomes]
            runner.run(missing, lambda candidate: work.add(judge.judge(candidate)))
            if self.stop.is_set():
                break
            selection.add_all([work.outcomes[candidate.id] for candidate in wave])
            on_kept(len(selection.kept))
            if selection.full:
                break
        return selection


def _refused(wanted: ProjectConfig, source: Source | None, refusal: Exception) -> ProjectCard:
    return ProjectCard(
        name=wanted.place if source is None else source.name,
        version="" if source is None else source.version,
        origin=wanted.place if source is None else source.origin,
        license="" if source is None else source.license,
        refused=str(refusal),
    )


def _card(
    project: Project, suite: Suite, candidates: Candidates, selection: Selection, seconds: float
) -> ProjectCard:
    unread = [f"not parsed: {', '.join(candidates.unread)}"] if candidates.unread else []
    tried = sum(selection.dropped.values()) + len(selection.kept)
    return ProjectCard(
        name=project.source.name,
        version=project.source.version,
        origin=project.source.origin,
        license=project.source.license,
        notes=(*project.notes, *unread, *selection.problems[:SHOWN_PROBLEMS]),
        tests=len(suite.tests),
        failing_tests=suite.failing,
        flaky_tests=suite.flaky,
        edits_found=candidates.found,
        edits_reached=candidates.reached,
        edits_tried=tried,
        steps=funnel(Step, selection.dropped, tried),
        bugs=len(selection.kept),
        seconds=seconds,
    )
