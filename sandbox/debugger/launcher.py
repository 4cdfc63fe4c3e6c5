"""What a debug session needs of a language: what a launch means, and the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sandbox.base import Sandbox
from sandbox.debugger.channel import Channel, Json
from sandbox.debugger.records import DebugLimits, ErrorKind, Launch


class LaunchRefused(Exception):
    """The launch names nothing that can be run, or the build fails; the message says what to do."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.LAUNCH_FAILED) -> None:
        super().__init__(message)
        self.kind = kind


class Launcher(Protocol):
    """The language-specific part: the probe, and what a launch means to it."""

    def check(self, sandbox: Sandbox, launch: Launch, require_file: Callable[[str], None]) -> None:
        """Check what can be known of a launch while another program runs, which `require_file`
        asks for a file. Raises LaunchRefused, SandboxDead."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        """What the probe is to run, built if needed. Raises LaunchRefused, SandboxDead."""

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        """Start a probe in the sandbox. Raises DebuggerError, SandboxDead."""
