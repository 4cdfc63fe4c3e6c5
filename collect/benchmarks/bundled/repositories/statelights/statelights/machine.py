"""Running a definition."""

from __future__ import annotations

from functools import partial
from typing import Dict, List, Optional, Tuple

from .clock import Clock
from .definition import TIMEOUT, Definition, Transition


class Machine:
    """One run of a definition, with a context that guards and actions share."""

    def __init__(self, definition: Definition, clock: Clock, context: Optional[dict] = None):
        definition.check()
        self.definition = definition
        self.clock = clock
        self.context = {} if context is None else context
        self.log: List[str] = []
        self._active: Tuple[str, ...] = ()
        self._history: Dict[str, str] = {}
        self._enter_down_to(definition.start, ())

    @property
    def state(self) -> str:
        """The innermost active state."""
        return self._active[-1]

    def is_in(self, name: str) -> bool:
        return name in self._active

    def send(self, event: str, **values) -> bool:
        """Handle an event; `values` go into the context first. False if nobody wanted it."""
        self.context.update(values)
        for source in reversed(self._active):
            transition = self._enabled(source, event)
            if transition:
                self._take(source, transition)
                return True
        return False

    def _enabled(self, source: str, event: str) -> Optional[Transition]:
        for transition in self.definition.states[source].transitions.get(event, []):
            if transition.guard is None or transition.guard(self.context):
                return transition
        return None

    def _take(self, source: str, transition: Transition) -> None:
        """Leave up to the common parent, act, and enter the target."""
        target_path = self.definition.path(transition.target)
        shared = self._shared(self.definition.path(source), target_path)
        self._leave_up_to(shared)
        if transition.action:
            transition.action(self.context)
        self._enter_down_to(transition.target, target_path[:shared])

    @staticmethod
    def _shared(source_path: Tuple[str, ...], target_path: Tuple[str, ...]) -> int:
        """How many outer states stay active. A transition leaves its source and its target."""
        shared = 0
        for ours, theirs in zip(source_path[:-1], target_path[:-1]):
            if ours != theirs:
                break
            shared += 1
        return shared

    def _leave_up_to(self, depth: int) -> None:
        while len(self._active) > depth:
            left = self._active[-1]
            state = self.definition.states[left]
            if state.parent:
                self._history[state.parent] = left
            self.clock.cancel(left)
            if state.on_exit:
                state.on_exit(self.context)
            self._active = self._active[:-1]

    def _enter_down_to(self, target: str, active: Tuple[str, ...]) -> None:
        for name in self.definition.path(target)[len(active) :]:
            self._enter(name)
        inner = self._inner(target)
        while inner:
            self._enter(inner)
            inner = self._inner(inner)
        self.log.append(self.state)

    def _inner(self, name: str) -> Optional[str]:
        """The child that is entered together with the state."""
        state = self.definition.states[name]
        if state.history and name in self._history:
            return self._history[name]
        return state.initial

    def _enter(self, name: str) -> None:
        state = self.definition.states[name]
        self._active = self._active + (name,)
        if state.timeout is not None:
            self.clock.start(state.timeout, name, partial(self._expired, name))
        if state.on_entry:
            state.on_entry(self.context)

    def _expired(self, name: str) -> None:
        transition = self._enabled(name, TIMEOUT)
        if transition:
            self._take(name, transition)
