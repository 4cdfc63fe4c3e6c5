"""A deterministic job scheduler: dependencies, priorities, retries, a manual clock."""

from .clock import Clock
from .scheduler import Scheduler
from .spec import load
from .task import RetryPolicy, State, Task

__all__ = ["Clock", "RetryPolicy", "Scheduler", "State", "Task", "load"]
