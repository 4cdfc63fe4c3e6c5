"""Builds with Maven, and reads from its own debug log how it compiles and runs tests.

One `mvn -X -DskipTests test` both builds and tells, per module, the class path of the tests, the
compiler's command line and the settings of the JVM that would run the tests: what a separate
`dependency:build-classpath` would take as long again for.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from sandbox.base import Sandbox
from sandbox.java.javac import build_failed, timed_out
from sandbox.java.jdk import Jdk
from sandbox.java.job import BuildJob
from sandbox.java.maven_log import project_of, read_log
from sandbox.java.project import JavaProject, Module, missing_tool
from sandbox.shell import FOLDER, capture

DEBIAN_SETTINGS = "/etc/maven/settings-debian.xml"
LOG = f"{FOLDER}/maven.log"
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
SKIPPED_CHECKS = (
    "-Denforcer.skip",
    "-Dcheckstyle.skip",
    "-Drat.skip",
    "-Dpmd.skip",
    "-Dspotbugs.skip",
    "-Djacoco.skip",
    "-Dlicense.skip",
    "-Dspotless.check.skip",
    "-Danimal.sniffer.skip",
    "-Dmaven.javadoc.skip",
)
"""Plugins that judge the sources and don't make the classes: offline they often can't run."""

MISSING = 127

# A user's repository is where the JVM's user.home says, which is not always $HOME.
_REPOSITORY = r"""
home=$(awk -F: -v id="$(id -u)" '$3 == id {print $6}' /etc/passwd 2>/dev/null)
for folder in "$home/.m2" "$HOME/.m2" /root/.m2 "$@"; do
    for place in "$folder" "$folder/repository" "$folder/.m2/repository"; do
        [ -d "$place/org" ] && [ -r "$place/org" ] && { echo "repository=$place"; exit 0; }
    done
done
[ -f /etc/maven/settings-debian.xml ] && [ -d /usr/share/maven-repo ] && echo debian
exit 0
"""
_TOOL = r"""
tool=$(command -v mvn)
home=$(awk -F: -v id="$(id -u)" '$3 == id {print $6}' /etc/passwd 2>/dev/null)
for own in "$home"/.m2/wrapper/dists/*/*/*/bin/mvn /root/.m2/wrapper/dists/*/*/*/bin/mvn; do
    [ -z "$tool" ] && [ -x "$own" ] && tool=$own
done
[ -n "$tool" ] || exit 127
[ -n "$home" ] || export MAVEN_OPTS="$MAVEN_OPTS -Duser.home=$HOME"
exec "$tool" "$@"
"""
_BUILD = r"""
log=$1; shift
"$@" >"$log" 2>&1
code=$?
grep -E "^\[DEBUG\] +\([a-z]\) [A-Za-z]+ = |^\[DEBUG\] Configuring mojo .* basic" "$log" |
    grep -E "Configuring|\) (project|basedir|testPath|classpathElements|compileSourceRoots|argLine\
|systemPropertyVariables|environmentVariables|workingDirectory|enableAssertions|testClassesDirectory\
|classesDirectory|outputDirectory|additionalClasspathElements|includes|excludes|testIncludes\
|testExcludes|compilerId|fork) ="
grep -A1 -E "^\[DEBUG\] Command line options:" "$log"
find . -path "*/target/generated-*sources/*" -name "*.java" | head -n 1 | sed "s/^/generated /"
exit $code
"""
_FAILURE = r"""
details="^ +(symbol|location|required|found)"
grep -E "^\[(ERROR|FATAL)|$details|^(Caused by: )?[A-Za-z.]+(Exception|Error): " "$1" | head -n 300
exit 0
"""


def build_maven(job: BuildJob, module: Module) -> JavaProject:
    """Build a module with the modules it needs. Raises BuildFailed, JavaUnavailable,
    SandboxError."""
    command = maven_command(job.sandbox, job.jdk, module, ["-X", *SKIPPED_CHECKS, "-DskipTests"])
    told = job.run(_BUILD, LOG, *command, folder=module.root)
    if told.timed_out:
        raise timed_out("mvn")
    if told.exit_code == MISSING:
        raise missing_tool(module)
    if told.exit_code != 0:
        output = job.run(_FAILURE, LOG).output
        raise build_failed(job.sandbox, "mvn", output)
    return project_of(read_log(told.output), job.absolute(module.folder), module)


def maven_command(sandbox: Sandbox, jdk: Jdk, module: Module, options: Sequence[str]) -> list[str]:
    """The command that takes a module, and those it needs, to the phase `test`; to be run in the
    build's root. It exits with MISSING where there is no Maven."""
    arguments = [*maven_options(sandbox), *options, *_selection(module), "test"]
    environment = [f"JAVA_HOME={jdk.home}", f"MAVEN_OPTS={JVM_OPTIONS}"]
    return ["env", *environment, "sh", "-c", _TOOL, "sh", *arguments]


def maven_options(sandbox: Sandbox) -> list[str]:
    """What every `mvn` gets: the configured options, else offline, with the repository found."""
    configured = sandbox.config.java.maven_options
    if configured is not None:
        return ["-B", *configured]
    found = capture(sandbox, _REPOSITORY, *sandbox.config.readable_paths).output.strip()
    if found.startswith("repository="):
        place = found.removeprefix("repository=")
        # Without this, Maven wants to know from where each artifact once came.
        return ["-B", "-o", "-llr", f"-Dmaven.repo.local={place}"]
    return ["-B", "-o", *(["-s", DEBIAN_SETTINGS] if found == "debian" else [])]


def _selection(module: Module) -> list[str]:
    """The options that leave the build's other modules out."""
    if module.root == module.folder:
        return []
    return ["-pl", posixpath.relpath(module.folder, module.root), "-am"]
