"""Debug sessions inside a sandbox, behind one protocol for every language."""

from sandbox.debugger.records import (
    Action,
    Breakpoint,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    ExceptionInfo,
    Frame,
    Hit,
    KillReason,
    Launch,
    Snapshot,
    State,
    StopReason,
    ThreadStack,
    Value,
)
from sandbox.debugger.rendering import read_state, render
from sandbox.debugger.session import ALLOWED, INSPECTIONS, LAUNCHES, Debugger, open_debugger

__all__ = [
    "ALLOWED",
    "INSPECTIONS",
    "LAUNCHES",
    "Action",
    "Breakpoint",
    "BreakpointRequest",
    "DebugEvent",
    "DebugLimits",
    "Debugger",
    "ErrorKind",
    "ExceptionInfo",
    "Frame",
    "Hit",
    "KillReason",
    "Launch",
    "Snapshot",
    "State",
    "StopReason",
    "ThreadStack",
    "Value",
    "open_debugger",
    "read_state",
    "render",
]
