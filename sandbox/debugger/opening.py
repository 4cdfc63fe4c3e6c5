"""Choose the debugger for a language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sandbox.base import Sandbox
from sandbox.debugger.base import Debugger
from sandbox.debugger.limits import DebugLimits
from sandbox.errors import DebuggerError

if TYPE_CHECKING:
    from sandbox.debugger.terminal_session import TerminalDebugger

DebuggerBackend = Literal["probe", "terminal"]
"""A probe inside the program's process, or the raw pdb and jdb terminals (the papers' "without
InspectWare" ablation)."""


def open_debugger(
    language: str, sandbox: Sandbox, limits: DebugLimits, backend: DebuggerBackend = "probe"
) -> Debugger:
    """A debugger that has not been started. Raises DebuggerError for an unknown language."""
    if backend == "terminal":
        return open_terminal(language, sandbox, limits)
    if language == "java":
        from sandbox.debugger.java_session import JavaDebugger

        return JavaDebugger(sandbox, limits)
    if language == "python":
        from sandbox.debugger.python_session import PythonDebugger

        return PythonDebugger(sandbox, limits)
    raise _unknown(language)


def open_terminal(language: str, sandbox: Sandbox, limits: DebugLimits) -> TerminalDebugger:
    """The language's own debugger in its terminal. Raises DebuggerError for an unknown language."""
    if language == "java":
        from sandbox.debugger.jdb_terminal import JdbTerminal

        return JdbTerminal(sandbox, limits)
    if language == "python":
        from sandbox.debugger.pdb_terminal import PdbTerminal

        return PdbTerminal(sandbox, limits)
    raise _unknown(language)


def _unknown(language: str) -> DebuggerError:
    return DebuggerError(f"there is no debugger for {language!r}; there is one for: python, java")
