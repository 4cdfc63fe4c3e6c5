"""The Java probe's jar: compiled once per JDK, cached on the host, delivered into sandboxes."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import threading
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

from sandbox.base import Command, Sandbox
from sandbox.environment import cache_folder
from sandbox.errors import DebuggerError
from sandbox.java.jdk import Jdk
from sandbox.opening import open_sandbox
from sandbox.shell import write_bytes

SOURCES = Path(__file__).parent / "java_probe"
MAIN_CLASS = "stepinto.probe.Main"
LEVEL = "8"
COMPILE_TIMEOUT = 120.0

_compiling = threading.Lock()
_delivered: WeakKeyDictionary[Sandbox, str] = WeakKeyDictionary()


@cache
def probe_sources() -> dict[str, bytes]:
    """The Java sources, by path, of the probe, of the test runner, and of declarations of the test
    frameworks to compile the runner against."""
    files = sorted(SOURCES.rglob("*.java"))
    return {file.relative_to(SOURCES).as_posix(): file.read_bytes() for file in files}


def deliver_probe(sandbox: Sandbox, jdk: Jdk) -> str:
    """Copy the probe's jar into the sandbox, once, and return its path.

    Raises DebuggerError if the probe does not compile, or SandboxError.
    """
    if sandbox not in _delivered:
        jar = probe_jar(sandbox, jdk)
        path = f"/tmp/stepinto-{hashlib.sha256(jar).hexdigest()[:16]}.jar"
        write_bytes(sandbox, path, jar)
        _delivered[sandbox] = path
    return _delivered[sandbox]


def forget_delivery(sandbox: Sandbox) -> None:
    """Deliver the jar again at the next start: the one in the sandbox is gone or damaged."""
    _delivered.pop(sandbox, None)


def probe_jar(sandbox: Sandbox, jdk: Jdk) -> bytes:
    """The jar for a sandbox's JDK, compiled unless it is in the user's cache.

    The key contains the sources, the JDK and the image, so that an image's javac can only harm its
    own sandboxes. Safe for several processes.
    """
    digest = hashlib.sha256(repr((jdk, sandbox.image_digest, LEVEL)).encode())
    for path, source in probe_sources().items():
        digest.update(f"\0{path}\0{len(source)}\0".encode() + source)
    place = cache_folder() / f"probe-{digest.hexdigest()[:32]}.jar"
    with _compiling:
        with suppress(OSError):
            return place.read_bytes()
        jar = _compile(sandbox, jdk)
        # Without a writable cache StepInto is only slower.
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
                file.write(jar)
            os.replace(file.name, place)
        return jar


def _compile(sandbox: Sandbox, jdk: Jdk) -> bytes:
    """Compile in a fresh sandbox, in which no program under test has run."""
    sources = probe_sources()
    fast = ["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"]
    class_path = ["-cp", jdk.tools_jar] if jdk.tools_jar else []
    quiet = ["-nowarn", "-Xlint:-options", "-proc:none", "-encoding", "UTF-8"]
    level = ["-source", LEVEL, "-target", LEVEL]
    files = [f"src/{path}" for path in sources]
    javac = [jdk.javac, *fast, *quiet, *class_path, *level, "-g", "-d", "out", *files]
    config = sandbox.config.model_copy(update={"output_limit": 64_000})
    with open_sandbox(config, sandbox.image_digest) as fresh:
        fresh.write_files({f"src/{path}": source for path, source in sources.items()})
        result = fresh.run(Command(javac, timeout=COMPILE_TIMEOUT))
        if result.exit_code != 0:
            raise DebuggerError(f"{jdk.javac} can't compile the Java probe: {result.output}")
        return _jar(fresh.read_tree("out"))


def _jar(classes: dict[str, bytes]) -> bytes:
    """A jar of StepInto's own classes, without times: the same classes give the same bytes.

    Stored, not deflated, since a JVM reads it a little sooner.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(path for path in classes if path.startswith("stepinto/")):
            archive.writestr(zipfile.ZipInfo(path), classes[path])
    return buffer.getvalue()
