"""Debug Python: deliver the probe into a sandbox."""

from __future__ import annotations

import base64
import importlib.util
import marshal
import zlib
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path

from sandbox.base import Command, Sandbox
from sandbox.debugger import probe
from sandbox.debugger.channel import Channel, Json, LaunchRefused
from sandbox.debugger.records import DebugLimits, ErrorKind, Launch
from sandbox.errors import DebuggerError
from sandbox.languages.python.interpreters import is_too_old, too_old
from sandbox.languages.python.targets import Target, TargetError, parse_target

# The probe's modules are removed from `sys.modules` once loaded, so the program can neither import
# nor break them, and they outlive the interpreter's clean-up of modules at exit.
LOAD = """\
def load(data):
    import binascii, marshal, sys, zlib
    package = sys.modules["_stepinto_probe"] = type(sys)("_stepinto_probe")
    package.__path__ = []
    for name, code in marshal.loads(zlib.decompress(binascii.a2b_base64(data))):
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
"""
# Canonical mode would cut lines at 4096 bytes, so the terminal is made raw before anything is sent.
# The debuggee's interpreter starts meanwhile. Its PYTHONPATH is hidden until the probe is loaded.
SUPERVISOR = (
    LOAD
    + """
def start():
    import _frozen_importlib_external, os, sys, tty
    tty.setraw(0)
    requests, requests_write = os.pipe()
    answers_read, answers = os.pipe()
    output_read, output = os.pipe()
    dump_read, dump = os.pipe()
    python_path = os.environ.get("PYTHONPATH", "")
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.environ.pop("PYTHONPATH", "")
            for number, fd in enumerate((requests, output, output)):
                os.dup2(fd, number)
            for fd in answers, dump:
                os.set_inheritable(fd, True)
            os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
        finally:
            os._exit(127)
    for fd in requests, answers, output, dump:
        os.close(fd)
    os.write(1, b"STEPINTO ready %s\\n" % _frozen_importlib_external.MAGIC_NUMBER.hex().encode())
    data = b""
    while data.count(b"\\n") < 2:
        data += os.read(0, 65536)
    own, debuggee, _ = data.split(b"\\n")
    main = load(own)
    told = {"answers": answers, "dump": dump, "python_path": python_path}
    main(child, (requests_write, answers_read, output_read, dump_read), debuggee, told)
start()
"""
)
DEBUGGEE = (
    LOAD
    + """
def start():
    import os, sys
    if sys.path[:1] == [""]:
        sys.path.pop(0)
    data = b""
    while data.count(b"\\n") < 2:
        chunk = os.read(0, 65536)
        if not chunk:
            os._exit(1)
        data += chunk
    code, told, rest = data.split(b"\\n", 2)
    return load(code)(told, rest)
start()()
"""
)


@cache
def probe_message(names: tuple[str, ...], compiled: bool) -> bytes:
    """The sources or the byte code of modules of the probe, in load order, as one line of ASCII."""
    folder, modules = Path(probe.__file__).parent, list[tuple[str, object]]()
    for name in names:
        source = (folder / f"{name}.py").read_text("utf-8")
        code = compile(source, f"<stepinto {name}>", "exec", dont_inherit=True)
        modules.append((name, code if compiled else source))
    return base64.b64encode(zlib.compress(marshal.dumps(modules), level=1))


def _target(launch: Launch) -> Target:
    """What a launch names. Raises LaunchRefused if that is nothing."""
    try:
        return parse_target(launch.test)
    except TargetError as error:
        raise LaunchRefused(str(error), ErrorKind.NO_SUCH_TEST) from None


class PythonLauncher:
    """Starts the Python probe on what a launch names."""

    def check(self, sandbox: Sandbox, launch: Launch, require_file: Callable[[str], None]) -> None:
        target = _target(launch)
        file = target.names[0].partition("::")[0] if target.names else ""
        if target.kind in ("script", "pytest") and file.endswith(".py"):
            require_file(file)

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        target = _target(launch)
        return asdict(target)

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        # Isolated: no file of the workspace, the home or the installed packages runs in it.
        isolated = (sandbox.python, "-I", "-S", "-c", SUPERVISOR, DEBUGGEE)
        terminal = sandbox.spawn(Command(isolated))
        channel = Channel(terminal)
        try:
            magic = channel.await_marker(b"STEPINTO ready", limits.start_timeout)
            # Compiling there takes a tenth of a launch; byte code is for the same version alone.
            compiled = magic == importlib.util.MAGIC_NUMBER.hex().encode("ascii")
            for names in (probe.SUPERVISOR, probe.DEBUGGEE):
                terminal.send_line(probe_message(names, compiled))
            channel.await_marker(b"STEPINTO loaded", limits.start_timeout)
            hello = channel.hello(limits.output_chars, limits.start_timeout)
            # The supervisor runs on CPython 3.7 too.
            if is_too_old(hello["version"]):
                raise LaunchRefused(too_old(sandbox))
        except BaseException as error:
            channel.close()
            if isinstance(error, DebuggerError) and (old := too_old(sandbox)):
                raise LaunchRefused(old) from None
            raise
        return channel
