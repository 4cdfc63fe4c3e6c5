"""The Python debugger: deliver the probe into a sandbox and drive it by a session."""

from __future__ import annotations

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Channel, Json
from sandbox.debugger.delivery import BOOTSTRAP, message_for
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.records import ErrorKind, Launch
from sandbox.debugger.session import DebugSession, LaunchRefused
from sandbox.debugger.targets import TargetError, parse_target


class PythonLauncher:
    """Starts the Python probe, and parses what a launch names."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        try:
            target = parse_target(launch.test)
        except TargetError as error:
            raise LaunchRefused(str(error), ErrorKind.NO_SUCH_TEST) from None
        return {"kind": target.kind, "names": list(target.names)}

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        terminal = sandbox.spawn(Command((sandbox.python, "-c", BOOTSTRAP)))
        channel = Channel(terminal)
        try:
            magic = channel.await_marker(b"STEPINTO ready", limits.start_timeout)
            channel.send_line(message_for(magic))
            channel.await_marker(b"STEPINTO forked", limits.start_timeout)
            channel.hello(limits.output_chars, limits.start_timeout)
        except BaseException:
            channel.close()
            raise
        return channel


class PythonDebugger(DebugSession):
    """One debug session on a Python program, in a sandbox."""

    def __init__(self, sandbox: Sandbox, limits: DebugLimits | None = None) -> None:
        super().__init__(sandbox, PythonLauncher(), limits)
