"""A project's work in progress on disk: its suite, and the outcomes so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from collect.build_info import code_version
from collect.config import Machinery
from collect.digest import digest
from collect.durable import write_text
from collect.factory.config import FactoryConfig
from collect.factory.project import Project
from collect.factory.records import Outcome
from collect.factory.suite import Suite
from collect.work_file import WorkFile

WORK_FOLDER = ".work"
ADVICE = (
    "other factory or sandbox settings, or of another version of StepInto or the project; remove "
    "its folder, or choose another factory.output"
)
LATER = {"projects", "bugs_per_project", "bugs_per_function", "output"}
"""Settings that choose among outcomes, or where they go, but change none."""


class Work:
    """What earlier starts found of one project. `outcomes` are by their candidate's id."""

    def __init__(self, folder: Path, project: Project, settings: str) -> None:
        """Raises ConfigError where the files are of a run with other settings."""
        work = folder / WORK_FOLDER
        work.mkdir(parents=True, exist_ok=True)
        slug = project.source.slug
        self._suite_file = work / f"{slug}.suite.json"
        self._seconds_file = work / f"{slug}.seconds"
        self._outcomes = WorkFile(
            work / slug, settings, Outcome, lambda outcome: outcome.candidate_id, ADVICE
        )
        self.outcomes = self._outcomes.outcomes

    def suite(self) -> Suite | None:
        """What an earlier start measured."""
        try:
            return Suite.model_validate_json(self._suite_file.read_text("utf-8"))
        except (FileNotFoundError, ValidationError):
            return None

    def keep_suite(self, suite: Suite) -> None:
        """For a later start."""
        write_text(self._suite_file, suite.model_dump_json())

    def add(self, outcome: Outcome) -> None:
        """Keep one. Thread-safe."""
        self._outcomes.add(outcome)

    @property
    def seconds(self) -> float:
        """Of work, all starts together."""
        return float(self._seconds_file.read_text()) if self._seconds_file.is_file() else 0.0

    def add_seconds(self, seconds: float) -> None:
        """Of work in this start."""
        write_text(self._seconds_file, str(self.seconds + seconds))


def settings_hash(machinery: Machinery, config: FactoryConfig, project: Project) -> str:
    """16 hex digits over everything that decides the outcomes of a project's candidates."""
    facts: Mapping[str, object] = {
        "factory": config.model_dump(mode="json", exclude=LATER),
        "sandbox": machinery.sandbox.model_dump(mode="json"),
        "project": [project.source.origin, repr(project.environment)],
        "paths": [project.test_paths, project.code_paths],
        "code": code_version(),
    }
    return digest(facts)
