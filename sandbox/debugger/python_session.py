"""The Python debugger: deliver the probe into a sandbox and drive it by a session."""

from __future__ import annotations

import base64
import importlib.util
import json
import marshal
import zlib
from functools import cache
from pathlib import Path

from sandbox.base import Command, Sandbox
from sandbox.debugger import probe
from sandbox.debugger.channel import Channel, Json
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.records import ErrorKind, Launch
from sandbox.debugger.session import DebugSession, LaunchRefused
from sandbox.debugger.targets import TargetError, parse_target

# Bring the Python probe into a sandbox, and load it there.


# Canonical mode would cut lines at 4096 bytes, so the terminal is made raw before anything is sent.
# The workspace is removed from `sys.path` until the program is launched. The probe's modules are
# removed from `sys.modules` once loaded, so the program can neither import nor break them, and they
# outlive the interpreter's clean-up of modules at exit.
BOOTSTRAP = """\
def load():
    import sys
    if sys.path[:1] == [""]:
        sys.path.pop(0)
    import _frozen_importlib_external, json, os, tty
    tty.setraw(0)
    os.write(1, b"STEPINTO ready %s\\n" % _frozen_importlib_external.MAGIC_NUMBER.hex().encode())
    data = b""
    while not data.endswith(b"\\n"):
        data += os.read(0, 65536)
    package = sys.modules["_stepinto_probe"] = type(sys)("_stepinto_probe")
    package.__path__ = []
    if data.startswith(b"{"):
        modules = json.loads(data).items()
    else:
        import binascii, marshal, zlib
        modules = marshal.loads(zlib.decompress(binascii.a2b_base64(data)))
    for name, code in modules:
        module = type(sys)("_stepinto_probe." + name)
        module.__spec__ = type(sys.__spec__)(module.__name__, None)
        module.__package__ = module.__spec__.parent
        sys.modules[module.__name__] = module
        if isinstance(code, str):
            code = compile(code, "<stepinto " + name + ">", "exec", dont_inherit=True)
        exec(code, module.__dict__)
    for name in [name for name in sys.modules if name.startswith("_stepinto_probe")]:
        del sys.modules[name]
    return module.main
load()()
"""


def message_for(magic: bytes) -> bytes:
    """The probe for an interpreter with this byte-code magic number: compiled if it equals this
    interpreter's, since compiling takes a tenth of a launch."""
    own = importlib.util.MAGIC_NUMBER.hex().encode("ascii")
    return compiled_message() if magic == own else probe_message()


@cache
def probe_message() -> bytes:
    """The sources of the probe's modules, in load order, as one line of ASCII."""
    return json.dumps(_sources()).encode("ascii")


@cache
def compiled_message() -> bytes:
    """The byte code of the probe's modules, as one line of ASCII."""
    modules = [
        (name, compile(source, f"<stepinto {name}>", "exec", dont_inherit=True))
        for name, source in _sources().items()
    ]
    return base64.b64encode(zlib.compress(marshal.dumps(modules), level=1))


def _sources() -> dict[str, str]:
    folder = Path(probe.__file__).parent
    return {name: (folder / f"{name}.py").read_text("utf-8") for name in probe.MODULES}


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
