"""A bug's verification, and the marks by which collect and eval skip bugs."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError

from collect.benchmarks.base import Instance, Language
from collect.quantities import first_of
from collect.store.record_lines import StrictRecord
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.base import backend_name
from sandbox.engine import connect, digest_of, find_image, image_or_none
from sandbox.environment import cache_folder
from sandbox.errors import ImageMissing, JavaUnavailable, SandboxError, SandboxUnavailable
from sandbox.java.jdk import find_jdk

NO_GOLD = "no gold patch is known: only that the tests fail was checked"


class Mark(StrEnum):
    """The result of running a bug's tests before and after its gold patch."""

    OK = "ok"
    BROKEN = "broken"
    """Not as claimed: a test wrongly fails or passes, the gold patch does not apply, or the tests
    do not end with it."""
    FLAKY = "flaky"
    """A test's result differs between runs."""
    SLOW = "slow"
    """Its tests take too long, or do not end because of the bug."""
    ZERO_TESTS = "zero_tests"
    """No test ran, or the bug names none."""
    NO_GOLD = "no_gold"
    """Its tests fail as claimed; without a gold patch nothing more could be checked."""


SKIPPED = (Mark.BROKEN, Mark.FLAKY, Mark.SLOW, Mark.ZERO_TESTS)
"""Bugs with these marks are skipped by collect and eval, unless a config says otherwise."""


class Finding(StrictRecord):
    mark: Mark
    text: str


class Verification(StrictRecord):
    benchmark: str
    instance_id: str
    instance_hash: str
    repository: str
    ran_in: str
    """The environment that ran the tests, named as by `EnvironmentFingerprint`."""
    findings: tuple[Finding, ...] = ()
    gold_known: bool = True
    repeats: int = Field(default=1, ge=1)
    seconds_before: float = 0.0
    """Duration of the longest test run on the buggy code."""
    seconds_after: float = 0.0
    slow_over: float | None = None
    """Limit in seconds above which a run makes the bug slow; None: no limit."""
    verified_at: float = Field(default_factory=time.time)
    """Unix time, seconds."""
    failure: str = ""
    """Why verification failed, if a sandbox or the machine did not work. Never stored: such a bug
    has no mark, and is verified again."""

    @classmethod
    def of(cls, instance: Instance, ran_in: str, **facts: Any) -> Self:
        """The verification of an instance; `facts` are the other fields."""
        return cls(
            benchmark=instance.benchmark,
            instance_id=instance.id,
            instance_hash=instance.hash,
            repository=instance.repository,
            ran_in=ran_in,
            gold_known=bool(instance.gold_patch),
            **facts,
        )

    @property
    def marks(self) -> tuple[Mark, ...]:
        """In the order of `Mark`; empty if verification failed."""
        if self.failure:
            return ()
        found = {finding.mark for finding in self._all_findings()}
        whole = Mark.OK if self.gold_known else Mark.NO_GOLD
        return tuple(mark for mark in Mark if mark in found) or (whole,)

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(finding.text for finding in self._all_findings())

    @property
    def note(self) -> str:
        """Text about what could not be checked."""
        return self.failure or ("" if self.gold_known else NO_GOLD)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.failure and not self.problems

    def _all_findings(self) -> tuple[Finding, ...]:
        seconds = max(self.seconds_before, self.seconds_after)
        if self.slow_over is None or seconds <= self.slow_over:
            return self.findings
        text = f"slow: {seconds:.1f} s, more than {self.slow_over:g}"
        return (*self.findings, Finding(mark=Mark.SLOW, text=text))


# The environment that runs a bug's tests: a mark is valid only for that one.


class EnvironmentFingerprint:
    """Names the environment of instances, computed once per kind of instance."""

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._known: dict[tuple[Language, str | None], str] = {}

    def name(self, instance: Instance) -> str:
        """`local, Python 3.12.3`, or `docker, sha256:...`, plus any further settings.

        Raises SandboxUnavailable, ImageMissing.
        """
        key = (instance.language, instance.image)
        if key in self._known:
            return self._known[key]
        config = self._config
        docker = config.backend == "docker"
        image = config.image or instance.image
        if not docker:
            what = self._version(instance)
        elif image is None:
            raise SandboxUnavailable(
                "the docker sandbox needs an image: set sandbox.image, or use a benchmark whose "
                "instances name one"
            )
        else:
            with closing(connect()) as client:
                what = digest_of(find_image(client, image))
        parts = [backend_name(config), what, *([config.python] if docker and config.python else [])]
        own = config.model_dump(include={"packages", "import_paths", "environment"})
        own = {name: value for name, value in own.items() if value}
        parts += [json.dumps(own, sort_keys=True)] if own else []
        self._known[key] = ", ".join(parts)
        return self._known[key]

    def known_name(self, instance: Instance) -> str | None:
        """As `name`; None if nothing on this machine can run the instance."""
        try:
            return self.name(instance)
        except SandboxError:
            return None

    def _version(self, instance: Instance) -> str:
        # Without the bug's packages, which take time to install and are in its hash anyway.
        with open_sandbox(self._config, instance.image) as sandbox:
            if instance.language == "java":
                try:
                    return f"Java {find_jdk(sandbox).version}"
                except JavaUnavailable as error:
                    raise SandboxUnavailable(str(error)) from error
            code = "import platform; print(platform.python_version())"
            result = sandbox.run(Command([sandbox.python, "-I", "-c", code]))
        return f"Python {result.output.strip()}"


# Verifications in the user's cache: one file per benchmark, one JSON line per verification.
#
# Each is valid for one bug, by its hash, and one environment. A line is written as soon as a bug is
# verified, so that an interruption loses only bugs in progress; the last line for a key wins.
# Unreadable lines, incomplete or of another version, are ignored.

FOLDER = "verifications"


class Verifications:
    """All verifications on this machine. Safe for threads and concurrent processes."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` None: in the user's cache."""
        self.folder = folder or cache_folder() / FOLDER
        self._found: dict[str, dict[tuple[str, str], Verification]] = {}
        """By benchmark, and by the instance's hash and the environment."""
        self._lock = threading.Lock()

    def any_of(self, benchmark: str) -> bool:
        """Whether any bug of a benchmark was verified; if not, no instance needs to be hashed."""
        with self._lock:
            return bool(self._of(benchmark))

    def find(self, instance: Instance, ran_in: str) -> Verification | None:
        """The newest verification of a bug in the environment `ran_in`."""
        with self._lock:
            return self._of(instance.benchmark).get((instance.hash, ran_in))

    def add(self, verification: Verification) -> None:
        """Store a verification. Raises ValueError if it has a `failure`."""
        if verification.failure:
            raise ValueError(f"{verification.instance_id} has no mark: {verification.failure}")
        key = (verification.instance_hash, verification.ran_in)
        path = self.path(verification.benchmark)
        with self._lock:
            self._of(verification.benchmark)[key] = verification
            path.parent.mkdir(parents=True, exist_ok=True)
            # A single write, so that lines of several processes don't mix; a leading line break
            # protects this line from one that a full disk cut off.
            with path.open("ab", buffering=0) as file:
                file.write(f"\n{verification.model_dump_json()}\n".encode())

    def path(self, benchmark: str) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', benchmark)}.jsonl"

    def _of(self, benchmark: str) -> dict[tuple[str, str], Verification]:
        if benchmark not in self._found:
            found = self._found[benchmark] = {}
            path = self.path(benchmark)
            text = path.read_text("utf-8", "replace") if path.is_file() else ""
            for line in text.split("\n"):
                with suppress(ValidationError):
                    read = Verification.model_validate_json(line)
                    found[read.instance_hash, read.ran_in] = read
        return self._found[benchmark]


def with_verifications(
    instances: Iterable[Instance], ran_in: EnvironmentFingerprint, verifications: Verifications
) -> Iterator[tuple[Instance, Verification | None]]:
    """Each instance with its stored verification; None if it was never verified in this sandbox."""
    for instance in instances:
        name = ran_in.known_name(instance) if verifications.any_of(instance.benchmark) else None
        yield instance, verifications.find(instance, name) if name is not None else None


def note_verified(
    instances: Iterable[Instance],
    sandbox_config: SandboxConfig,
    verifications: Verifications | None = None,
    *,
    repeats: int = 1,
) -> None:
    """Mark bugs as correct without a run, for code that makes bugs and has already run their tests.

    Raises SandboxUnavailable, ImageMissing.
    """
    verifications = verifications or Verifications()
    ran_in = EnvironmentFingerprint(sandbox_config)
    for instance in instances:
        verifications.add(Verification.of(instance, ran_in.name(instance), repeats=repeats))


# The container images that a set of bugs needs.


def required_images(instances: Iterable[Instance], sandbox: SandboxConfig) -> list[str]:
    """The distinct images, in the bugs' order; empty if the sandbox is not a container."""
    if sandbox.backend != "docker":
        return []
    images = (sandbox.image or instance.image for instance in instances)
    return list(dict.fromkeys(image for image in images if image is not None))


def require_images(instances: Iterable[Instance], sandbox: SandboxConfig) -> None:
    """Raises ImageMissing if images are missing, with their names and how to get them;
    EngineDown."""
    images = required_images(instances, sandbox)
    if not images:
        return
    with closing(connect()) as client:
        missing = [image for image in images if image_or_none(client, image) is None]
    if missing:
        raise ImageMissing(
            f"{len(missing)} of the {len(images)} images that these bugs need are not on this "
            f"machine: {first_of(missing)}. `stepinto bench pull CONFIG` fetches "
            "them; benchmark.instances and benchmark.limit choose fewer bugs"
        )
