"""What a run did, in numbers."""

from __future__ import annotations

from collections import Counter

from .scheduler import Scheduler


def timeline(scheduler: Scheduler) -> list[str]:
    """One line for each start of a task, with the time in seconds."""
    return [f"{time / 1000:.1f}s {name}: {what}" for time, name, what in scheduler.log]


def attempts(scheduler: Scheduler) -> dict[str, int]:
    """How often each task was started."""
    return dict(Counter(name for _, name, _ in scheduler.log))


def stuck(scheduler: Scheduler) -> list[str]:
    """Tasks that can't finish although nothing that they need failed."""
    tasks = scheduler.graph.tasks.values()
    return sorted(task.name for task in tasks if not task.state.final)
