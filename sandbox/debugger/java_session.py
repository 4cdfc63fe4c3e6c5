"""Debug Java: the probe's jar, compiled once per JDK, cached on the host and delivered into
sandboxes, and what it is to run."""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import tempfile
import threading
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

from sandbox.base import SOURCE_LIMIT, Command, Sandbox, open_sandbox
from sandbox.debugger.channel import Channel, Json, LaunchRefused
from sandbox.debugger.records import DebugLimits, ErrorKind, Launch
from sandbox.environment import cache_folder
from sandbox.errors import BuildFailed, DebuggerError, JavaError, NoSuchTest, SandboxFileError
from sandbox.java.build import built_test, find_test, fork_command, java_command, needs_fork
from sandbox.java.jdk import Jdk, find_jdk
from sandbox.java.lookup import Found
from sandbox.java.project import JavaProject
from sandbox.shell import FOLDER, write_bytes

SOURCES = Path(__file__).parent / "java_probe"
MAIN_CLASS = "stepinto.probe.Main"
RUNNER_CLASS = "stepinto.runner.TestRunner"
NO_TIME_LIMITS = "-Djunit.jupiter.execution.timeout.mode=disabled"
"""Switches JUnit's `@Timeout` off: its clock runs while the program is paused."""
LIMITS_OFF = (
    "JUnit's @Timeout is switched off in this session: a test that fails by it alone passes here"
)
PROBE_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx128m",
    "-XX:-UsePerfData",
    "-XX:+DisableAttachMechanism",
)
"""A small JVM that starts fast, since it only waits for the host and the debuggee, and that lets no
program load an agent into it."""

# The jar's name contains the beginning of its digest. The probe runs a copy, which it deletes once
# it has it open, since a program could write to the file while classes are still read from it.
#
# The kernel keeps a process's memory and open files from others of the same user if that user may
# not read its program: so the probe runs a launcher that can only be executed, in a JDK of links,
# and its nonce and its terminal are out of the program's reach.
_CHECKED = """
jar=$1; home=$2; more=$3; shift 3
mkdir -p "$0" && jdk=$(mktemp -d "$0/jdk.XXXXXX") && mkdir "$jdk/bin" || exit 1
cp "$jar" "$jdk/probe.jar" && found=$(sha256sum <"$jdk/probe.jar") && named=${jar##*-} || exit 1
case $found in "${named%.jar}"*) ;; *)
    echo "the program under test has changed $jar"
    exit 1
esac
for part in "$home"/* "$home"/bin/*; do
    [ "$part" = "$home/bin" ] || ln -s "$part" "$jdk/${part#"$home"/}"
done
rm "$jdk/bin/java" && cp -L "$home/bin/java" "$jdk/bin/java" && chmod 111 "$jdk/bin/java" || exit 1
exec "$jdk/bin/java" -cp "$jdk/probe.jar$more" "$@"
"""


class JavaLauncher:
    """Starts the Java probe, and builds what it launches."""

    def __init__(self) -> None:
        self._started: Channel | None = None
        """A probe that is starting; it starts before the build so that both run in parallel."""

    def check(self, sandbox: Sandbox, launch: Launch, require_file: Callable[[str], None]) -> None:
        try:
            find_test(sandbox, launch.test)
        except (JavaError, SandboxFileError) as error:
            raise refused(error) from None

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        try:
            jdk = find_jdk(sandbox)
            self._drop_started()
            self._started = start_probe(sandbox, jdk)
            found, project = built_test(sandbox, launch.test, limits.build_timeout)
            return launch_target(sandbox, jdk, found, project)
        except BaseException as error:
            self._drop_started()
            if not isinstance(error, (JavaError, SandboxFileError)):
                raise
            raise refused(error) from None

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> Channel:
        channel, self._started = self._started, None
        if channel is None:
            try:
                channel = start_probe(sandbox, find_jdk(sandbox))
            except (JavaError, SandboxFileError) as error:
                raise DebuggerError(str(error)) from error
        try:
            channel.await_marker(b"STEPINTO ready", limits.start_timeout)
            channel.hello(limits.output_chars, limits.start_timeout)
        except BaseException:
            channel.close()
            # The program may have removed or changed the jar: deliver it again at the next start.
            forget_delivery(sandbox)
            raise
        return channel

    def _drop_started(self) -> None:
        channel, self._started = self._started, None
        if channel is not None:
            channel.close()


def refused(error: JavaError | SandboxFileError) -> LaunchRefused:
    """The refusal of a launch that can't be looked up or built."""
    kind = ErrorKind.LAUNCH_FAILED
    if isinstance(error, BuildFailed):
        kind = ErrorKind.BUILD_FAILED
    elif isinstance(error, NoSuchTest):
        kind = ErrorKind.NO_SUCH_TEST
    return LaunchRefused(str(error), kind)


def start_probe(sandbox: Sandbox, jdk: Jdk) -> Channel:
    """Start a probe's JVM; it ends at once if its jar was changed since the delivery.

    Raises DebuggerError, SandboxError.
    """
    jar = deliver_probe(sandbox, jdk)
    more = f":{jdk.tools_jar}" if jdk.tools_jar else ""
    argv = ["sh", "-c", _CHECKED, FOLDER, jar, jdk.home, more, *PROBE_OPTIONS, MAIN_CLASS]
    return Channel(sandbox.spawn(Command(argv, cwd="/")))


def launch_target(sandbox: Sandbox, jdk: Jdk, found: Found, project: JavaProject) -> Json:
    """The probe's target: a test under the test runner, or a main class. Raises NoSuchTest."""
    fork = needs_fork(project, found)
    if fork and found.invocation:
        raise NoSuchTest(
            f"{found.selector}[{found.invocation}]: only the build tool can run this test here, and"
            f" it runs all invocations; name {found.selector}"
        )
    if fork:
        command = fork_command(sandbox, jdk, project.module, found)
    else:
        main = [found.class_name, *found.arguments]
        invocation = f"[{found.invocation}]" if found.invocation else ""
        program = [RUNNER_CLASS, found.selector + invocation] if found.test else main
        command = java_command(sandbox, jdk, project, deliver_probe(sandbox, jdk), program)
        command.insert(1, NO_TIME_LIMITS)
    folder = posixpath.join(sandbox.workspace, project.module.root) if fork else project.folder
    return {
        "kind": "attach" if fork else "java",
        "command": command,
        "cwd": posixpath.normpath(folder),
        "env": dict(project.environment),
        "source_roots": list(project.source_roots),
        "class_roots": list(project.class_roots),
        "workspace": sandbox.workspace,
        "entry": {
            "class": found.class_name,
            "method": found.method or next(iter(found.methods), None),
            "methods": list(found.methods),
        },
        "test": found.test,
        "test_name": found.selector + (f"[{found.invocation}]" if found.invocation else ""),
        "notes": [LIMITS_OFF] if not fork and _has_time_limit(sandbox, found) else [],
    }


def _has_time_limit(sandbox: Sandbox, found: Found) -> bool:
    """Whether the test's own source has a time limit that is switched off."""
    source = sandbox.read_file(found.file, SOURCE_LIMIT)
    return found.test and b"@Timeout" in source and b"org.junit.jupiter" in source


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
