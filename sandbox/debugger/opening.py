"""Choose the debugger for a language."""

from __future__ import annotations

from sandbox.base import Sandbox
from sandbox.debugger.base import Debugger
from sandbox.debugger.limits import DebugLimits
from sandbox.errors import DebuggerError


def open_debugger(language: str, sandbox: Sandbox, limits: DebugLimits) -> Debugger:
    """A debugger that has not been started. Raises DebuggerError for an unknown language."""
    if language == "java":
        from sandbox.debugger.java_session import JavaDebugger

        return JavaDebugger(sandbox, limits)
    if language == "python":
        from sandbox.debugger.python_session import PythonDebugger

        return PythonDebugger(sandbox, limits)
    raise DebuggerError(f"there is no debugger for {language!r}; there is one for: python, java")
