"""Runs a graph of tasks, one at a time."""

from __future__ import annotations

from typing import Iterable

from .clock import Clock
from .graph import Graph
from .ready import ReadyQueue
from .task import State, Task


class Scheduler:
    """Runs tasks when their needs are done, the most urgent first."""

    def __init__(self, tasks: Iterable[Task], clock: Clock | None = None) -> None:
        self.graph = Graph(tasks)
        self.clock = clock or Clock()
        self.log: list[tuple[int, str, str]] = []
        self._urgency = self.graph.urgency()
        self._ready = ReadyQueue()
        self._held: set[str] = set()
        for name in self.graph.order():
            self._offer(name)

    def hold(self, name: str) -> None:
        """Keep a task from starting until `release`."""
        self._held.add(name)
        if self._task(name).state is State.READY:
            self._ready.remove(name)
            self._task(name).state = State.WAITING

    def release(self, name: str) -> None:
        """Let a held task start again."""
        self._held.discard(name)
        self._offer(name)

    def step(self) -> bool:
        """Run the next task, or wait for the next retry; False where there is neither."""
        name = self._ready.pop()
        if name is None:
            return self.clock.next_timer()
        self._run(self._task(name))
        return True

    def run(self) -> dict[str, str]:
        """Run all that can be run; the state of each task."""
        while self.step():
            pass
        return self.states()

    def states(self) -> dict[str, str]:
        """The state of each task, by name."""
        return {name: task.state.value for name, task in self.graph.tasks.items()}

    def _task(self, name: str) -> Task:
        return self.graph.tasks[name]

    def _offer(self, name: str) -> None:
        task = self._task(name)
        if task.state not in (State.WAITING, State.BACKOFF) or name in self._held:
            return
        if all(self._task(need).state is State.DONE for need in task.needs):
            task.state = State.READY
            self._ready.push(name, self._urgency[name])

    def _run(self, task: Task) -> None:
        try:
            task.run(self.clock.now)
        except Exception as error:
            self._note(task, f"error: {error}")
            self._failed(task)
        else:
            self._note(task, "done")
            task.state = State.DONE
            self.clock.advance(task.cost)
            for user in self.graph.users[task.name]:
                self._offer(user)

    def _failed(self, task: Task) -> None:
        task.failures += 1
        self.clock.advance(task.cost)
        if task.failures < task.retry.attempts:
            task.state = State.BACKOFF
            pause = task.retry.pause(task.failures)
            self.clock.call_later(pause, lambda: self._offer(task.name))
            return
        task.state = State.FAILED
        for name in sorted(self.graph.downstream(task.name)):
            self._task(name).state = State.SKIPPED

    def _note(self, task: Task, what: str) -> None:
        self.log.append((self.clock.now, task.name, what))
