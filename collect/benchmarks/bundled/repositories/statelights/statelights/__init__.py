"""State machines with nested states, guards, timers and history."""

from .clock import Clock
from .definition import Definition, DefinitionError
from .machine import Machine

__all__ = ["Clock", "Definition", "DefinitionError", "Machine"]
