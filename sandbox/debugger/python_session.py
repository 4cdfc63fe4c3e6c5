"""Debug Python: deliver the probe into a sandbox, and parse what a launch names: a pytest test, a
unittest name, a script or a module."""

from __future__ import annotations

import base64
import importlib.util
import marshal
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from sandbox.base import Command, Sandbox
from sandbox.debugger import probe
from sandbox.debugger.channel import Channel, Json, LaunchRefused
from sandbox.debugger.records import DebugLimits, ErrorKind, Launch
from sandbox.shell import split_words

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


class PythonLauncher:
    """Starts the Python probe, and parses what a launch names."""

    def check(self, sandbox: Sandbox, launch: Launch, require_file: Callable[[str], None]) -> None:
        target = parse_target(launch.test)
        file = target.names[0].partition("::")[0]
        if target.kind in ("script", "pytest") and file.endswith(".py"):
            require_file(file)

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        target = parse_target(launch.test)
        return {"kind": target.kind, "names": list(target.names)}

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
            channel.hello(limits.output_chars, limits.start_timeout)
        except BaseException:
            channel.close()
            raise
        return channel


Kind = Literal["pytest", "unittest", "script", "module", "name"]


class TargetError(LaunchRefused):
    """The text names nothing that can be launched; the message says what could be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorKind.NO_SUCH_TEST)


@dataclass(frozen=True)
class Target:
    """One thing to run."""

    kind: Kind
    names: tuple[str, ...]
    """Node ids, dotted names, or a script or module and its arguments; for `name` a test's bare
    name, which is looked for in the test files."""


ACCEPTED = (
    "give a pytest node id (tests/test_cart.py::test_total), a unittest name "
    "(tests.test_cart.CartTest.test_total), or a script with its arguments"
)
MAX_CHARACTERS = 4_000
QUOTED = re.compile(
    r"(?<!\S)(?:'(?=[^']*::)(?P<single>[^']*+)'|\"(?=[^\"]*::)(?P<double>[^\"]*+)\")(?!\S)"
)
PARAMETRISED = re.compile(r"(?<!\S)\S+?::[^\s\[]*+\[.*\]")
SPACED = re.compile(r"(?P<path>[^'\"]+? [^'\"]*?\.py)(?:::[^\s\[]*+(?:\[.*\])?)?")
WORD_OF_COMMAND = re.compile(r"-.*|.*\.py|.*::.*|(?:.*/)?(?:python[\d.]*|pytest|py\.test|unittest)")
"""Words that may precede a test in a command, but occur in no folder's name."""
VALUED_OPTIONS = ("-W", "-X")
"""Options of Python that take a value."""
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def parse_target(text: str) -> Target:
    """Parse a launch's `test`, with or without the command that would run it.

    Raises TargetError if it names nothing.
    """
    if len(text) > MAX_CHARACTERS:
        raise TargetError(f"a test of {len(text)} characters names no test: {ACCEPTED}")
    words = _without_command(_split(text))
    if not words:
        raise TargetError(f"{text!r} names no test: {ACCEPTED}")
    if words[0] in ("-m", "pytest", "py.test"):
        return _runner(words)
    if "::" in words[0]:
        return Target("pytest", _ids(words))
    if words[0].endswith(".py"):
        test = len(words) == 1 and is_test_file(words[0])
        return Target("pytest" if test else "script", tuple(words))
    if DOTTED.fullmatch(words[0]) and len(words) == 1:
        kind: Kind = "unittest" if "." in words[0] else "name"
        return Target(kind, (words[0],))
    if words[0].endswith("/"):
        return Target("pytest", _ids(words))
    raise TargetError(f"{text!r} names no test: {ACCEPTED}")


def is_test_file(path: str) -> bool:
    """Whether pytest would collect a file by its default names."""
    name = PurePosixPath(path).name
    return name.startswith("test_") or name.endswith("_test.py")


def _split(text: str) -> list[str]:
    """Split into words as a shell does, except that pytest's ids need no quotes: quotes inside a
    parametrised id stay, and so do spaces in folders if the text is a single id."""
    text = text.strip()
    spaced = SPACED.fullmatch(text)
    if spaced is not None:
        *folders, _ = spaced["path"].split()
        if not any(WORD_OF_COMMAND.fullmatch(word) for word in folders):
            return [text]
    node = QUOTED.search(text) or PARAMETRISED.search(text)
    if node is not None:
        name = node[node.lastindex or 0]
        return [*_split(text[: node.start()]), name, *_split(text[node.end() :])]
    return split_words(text)


def _without_command(words: list[str]) -> list[str]:
    """Drop a leading interpreter and its options: `python -u -m pytest ...`."""
    if words and re.fullmatch(r"(\S*/)?python[\d.]*", words[0]):
        words = words[1:]
        while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
            words = words[2 if words[0] in VALUED_OPTIONS else 1 :]
        if words[:1] == ["-c"]:
            raise TargetError(f"code given with -c can't be debugged: {ACCEPTED}")
    return words


def _runner(words: list[str]) -> Target:
    """Parse `-m module ...`, or the command of a test runner."""
    if words == ["-m"]:
        raise TargetError(f"-m names no module: {ACCEPTED}")
    runner, *rest = words[1:] if words[0] == "-m" else words
    if runner in ("pytest", "py.test"):
        return Target("pytest", _ids(rest))
    if runner == "unittest":
        return Target("unittest", _unittest_arguments(rest))
    return Target("module", (runner, *rest))


def _unittest_arguments(words: list[str]) -> tuple[str, ...]:
    """The arguments that choose tests, or `discover` with its own, without those about output."""
    if words[:1] == ["discover"]:
        return tuple(words)
    chosen: list[str] = []
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-k", "--durations"):
            value = next(rest, "")
            chosen += [word, value] if word == "-k" else []
        elif not word.startswith("-"):
            path = word.removesuffix(".py").strip("./").replace("/", ".")
            names.append(path if word.endswith(".py") else word)
    return (*names, *chosen) if names else ("discover", *chosen)


def _ids(words: list[str]) -> tuple[str, ...]:
    """The node ids and selections of a pytest command; its other options don't matter here."""
    ids: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-k", "-m"):
            ids += [word, next(rest, "")]
        elif not word.startswith("-"):
            ids.append(word)
    if not ids:
        raise TargetError(f"the command names no test: {ACCEPTED}")
    return tuple(ids)
