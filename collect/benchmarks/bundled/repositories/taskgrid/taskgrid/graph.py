"""Which task needs which."""

from __future__ import annotations

from typing import Iterable

from .task import Task


class CycleError(ValueError):
    """Tasks that wait for each other."""


class Graph:
    """The tasks and their dependencies."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.users: dict[str, list[str]] = {name: [] for name in self.tasks}
        for task in self.tasks.values():
            for need in task.needs:
                if need not in self.tasks:
                    raise KeyError(f"{task.name} needs unknown task {need!r}")
                self.users[need].append(task.name)

    def order(self) -> list[str]:
        """Every task after all that it needs. Raises CycleError."""
        open_needs = {name: len(set(task.needs)) for name, task in self.tasks.items()}
        free = sorted(name for name, count in open_needs.items() if not count)
        order = []
        while free:
            name = free.pop(0)
            order.append(name)
            for user in sorted(set(self.users[name])):
                open_needs[user] -= 1
                if not open_needs[user]:
                    free.append(user)
        if len(order) < len(self.tasks):
            raise CycleError(f"cycle among {sorted(set(self.tasks) - set(order))}")
        return order

    def downstream(self, name: str) -> set[str]:
        """All that needs a task, directly or not."""
        found: set[str] = set()
        frontier = [name]
        while frontier:
            for user in self.users[frontier.pop()]:
                if user not in found:
                    found.add(user)
                    frontier.append(user)
        return found

    def urgency(self) -> dict[str, int]:
        """Each task's priority, raised to that of the most urgent task that needs it."""
        urgency = {name: task.priority for name, task in self.tasks.items()}
        for name in reversed(self.order()):
            for need in self.tasks[name].needs:
                urgency[need] = max(urgency[need], urgency[name])
        return urgency
