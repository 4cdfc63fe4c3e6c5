"""Build with Maven, and read from its debug log how it compiles and runs tests.

One `mvn -X -DskipTests test` builds, and prints per module the tests' class path, the compiler's
command line and the settings of the tests' JVM. A separate `dependency:build-classpath` would take
as long again.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sandbox.base import Sandbox
from sandbox.java.javac import build_failed
from sandbox.java.jdk import Jdk
from sandbox.java.project import (
    JVM_OPTIONS,
    BuildJob,
    CompileStep,
    JavaProject,
    Module,
    run_tool,
    unknown_project,
)
from sandbox.java.project_repository import repository_in, with_advice
from sandbox.shell import FOLDER, capture, split_words

HARMLESS_PLUGINS = frozenset(
    [
        *("maven-resources-plugin", "maven-compiler-plugin", "maven-surefire-plugin"),
        *("maven-enforcer-plugin", "maven-checkstyle-plugin", "maven-dependency-plugin"),
        *("maven-source-plugin", "maven-javadoc-plugin", "maven-pmd-plugin", "apache-rat-plugin"),
        *("spotbugs-maven-plugin", "spotless-maven-plugin", "license-maven-plugin"),
        *("animal-sniffer-maven-plugin", "jacoco-maven-plugin", "flatten-maven-plugin"),
        *("maven-bundle-plugin", "maven-remote-resources-plugin", "maven-artifact-plugin"),
    ]
)
"""Plugins that neither make classes (except the compiler) nor change them, as called here."""
LAST_GOAL = "maven-surefire-plugin:test"
"""The last one of each module's phase `test`."""

# Maven 3.9 writes `execution`, and the execution's id behind the goal.
_MOJO = re.compile(
    r"\[DEBUG\] Configuring mojo (?:execution )?'?[\w.-]+:([\w-]+):[^:]+:([\w-]+)(?::[^' ]*)?'?"
    r" with basic"
)
_SETTING = re.compile(r"\[DEBUG\] +\([a-z]\) (\w+) = (.*)")


@dataclass
class MojoSettings:
    """One plugin's goal in one module, as Maven was about to run it."""

    goal: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        _, at, path = self.settings.get("project", "").partition("@ /")
        folder, slash, name = path.rpartition("/")
        return f"/{folder}" if at and slash and name else self.settings.get("basedir", "")

    @property
    def compiles(self) -> bool:
        return self.goal.startswith("maven-compiler-plugin:")

    @property
    def usual(self) -> bool:
        """Whether it compiles all of its sources with javac."""
        patterns = ("includes", "excludes", "testIncludes", "testExcludes")
        chosen = any(self.settings.get(name, "[]") != "[]" for name in patterns)
        javac = self.settings.get("compilerId", "javac") == "javac"
        return javac and not chosen and self.settings.get("fork", "false") == "false"

    def paths(self, *names: str) -> list[str]:
        """The first of these settings that is set, as a list of paths."""
        text = next((self.settings[name] for name in names if name in self.settings), "[]")
        return [path for path in text.strip("[]").split(", ") if path]

    def pairs(self, name: str) -> dict[str, str]:
        """A map setting."""
        text = self.settings.get(name, "").removeprefix("{").removesuffix("}")
        parts = re.split(r", (?=[\w.-]+=)", text)
        return dict(part.split("=", 1) for part in parts if "=" in part)


@dataclass(frozen=True)
class MavenLog:
    mojos: tuple[MojoSettings, ...]
    commands: tuple[tuple[str, ...], ...]
    """The compiler's command lines, without the sources."""
    generates: bool = False
    """Whether the build generates some sources."""

    def of(self, folder: str, goal: str) -> MojoSettings | None:
        return next((m for m in self.mojos if m.goal == goal and m.folder == folder), None)


def read_log(text: str) -> MavenLog:
    """Parse the lines that the build's script picked out of the log."""
    mojos: list[MojoSettings] = []
    commands: list[tuple[str, ...]] = []
    generates = False
    lines = iter(text.splitlines())
    for line in lines:
        if mojo := _MOJO.match(line):
            mojos.append(MojoSettings(f"{mojo[1]}:{mojo[2]}"))
        elif mojos and (setting := _SETTING.match(line)):
            mojos[-1].settings.setdefault(setting[1], setting[2])
        elif line.startswith("[DEBUG] Command line options:"):
            commands.append(tuple(split_words(next(lines, "").removeprefix("[DEBUG] "))))
        elif line.startswith("generated "):
            generates = True
    return MavenLog(tuple(mojos), tuple(commands), generates)


def project_of(log: MavenLog, folder: str, module: Module) -> JavaProject:
    """The module's tests, as far as the log describes them."""
    compiled = log.of(folder, "maven-compiler-plugin:testCompile") or MojoSettings("")
    class_path = compiled.paths("testPath", "classpathElements")
    if not class_path:
        return unknown_project(folder, module)
    compiling = [mojo for mojo in log.mojos if mojo.compiles]
    roots = [path for mojo in compiling for path in mojo.paths("outputDirectory")]
    sources = [path for mojo in compiling for path in mojo.paths("compileSourceRoots")]
    settings = log.of(folder, "maven-surefire-plugin:test") or MojoSettings("")
    class_path += settings.paths("additionalClasspathElements")
    # A placeholder such as JaCoCo's, which another plugin would have filled.
    line = re.sub(r"[@$]\{[^{}]*\}", "", settings.settings.get("argLine", ""))
    jvm_options = split_words(line)
    if settings.settings.get("enableAssertions", "true") == "true":
        jvm_options.append("-ea")
    properties = {"basedir": folder, **settings.pairs("systemPropertyVariables")}
    jvm_options += [f"-D{key}={value}" for key, value in properties.items()]
    return JavaProject(
        module=module,
        folder=settings.settings.get("workingDirectory", folder),
        class_path=tuple(class_path),
        class_roots=tuple(dict.fromkeys(path for path in roots if path in class_path)),
        source_roots=tuple(dict.fromkeys(sources)),
        jvm_options=tuple(jvm_options),
        environment=settings.pairs("environmentVariables"),
        steps=tuple(_steps(log)),
    )


def _steps(log: MavenLog) -> Iterator[CompileStep]:
    """The javac calls in the build's order; none if they may not make all classes, or are unknown
    because Maven found nothing to compile."""
    compiled = [mojo for mojo in log.mojos if mojo.compiles]
    named = [command for command in log.commands if "-d" in command[:-1]]
    by_output = {command[command.index("-d") + 1]: command for command in named}
    outputs = [next(iter(mojo.paths("outputDirectory")), "") for mojo in compiled]
    usual = all(mojo.usual for mojo in compiled) and len(set(outputs)) == len(outputs)
    if log.generates or _changes_classes(log) or not usual or not by_output.keys() >= set(outputs):
        return
    for output, mojo in zip(outputs, compiled, strict=True):
        yield CompileStep(output, tuple(mojo.paths("compileSourceRoots")), by_output[output])


def _changes_classes(log: MavenLog) -> bool:
    """Whether a plugin runs that may change classes after javac made them."""
    compiled = False
    for mojo in log.mojos:
        plugin = mojo.goal.partition(":")[0]
        if mojo.compiles:
            compiled = True
        elif mojo.goal == LAST_GOAL:
            compiled = False
        elif compiled and plugin not in HARMLESS_PLUGINS:
            return True
    return False


DEBIAN_SETTINGS = "/etc/maven/settings-debian.xml"
LOG = f"{FOLDER}/maven.log"
SKIPPED_CHECKS = (
    *("-Denforcer.skip", "-Dcheckstyle.skip", "-Drat.skip", "-Dpmd.skip", "-Dspotbugs.skip"),
    *("-Djacoco.skip", "-Dlicense.skip", "-Dspotless.check.skip", "-Danimal.sniffer.skip"),
    *("-Dmaven.javadoc.skip", "-Dsortpom.skip", "-Dmaven.gitcommitid.skip"),
    *("-Dduplicate-finder.skip", "-Dmodernizer.skip", "-Dforbiddenapis.skip"),
    *("-Dmdep.analyze.skip", "-Dfmt.skip", "-Dspotless.apply.skip"),
    # Strict parent POMs set their checks by properties of their own, which they build on these.
    *("-Dair.check.skip-all", "-Dair.check.skip-basic", "-Dair.check.skip-extended"),
    *("-Dbasepom.check.skip-all", "-Dbasepom.check.skip-basic", "-Dbasepom.check.skip-extended"),
)
"""Plugins that check or format sources or read git's history, and make no classes. In a sandbox,
without network and git, they often can't run; some fail with a newer JDK."""

# A user's repository is below the JVM's user.home, which is not always $HOME.
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
COPY = f"{FOLDER}/repository"
"""Links to the files of the project's own repository: some plugins write beside them, and look for
lists of versions in Maven's first repository alone, so that `maven.repo.local.tail` does not do."""
_TOOL = r"""
repository=$1 copy=$2; shift 2
if [ -n "$repository" ] && [ ! -d "$copy" ]; then
    rm -rf "$copy.new"
    cp -rs "$repository" "$copy.new" && mv "$copy.new" "$copy" &&
        find "$copy" -name "maven-metadata*" -exec cp "{}" "{}.own" \; \
            -exec mv "{}.own" "{}" \;
fi
[ -n "$repository" ] && [ -d "$copy" ] && set -- "$@" "-Dmaven.repo.local=$copy"
tool=$(command -v mvn)
home=$(awk -F: -v id="$(id -u)" '$3 == id {print $6}' /etc/passwd 2>/dev/null)
for own in "$home"/.m2/wrapper/dists/*/*/*/bin/mvn /root/.m2/wrapper/dists/*/*/*/bin/mvn; do
    [ -z "$tool" ] && [ -x "$own" ] && tool=$own
done
[ -n "$tool" ] || exit 127
[ -n "$home" ] || export MAVEN_OPTS="$MAVEN_OPTS -Duser.home=$HOME"
exec "$tool" "$@"
"""
# An agent's workspace has links in the place of the modules' outputs. Some plugins take the file
# that such a path leads to for another one, and overwrite it while they read it: so the outputs lie
# in the workspace meanwhile.
_BUILD = r"""
log=$1; shift
find . -name target -type l | while IFS= read -r link; do
    real=$(readlink "$link")
    [ "${real#/}" != "$real" ] || continue
    printf '%s\n%s\n' "$link" "$real"
    rm "$link"
    [ ! -d "$real" ] || mv "$real" "$link"
done >"$0/links"
"$@" >"$log" 2>&1
code=$?
while IFS= read -r link && IFS= read -r real; do
    mkdir -p "$link"
    mv "$link" "$real" && ln -s "$real" "$link"
done <"$0/links"
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
thrown="^(Caused by: |Exception in thread .* )?[A-Za-z.]+(Exception|Error): "
grep -E "^\[(ERROR|FATAL)|$details|$thrown" "$1" | head -n 300
# A JVM that crashes or does not start says why in other words.
grep -qE "^\[(ERROR|FATAL)|$thrown" "$1" || grep -vE "^\[DEBUG\]" "$1" | tail -n 15
exit 0
"""


def build_maven(job: BuildJob, module: Module) -> JavaProject:
    """Build a module with its dependencies. Raises BuildFailed, JavaUnavailable, SandboxError."""
    command = maven_command(job.sandbox, job.jdk, module, ["-X", *SKIPPED_CHECKS, "-DskipTests"])
    told = run_tool(job, module, _BUILD, LOG, *command)
    if told.exit_code != 0:
        output = job.run(_FAILURE, LOG).output
        raise with_advice(job.sandbox, build_failed(job.sandbox, "mvn", output))
    own = _own_repository(job.sandbox)
    # A program under test could replace the links, but not what they lead to.
    output = told.output.replace(COPY, own) if own else told.output
    return project_of(read_log(output), job.absolute(module.folder), module)


def maven_command(sandbox: Sandbox, jdk: Jdk, module: Module, options: Sequence[str]) -> list[str]:
    """The command that takes a module and its dependencies to the phase `test`; to be run in the
    build's root. It exits with MISSING if there is no Maven."""
    selection: list[str] = []
    if module.root != module.folder:
        selection = ["-pl", posixpath.relpath(module.folder, module.root), "-am"]
    arguments = [*maven_options(sandbox), *options, *selection, "test"]
    environment = [f"JAVA_HOME={jdk.home}", f"MAVEN_OPTS={JVM_OPTIONS}"]
    repository = _own_repository(sandbox)
    return ["env", *environment, "sh", "-c", _TOOL, "sh", repository, COPY, *arguments]


def _own_repository(sandbox: Sandbox) -> str:
    """The folder of the project's own repository, if `mvn` uses it; otherwise empty."""
    own = repository_in(sandbox.config)
    if own is None or sandbox.config.java.maven_options != own.maven_options:
        return ""
    return str(own.folder)


def maven_options(sandbox: Sandbox) -> list[str]:
    """The options of every `mvn`: the configured ones, otherwise offline, with the repository
    found."""
    configured = sandbox.config.java.maven_options
    if configured is not None:
        return ["-B", *configured]
    found = capture(sandbox, _REPOSITORY, *sandbox.config.readable_paths).output.strip()
    if found.startswith("repository="):
        place = found.removeprefix("repository=")
        # Otherwise Maven checks which remote repository each artifact came from.
        return ["-B", "-o", "-Dmaven.legacyLocalRepo=true", f"-Dmaven.repo.local={place}"]
    return ["-B", "-o", *(["-s", DEBIAN_SETTINGS] if found == "debian" else [])]
