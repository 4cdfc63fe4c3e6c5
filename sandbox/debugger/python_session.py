"""The Python debugger: the probe, delivered into a sandbox and driven by a session."""

from __future__ import annotations

import binascii
from functools import cache
from pathlib import Path

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Channel, Json
from sandbox.debugger.records import DebugLimits, Launch
from sandbox.debugger.session import DebugSession, LaunchRefused
from sandbox.debugger.targets import TargetError, parse_target

# Canonical mode would cut lines at 4096 bytes, so the terminal is made raw before anything is
# sent. The workspace is taken off `sys.path` until the program itself is launched.
BOOTSTRAP = """\
import sys
if sys.path[:1] == [""]:
    sys.path.pop(0)
import binascii, os, tty
tty.setraw(0)
os.write(1, b"STEPINTO ready\\n")
data = b""
while not data.endswith(b"\\n"):
    data += os.read(0, 65536)
code = compile(binascii.a2b_base64(data), "<stepinto probe>", "exec", dont_inherit=True)
del data
exec(code, {"__name__": "stepinto_probe", "__builtins__": __builtins__})
"""


@cache
def probe_source() -> bytes:
    """The probe, as one line that survives a terminal."""
    source = Path(__file__).with_name("probe.py").read_bytes()
    return binascii.b2a_base64(source, newline=False)


class PythonLauncher:
    """Starts the Python probe, and reads what a launch names."""

    def target(self, launch: Launch) -> Json:
        try:
            target = parse_target(launch.test)
        except TargetError as error:
            raise LaunchRefused(str(error)) from None
        return {"kind": target.kind, "names": list(target.names)}

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        terminal = sandbox.spawn(Command((sandbox.python, "-c", BOOTSTRAP)))
        channel = Channel(terminal)
        try:
            channel.await_marker(b"STEPINTO ready", limits.start_timeout)
            channel.send_line(probe_source())
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
