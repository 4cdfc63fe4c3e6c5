"""The Java debugger: deliver the probe into a sandbox and drive it by a session."""

from __future__ import annotations

import posixpath

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Channel, Json
from sandbox.debugger.java_delivery import MAIN_CLASS, deliver_probe, forget_delivery
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.records import ErrorKind, Launch
from sandbox.debugger.session import DebugSession, LaunchRefused
from sandbox.errors import BuildFailed, DebuggerError, JavaError, NoSuchTest, SandboxFileError
from sandbox.java.build import built_test, fork_command, java_command, needs_fork
from sandbox.java.jdk import Jdk, find_jdk
from sandbox.java.lookup import Found
from sandbox.java.project import JavaProject

RUNNER_CLASS = "stepinto.runner.TestRunner"
PROBE_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx128m",
    "-XX:-UsePerfData",
)
"""A small JVM that starts fast, since it only waits for the host and the debuggee."""

# The jar's name contains the beginning of its digest.
_CHECKED = """
found=$(sha256sum <"$1") && named=${1##*-} || exit 1
case $found in "${named%.jar}"*) shift; exec "$@" ;; esac
echo "the program under test has changed $1"
exit 1
"""


class JavaLauncher:
    """Starts the Java probe, and builds what it launches."""

    def __init__(self) -> None:
        self._started: Channel | None = None
        """A probe that is starting; it starts before the build so that both run in parallel."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        try:
            jdk = find_jdk(sandbox)
            self._drop_started()
            self._started = start_probe(sandbox, jdk)
            found, project = built_test(sandbox, launch.test, limits.build_timeout)
            return launch_target(sandbox, jdk, found, project)
        except (JavaError, SandboxFileError) as error:
            self._drop_started()
            kind = ErrorKind.LAUNCH_FAILED
            if isinstance(error, BuildFailed):
                kind = ErrorKind.BUILD_FAILED
            elif isinstance(error, NoSuchTest):
                kind = ErrorKind.NO_SUCH_TEST
            raise LaunchRefused(str(error), kind) from None
        except BaseException:
            self._drop_started()
            raise

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
            # The program may have removed or changed the jar, so deliver it again at the next
            # start.
            forget_delivery(sandbox)
            raise
        return channel

    def _drop_started(self) -> None:
        channel, self._started = self._started, None
        if channel is not None:
            channel.close()


class JavaDebugger(DebugSession):
    """One debug session on a Java program, in a sandbox."""

    def __init__(self, sandbox: Sandbox, limits: DebugLimits | None = None) -> None:
        super().__init__(sandbox, JavaLauncher(), limits)


def start_probe(sandbox: Sandbox, jdk: Jdk) -> Channel:
    """Start a probe's JVM; it ends at once if its jar was changed since the delivery.

    Raises DebuggerError, SandboxError.
    """
    jar = deliver_probe(sandbox, jdk)
    class_path = f"{jar}:{jdk.tools_jar}" if jdk.tools_jar else jar
    java = [jdk.java, *PROBE_OPTIONS, "-cp", class_path, MAIN_CLASS]
    argv = ["sh", "-c", _CHECKED, "sh", jar, *java]
    return Channel(sandbox.spawn(Command(argv, cwd="/")))


def launch_target(sandbox: Sandbox, jdk: Jdk, found: Found, project: JavaProject) -> Json:
    """The probe's target: a test under the test runner, or a main class."""
    fork = needs_fork(project, found)
    if fork:
        command = fork_command(sandbox, jdk, project.module, found)
    else:
        main = [found.class_name, *found.arguments]
        program = [RUNNER_CLASS, found.selector] if found.test else main
        command = java_command(sandbox, jdk, project, deliver_probe(sandbox, jdk), program)
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
    }
