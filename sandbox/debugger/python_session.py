"""Debug Python: deliver the probe into a sandbox."""

from __future__ import annotations

import base64
import importlib.util
import json
import marshal
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path

from sandbox.base import Command, Sandbox
from sandbox.debugger import probe
from sandbox.debugger.channel import Channel, Json, LaunchRefused
from sandbox.debugger.records import DebugLimits, ErrorKind, Launch
from sandbox.errors import DebuggerError, SandboxUnavailable
from sandbox.languages.python.interpreters import find_version, is_too_old, too_old
from sandbox.languages.python.targets import Target, TargetError, parse_target
from sandbox.packages import made_folder

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
    import _frozen_importlib_external, fcntl, os, sys, tty
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
    magic = _frozen_importlib_external.MAGIC_NUMBER.hex()
    os.write(1, b"STEPINTO ready %s %d.%d\\n" % (magic.encode(), *sys.version_info[:2]))
    def take(rest):
        while b"\\n" not in rest:
            rest += os.read(0, 65536)
        return rest.split(b"\\n", 1)
    debuggee, rest = take(b"")
    try:
        fcntl.fcntl(requests_write, 1031, 1 << 20)  # F_SETPIPE_SZ: room for all, so as not to wait
        debuggee += b"\\n"
        while debuggee:
            debuggee = debuggee[os.write(requests_write, debuggee):]
    except OSError:
        pass  # the answer to the launch will say that it has ended
    own, _ = take(rest)
    told = {"answers": answers, "dump": dump, "python_path": python_path}
    load(own)(child, (requests_write, answers_read, output_read, dump_read), told)
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
    def take(rest):
        while b"\\n" not in rest:
            chunk = os.read(0, 65536)
            if not chunk:
                os._exit(1)
            rest += chunk
        return rest.split(b"\\n", 1)
    code, rest = take(b"")
    main = load(code)
    return main(*take(rest))
start()()
"""
)


COMPILE = """\
import _frozen_importlib_external, json, marshal, sys
magic, modules = json.load(sys.stdin)
if _frozen_importlib_external.MAGIC_NUMBER.hex() != magic:
    sys.exit(1)
codes = [(name, compile(text, "<stepinto " + name + ">", "exec", dont_inherit=True, optimize=2))
         for name, text in modules]
sys.stdout.buffer.write(marshal.dumps(codes))
"""
"""Compiles modules of the probe on an interpreter of the host's."""
OPTIONS = ("-I", "-S", "-X", "no_debug_ranges")
"""Byte code without columns is half as long."""
BYTE_CODE = "modules.marshal"


@cache
def probe_message(names: tuple[str, ...], magic: str, version: str) -> bytes:
    """Modules of the probe, in load order, as one line of ASCII: as byte code if the host has an
    interpreter of this version, whose byte code has this magic number; else as sources, of which
    the compilation takes a tenth of a launch."""
    folder = Path(probe.__file__).parent
    modules = [(name, (folder / f"{name}.py").read_text("utf-8")) for name in names]
    data = _byte_code(modules, magic, version)
    if data is None:
        data = marshal.dumps(modules)
    return base64.b64encode(zlib.compress(data))


def _byte_code(modules: list[tuple[str, str]], magic: str, version: str) -> bytes | None:
    """What `COMPILE` writes, which is kept in StepInto's cache; None if no interpreter can."""

    def make(made: Path) -> None:
        is_own = magic == importlib.util.MAGIC_NUMBER.hex()
        python = sys.executable if is_own else find_version(version)
        if python is None:
            raise FileNotFoundError(version)
        done = subprocess.run(
            [python, *OPTIONS, "-c", COMPILE],
            input=json.dumps([magic, modules]).encode(),
            capture_output=True,
            timeout=60,
            check=True,
        )
        (made / BYTE_CODE).write_bytes(done.stdout)

    if not re.fullmatch(r"3\.\d{1,2}", version):
        return None
    try:
        folder = made_folder("probe", [magic, modules, OPTIONS, COMPILE], make)
        return (folder / BYTE_CODE).read_bytes()
    except (OSError, subprocess.SubprocessError, SandboxUnavailable):
        return None


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
            ready = channel.await_marker(b"STEPINTO ready", limits.start_timeout)
            magic, _, version = ready.decode("ascii", "replace").partition(" ")
            # The debuggee loads its part while the supervisor does.
            for names in (probe.DEBUGGEE, probe.SUPERVISOR):
                terminal.send_line(probe_message(names, magic, version))
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
