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
from sandbox.debugger.rendering import render
from sandbox.debugger.session import INSPECTIONS, LAUNCHES, Debugger, open_debugger

__all__ = [
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
    "render",
]
