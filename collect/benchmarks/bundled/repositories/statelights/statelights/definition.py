"""What states a machine has and how it moves between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Tuple

Action = Callable[[dict], None]
Guard = Callable[[dict], bool]

TIMEOUT = "timeout"


class DefinitionError(ValueError):
    """A definition that contradicts itself."""


@dataclass
class Transition:
    target: str
    guard: Optional[Guard] = None
    action: Optional[Action] = None


@dataclass
class State:
    """A state. One with an `initial` child is entered by entering that child.

    A state with `history` is entered by entering the child that was active when it was last left.
    """

    name: str
    parent: Optional[str] = None
    initial: Optional[str] = None
    history: bool = False
    timeout: Optional[float] = None
    on_entry: Optional[Action] = None
    on_exit: Optional[Action] = None
    transitions: Dict[str, List[Transition]] = field(default_factory=dict)


class Definition:
    """States by name. The first one added is where a machine starts."""

    def __init__(self) -> None:
        self.states: Dict[str, State] = {}
        self.start = ""

    def state(self, name: str, **options) -> State:
        if name in self.states:
            raise DefinitionError("state %s is defined twice" % name)
        state = State(name, **options)
        if state.parent is not None and state.parent not in self.states:
            raise DefinitionError("state %s has an unknown parent %s" % (name, state.parent))
        self.states[name] = state
        self.start = self.start or name
        return state

    def on(self, event: str, source: str, target: str, guard=None, action=None) -> None:
        """On `event` in `source`, go to `target`. The first transition whose guard holds wins."""
        transition = Transition(target, guard, action)
        self.states[source].transitions.setdefault(event, []).append(transition)

    def after(self, seconds: float, source: str, target: str, action=None) -> None:
        """Go to `target` once `source` has been active for `seconds`."""
        self.states[source].timeout = seconds
        self.on(TIMEOUT, source, target, action=action)

    def path(self, name: str) -> Tuple[str, ...]:
        """The state and all that it is nested in, outermost first."""
        names = []
        step: Optional[str] = name
        while step is not None:
            names.append(step)
            step = self.states[step].parent
        return tuple(reversed(names))

    def check(self) -> None:
        for state in self.states.values():
            targets = [t.target for group in state.transitions.values() for t in group]
            for target in targets + [state.initial or state.name]:
                if target not in self.states:
                    raise DefinitionError("%s leads to an unknown state %s" % (state.name, target))
