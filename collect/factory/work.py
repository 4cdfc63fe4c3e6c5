"""A project's work in progress on disk: its suite, and the outcomes so far."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.build_info import code_version
from collect.config import Machinery
from collect.durable import write_text
from collect.errors import ConfigError
from collect.factory.config import FactoryConfig
from collect.factory.project import Project
from collect.factory.records import Outcome
from collect.factory.suite import Suite

WORK_FOLDER = ".work"
LATER = {"projects", "bugs_per_project", "bugs_per_function", "output"}
"""Settings that choose among outcomes, or where they go, but change none."""


class _Seconds(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float


class Work:
    """Outcomes a line each, below a line with the settings that they hold for. Thread-safe."""

    def __init__(self, folder: Path, project: Project, settings: str) -> None:
        """Raises ConfigError where the files are of a run with other settings."""
        work = folder / WORK_FOLDER
        work.mkdir(parents=True, exist_ok=True)
        self._outcomes_file = work / f"{project.source.slug}.outcomes.jsonl"
        self._suite_file = work / f"{project.source.slug}.suite.json"
        self._lock = threading.Lock()
        self.outcomes: dict[str, Outcome] = {}
        self.seconds = 0.0
        if self._outcomes_file.is_file():
            self._read(settings)
        else:
            self._suite_file.unlink(missing_ok=True)
            write_text(self._outcomes_file, _header(settings))

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
        """Keep one."""
        with self._lock:
            self.outcomes[outcome.candidate_id] = outcome
            self._append(outcome)

    def add_seconds(self, seconds: float) -> None:
        """Of work in this start."""
        with self._lock:
            self.seconds += seconds
            self._append(_Seconds(seconds=seconds))

    def _append(self, record: BaseModel) -> None:
        with self._outcomes_file.open("a", encoding="utf-8") as file:
            file.write(record.model_dump_json() + "\n")

    def _read(self, settings: str) -> None:
        first, *lines = self._outcomes_file.read_text("utf-8").split("\n")
        if first + "\n" != _header(settings):
            raise ConfigError(
                f"{self._outcomes_file} is of a run with other factory or sandbox settings, or "
                "another version of StepInto or the project; remove its folder, or choose another "
                "factory.output"
            )
        kept = [first]
        for line in filter(None, lines):
            # The last line of a run that was killed while it wrote is no whole record.
            if self._take(line):
                kept.append(line)
        write_text(self._outcomes_file, "\n".join(kept) + "\n")

    def _take(self, line: str) -> bool:
        try:
            outcome = Outcome.model_validate_json(line)
        except ValidationError:
            return self._take_seconds(line)
        self.outcomes[outcome.candidate_id] = outcome
        return True

    def _take_seconds(self, line: str) -> bool:
        try:
            self.seconds += _Seconds.model_validate_json(line).seconds
        except ValidationError:
            return False
        return True


def settings_hash(machinery: Machinery, config: FactoryConfig, project: Project) -> str:
    """16 hex digits over everything that decides the outcomes of a project's candidates."""
    facts: Mapping[str, object] = {
        "factory": config.model_dump(mode="json", exclude=LATER),
        "sandbox": machinery.sandbox.model_dump(mode="json"),
        "project": [project.source.origin, repr(project.environment)],
        "paths": [project.test_paths, project.code_paths],
        "code": code_version(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _header(settings: str) -> str:
    return json.dumps({"settings": settings}) + "\n"
