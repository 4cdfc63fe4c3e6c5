"""What is looked at before work starts, so that it is found out then and not on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collect.errors import ConfigError
from sandbox.errors import SandboxError


@dataclass(frozen=True)
class Check:
    """One thing that rollouts need."""

    name: str
    look: Callable[[], str]
    """What was found, in words. Raises ConfigError, SandboxError where it won't do."""


@dataclass(frozen=True)
class Finding:
    """What a check came to."""

    name: str
    ok: bool
    said: str
    """What was found, or what is wrong and what to do."""


def look_at_all(checks: Iterable[Check]) -> list[Finding]:
    """Every finding, also after one that is not well."""
    return [_finding(check) for check in checks]


def _finding(check: Check) -> Finding:
    try:
        return Finding(check.name, True, check.look())
    except (ConfigError, SandboxError) as error:
        return Finding(check.name, False, str(error))
