"""Debug in the build tool's own JVM for a test, which connects back to the debugger. The fallback
if the class path is unknown, or if only the build tool can run the test framework."""

from __future__ import annotations

import posixpath

from sandbox.base import Sandbox
from sandbox.java.gradle import gradle_command
from sandbox.java.jdk import Jdk
from sandbox.java.lookup import Found
from sandbox.java.maven import SKIPPED_CHECKS, maven_command
from sandbox.java.project import BuildKind, JavaProject, Module
from sandbox.shell import FOLDER, write_bytes

AGENT = "-agentlib:jdwp=transport=dt_socket,server=n,suspend=y,address=127.0.0.1:{port}"
"""The probe fills in `{port}`, on which it listens before the build tool starts."""
GRADLE_SCRIPT = f"{FOLDER}/fork.gradle"
_GRADLE_SCRIPT = """\
allprojects {
    tasks.withType(Test) {
        jvmArgs System.getProperty('stepinto.agent')
        maxParallelForks = 1
        forkEvery = 0
        outputs.upToDateWhen { false }
    }
}
"""


def needs_fork(project: JavaProject, found: Found) -> bool:
    """Whether only the build tool can run this test."""
    if project.module.kind is BuildKind.PLAIN or not found.test:
        return False
    names = [posixpath.basename(path) for path in project.class_path]
    launcher = any(
        name.startswith(("junit-platform-launcher", "junit-platform-console")) for name in names
    )
    jupiter = any(name.startswith(("org.junit.jupiter", "spock.")) for name in found.imports)
    return not names or (jupiter and not launcher)


def fork_command(sandbox: Sandbox, jdk: Jdk, module: Module, found: Found) -> list[str]:
    """The build tool's command that runs one test in a JVM that waits for the debugger."""
    if module.kind is BuildKind.MAVEN:
        test = [f"-Dtest={found.selector}", "-DfailIfNoTests=false"]
        quiet = ["-Dsurefire.failIfNoSpecifiedTests=false", "-DtrimStackTrace=false"]
        options = [
            *SKIPPED_CHECKS,
            *test,
            *quiet,
            f"-Dmaven.surefire.debug={AGENT}",
            "-DforkCount=1",
        ]
        return maven_command(sandbox, jdk, module, options)
    write_bytes(sandbox, GRADLE_SCRIPT, _GRADLE_SCRIPT.encode())
    path = posixpath.relpath(module.folder, module.root)
    prefix = "" if path == "." else ":" + path.replace("/", ":") + ":"
    name = found.class_name + (f".{found.method}" if found.method else "")
    options = ["-I", GRADLE_SCRIPT, f"-Dstepinto.agent={AGENT}"]
    return gradle_command(sandbox, jdk, [*options, f"{prefix}{module.source_set}", "--tests", name])
