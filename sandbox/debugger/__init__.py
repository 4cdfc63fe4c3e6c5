"""Debug sessions inside a sandbox, behind one protocol for every language."""

from sandbox.debugger.base import Debugger
from sandbox.debugger.records import (
    Action,
    Breakpoint,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    ExceptionInfo,
    Frame,
    Launch,
    State,
    StopReason,
    Value,
)

__all__ = [
    "Action",
    "Breakpoint",
    "BreakpointRequest",
    "DebugEvent",
    "DebugLimits",
    "Debugger",
    "ErrorKind",
    "ExceptionInfo",
    "Frame",
    "Launch",
    "State",
    "StopReason",
    "Value",
]
