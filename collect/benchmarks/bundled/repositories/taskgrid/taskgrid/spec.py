"""Tasks from plain dictionaries, as they come out of a config file."""

from __future__ import annotations

import re
from typing import Callable, Mapping

from .task import RetryPolicy, Task

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def milliseconds(value: object) -> int:
    """The length of a time like `250ms`, `30s` or `1h30m`. A bare number is in seconds."""
    if isinstance(value, (int, float)):
        return round(value * UNITS["s"])
    text = str(value)
    parts = re.findall(r"(\d+)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a length of time: {text!r}")
    return sum(int(number) * UNITS[unit] for number, unit in parts)


def retry_policy(spec: Mapping[str, object]) -> RetryPolicy:
    """A policy from the keys attempts, delay, factor and longest, all optional."""
    default = RetryPolicy()
    policy = {
        "attempts": int(str(spec.get("attempts", default.attempts))),
        "factor": int(str(spec.get("factor", default.factor))),
    }
    for key in ("delay", "longest"):
        if key in spec:
            policy[key] = milliseconds(spec[key])
    return RetryPolicy(**policy)


def load(specs: Mapping[str, Mapping], jobs: Mapping[str, Callable[[int], object]]) -> list[Task]:
    """Tasks from specs by name; `jobs` has what each of them runs."""
    return [
        Task(
            name,
            jobs[name],
            needs=tuple(spec.get("needs", ())),
            priority=int(spec.get("priority", 0)),
            cost=milliseconds(spec.get("cost", 0)),
            retry=retry_policy(spec.get("retry", {})),
        )
        for name, spec in specs.items()
    ]
