"""The variables that a template sees while it is rendered."""

from __future__ import annotations

from typing import Any, Mapping

from .errors import UndefinedError


class Context:
    """A stack of scopes; the innermost is asked first."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._scopes: list[dict[str, Any]] = [dict(variables)]

    def push(self) -> None:
        """Open a scope."""
        self._scopes.append({})

    def pop(self) -> None:
        """Close the innermost scope and forget what was set in it."""
        self._scopes.pop()

    def set(self, name: str, value: Any) -> None:
        """Set a variable in the innermost scope."""
        self._scopes[-1][name] = value

    def resolve(self, path: str, line: int) -> Any:
        """The value of a dotted path: variable, then keys, attributes or positions."""
        name, *steps = path.split(".")
        for scope in reversed(self._scopes):
            if name in scope:
                value = scope[name]
                break
        else:
            raise UndefinedError(f"{name!r} is undefined", line)
        for step in steps:
            value = self._step(value, step, path, line)
        return value

    def _step(self, value: Any, step: str, path: str, line: int) -> Any:
        if isinstance(value, Mapping) and step in value:
            return value[step]
        if isinstance(value, (list, tuple)) and step.isdigit() and int(step) < len(value):
            return value[int(step)]
        if not step.startswith("_") and hasattr(value, step):
            return getattr(value, step)
        raise UndefinedError(f"{path!r} is undefined", line)
