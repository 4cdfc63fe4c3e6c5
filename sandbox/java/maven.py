"""Builds with Maven, and reads from its own debug log how it compiles and runs tests.

One `mvn -X -DskipTests test` both builds and tells, per module, the class path of the tests, the
compiler's command line and the settings of the JVM that would run the tests: what a separate
`dependency:build-classpath` would take as long again for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.base import Sandbox
from sandbox.java.errors import BuildFailed
from sandbox.java.javac import build_message, split_options, timed_out
from sandbox.java.jdk import Jdk
from sandbox.java.job import BuildJob
from sandbox.java.project import CompileStep, JavaProject, Module, missing_tool, unknown_project
from sandbox.java.shell import FOLDER, capture

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
|classesDirectory|outputDirectory|additionalClasspathElements|generatedSourcesDirectory) ="
grep -A1 -E "^\[DEBUG\] Command line options:" "$log"
exit $code
"""
_FAILURE = (
    r'grep -E "^\[(ERROR|FATAL)|^ +(symbol|location|required|found)" "$1" | head -n 300; exit 0'
)

_MOJO = re.compile(r"\[DEBUG\] Configuring mojo '?[\w.-]+:([\w-]+):[^:]+:([\w-]+)'? with basic")
_SETTING = re.compile(r"\[DEBUG\] +\([a-z]\) (\w+) = (.*)")


@dataclass
class MojoSettings:
    """One plugin's goal in one module, as Maven was about to run it."""

    goal: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The module's, absolute."""
        match = re.search(r"@ (/.*)/[^/]+$", self.settings.get("project", ""))
        return match[1] if match else self.settings.get("basedir", "")

    def paths(self, *names: str) -> list[str]:
        """The first of these settings that is there, as a list of paths."""
        text = next((self.settings[name] for name in names if name in self.settings), "[]")
        return [path for path in text.strip("[]").split(", ") if path]

    def pairs(self, name: str) -> dict[str, str]:
        """A setting that is a map."""
        text = self.settings.get(name, "").removeprefix("{").removesuffix("}")
        parts = re.split(r", (?=[\w.-]+=)", text)
        return dict(part.split("=", 1) for part in parts if "=" in part)


@dataclass(frozen=True)
class MavenLog:
    """What a build's debug log says."""

    mojos: tuple[MojoSettings, ...]
    commands: tuple[tuple[str, ...], ...]
    """The compiler's command lines, without the sources."""

    def of(self, folder: str, goal: str) -> MojoSettings | None:
        return next((m for m in self.mojos if m.goal == goal and m.folder == folder), None)


def build_maven(job: BuildJob, module: Module) -> JavaProject:
    """Build a module with the modules it needs. Raises BuildFailed, JavaUnavailable,
    SandboxError."""
    command = maven_command(job.sandbox, job.jdk, module, ["-X", *SKIPPED_CHECKS, "-DskipTests"])
    told = job.run(_BUILD, LOG, *command, folder=module.root)
    if told.timed_out:
        raise BuildFailed(timed_out("mvn"))
    if told.exit_code == MISSING:
        raise missing_tool(module)
    if told.exit_code != 0:
        output = job.run(_FAILURE, LOG).output
        raise BuildFailed(build_message(job.sandbox, "mvn", output))
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


def read_log(text: str) -> MavenLog:
    """Read the lines that the build's script picked out of the log."""
    mojos: list[MojoSettings] = []
    commands: list[tuple[str, ...]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if mojo := _MOJO.match(line):
            mojos.append(MojoSettings(f"{mojo[1]}:{mojo[2]}"))
        elif mojos and (setting := _SETTING.match(line)):
            mojos[-1].settings.setdefault(setting[1], setting[2])
        elif line.startswith("[DEBUG] Command line options:"):
            commands.append(tuple(split_options(next(lines, "").removeprefix("[DEBUG] "))))
    return MavenLog(tuple(mojos), tuple(commands))


def project_of(log: MavenLog, folder: str, module: Module) -> JavaProject:
    """The module's tests, as far as the log tells of them."""
    compiled = log.of(folder, "maven-compiler-plugin:testCompile")
    if compiled is None or not compiled.paths("testPath", "classpathElements"):
        return unknown_project(folder, module)
    roots, sources = [], []
    for mojo in log.mojos:
        if mojo.goal.startswith("maven-compiler-plugin:"):
            roots += mojo.paths("outputDirectory")
            sources += mojo.paths("compileSourceRoots")
    tested = log.of(folder, "maven-surefire-plugin:test")
    settings = tested if tested is not None else MojoSettings("")
    class_path = [
        *compiled.paths("testPath", "classpathElements"),
        *settings.paths("additionalClasspathElements"),
    ]
    return JavaProject(
        module=module,
        folder=settings.settings.get("workingDirectory", folder),
        class_path=tuple(class_path),
        class_roots=tuple(dict.fromkeys(path for path in roots if path in class_path)),
        source_roots=tuple(dict.fromkeys(sources)),
        jvm_options=tuple(_jvm_options(settings, folder)),
        environment=settings.pairs("environmentVariables"),
        steps=tuple(_steps(log)),
    )


def _selection(module: Module) -> list[str]:
    """The options that leave the build's other modules out."""
    if module.root == module.folder:
        return []
    return ["-pl", posixpath.relpath(module.folder, module.root), "-am"]


def _jvm_options(settings: MojoSettings, folder: str) -> Iterator[str]:
    """What Surefire would start the tests' JVM with."""
    # A placeholder that another plugin would have filled, as JaCoCo does.
    line = re.sub(r"[@$]\{[^}]*\}", "", settings.settings.get("argLine", ""))
    yield from split_options(line)
    if settings.settings.get("enableAssertions", "true") == "true":
        yield "-ea"
    yield f"-Dbasedir={folder}"
    properties: Mapping[str, str] = settings.pairs("systemPropertyVariables")
    yield from (f"-D{name}={value}" for name, value in properties.items())


def _steps(log: MavenLog) -> Iterator[CompileStep]:
    """The calls of javac in the build's order; none where one of them is not known."""
    compiled = [m for m in log.mojos if m.goal.startswith("maven-compiler-plugin:")]
    by_output = {_option(command, "-d"): command for command in log.commands}
    steps = []
    for mojo in compiled:
        output = next(iter(mojo.paths("outputDirectory")), "")
        command = by_output.get(output)
        if command is not None:
            steps.append(CompileStep(output, tuple(mojo.paths("compileSourceRoots")), command))
    if len(steps) == len(compiled):
        yield from steps


def _option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1] if name in command[:-1] else ""
