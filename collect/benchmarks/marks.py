"""What a verification found of a bug, and the marks that collect and eval skip bugs by."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any, Self

from pydantic import Field

from collect.benchmarks.base import Instance
from collect.strict_record import StrictRecord

NO_GOLD = "no gold patch is known: only that the tests fail was checked"


class Mark(StrEnum):
    """How a bug did when its tests were run before and after its gold patch."""

    OK = "ok"
    BROKEN = "broken"
    """It is not as it claims: a test fails or passes where it should not, the gold patch does not
    apply, or the tests do not end with it."""
    FLAKY = "flaky"
    """A test came out differently from one run to the next."""
    SLOW = "slow"
    """Its tests take too long, or do not end because of the bug."""
    ZERO_TESTS = "zero_tests"
    """No test ran, or none is named."""
    NO_GOLD = "no_gold"
    """Its tests fail as it claims; with no gold patch known, no more could be checked."""


SKIPPED = (Mark.BROKEN, Mark.FLAKY, Mark.SLOW, Mark.ZERO_TESTS)
"""The marks of bugs that collect and eval leave out, unless a config says otherwise."""


class Finding(StrictRecord):
    """One thing that is wrong with a bug."""

    mark: Mark
    text: str


class Verification(StrictRecord):
    """What running one bug before and after its gold patch showed."""

    benchmark: str
    instance_id: str
    instance_hash: str
    repository: str
    ran_in: str
    """What ran the tests, as `collect.benchmarks.ran_in` names it."""
    findings: tuple[Finding, ...] = ()
    gold_known: bool = True
    repeats: int = Field(default=1, ge=1)
    """Runs on each side of the gold patch."""
    seconds_before: float = 0.0
    """Of the longest run of the tests on the buggy code."""
    seconds_after: float = 0.0
    slow_over: float | None = None
    """Seconds of one run over which the bug is slow; None: however long."""
    verified_at: float = Field(default_factory=time.time)
    """Unix time, seconds."""
    failure: str = ""
    """Why nothing was learnt of the bug, where a sandbox or the machine did not work. Never kept:
    such a bug has no mark, and is verified again."""

    @classmethod
    def of(cls, instance: Instance, ran_in: str, **facts: Any) -> Self:
        """The verification of an instance; `facts` are its other fields."""
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
        """In the order of `Mark`; none where nothing was learnt."""
        if self.failure:
            return ()
        found = {finding.mark for finding in self._all_findings}
        whole = Mark.OK if self.gold_known else Mark.NO_GOLD
        return tuple(mark for mark in Mark if mark in found) or (whole,)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        return tuple(finding.text for finding in self._all_findings)

    @property
    def note(self) -> str:
        """What could not be checked."""
        return self.failure or ("" if self.gold_known else NO_GOLD)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, as far as it could be checked."""
        return not self.failure and not self.problems

    @property
    def _all_findings(self) -> tuple[Finding, ...]:
        seconds = max(self.seconds_before, self.seconds_after)
        if self.slow_over is None or seconds <= self.slow_over:
            return self.findings
        text = f"slow: {seconds:.1f} s, more than {self.slow_over:g}"
        return (*self.findings, Finding(mark=Mark.SLOW, text=text))
