"""How StepInto sees a Java project: what builds it, and what runs its tests."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath

from sandbox.base import SOURCE_LIMIT, Command, CommandResult, Sandbox
from sandbox.errors import BuildTimedOut, JavaError, JavaUnavailable, SandboxFileError
from sandbox.java.jdk import Jdk
from sandbox.shell import capture

BUILD_FILES = (
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
)
GRADLE_FILES = BUILD_FILES[1:5]
SETTINGS_FILES = ("settings.gradle", "settings.gradle.kts")
OUTPUT_FOLDERS = ("target", "build", "out", "bin")
SCAN_TIMEOUT = 60.0

# Leaves out the folders that build tools write to, but not packages of those names. Unlike the
# modification time, a file's change time (%z) can't be set back.
_SCAN = r"""
list=$0/scan-$$
built=$(find . -maxdepth 3 \( -name pom.xml -o -name "*.gradle" -o -name "*.gradle.kts" \) |
    head -n 1)
find . -type d \( -name .git -o -name .gradle -o -name .idea -o -name node_modules \
        -o -name __pycache__ \) -prune -o \
    -type d ${built:+\( -name target -o -name build -o -name out -o -name bin \)
        ! -path "*/src/*" -prune -o -type d} -o \
    -type f ! -name "*.class" ! -name "*.pyc" -exec stat -c "%n|%s|%y|%z" {} + >"$list"
known=$1; shift
digest() { found=$(sha256sum); echo "${found%% *}"; }
IFS="
"
set -f
for roots; do
    find $roots -name "*.class" -exec stat -c "%n|%s|%z" {} + 2>/dev/null | sort | digest
done
found=$(digest <"$list")
echo "$found"
[ "$found" = "$known" ] || cat "$list"
rm -f "$list"
"""


@dataclass(frozen=True)
class Scan:
    """The files of a workspace without build outputs, by path relative to it."""

    stamps: Mapping[str, str] = field(default_factory=dict)
    """Size and times of each file."""
    digest: str = ""
    """Digest of all stamps."""
    outputs: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """A digest of the classes for each requested tuple of folders."""

    @property
    def sources(self) -> list[str]:
        return [path for path in self.stamps if path.endswith(".java")]

    def changed(self, earlier: Scan) -> set[str]:
        """Files added, removed or changed since an earlier scan."""
        return {path for path, _ in self.stamps.items() ^ earlier.stamps.items()}


def scan_workspace(
    sandbox: Sandbox, last: Scan | None = None, outputs: Sequence[tuple[str, ...]] = ()
) -> Scan:
    """Scan all files, and the classes in some output folders.

    If nothing has changed since the `last` scan, its list is reused. Raises JavaError if it takes
    too long, or SandboxError.
    """
    known = last.digest if last is not None else ""
    arguments = [known, *("\n".join(roots) for roots in outputs)]
    found = capture(sandbox, _SCAN, *arguments, cwd=sandbox.workspace, timeout=SCAN_TIMEOUT)
    if found.timed_out:
        raise JavaError(f"listing the workspace's files took more than {SCAN_TIMEOUT:g} s")
    lines = found.output.splitlines()
    if len(lines) <= len(outputs):
        raise JavaError(f"can't list the workspace's files: {found.output.strip()}")
    classes = dict(zip(outputs, lines, strict=False))
    digest = lines[len(outputs)]
    if last is not None and digest == known:
        return replace(last, outputs=classes)
    stamps = {}
    for line in lines[len(outputs) + 1 :]:
        path, bar, stamp = line.removeprefix("./").partition("|")
        if bar:
            stamps[posixpath.normpath(path)] = stamp
    return Scan(dict(sorted(stamps.items())), digest, classes)


def is_build_file(path: str) -> bool:
    *folders, name = path.split("/")
    build_logic = (".gradle", ".gradle.kts", ".jar", ".versions.toml")
    in_folder = ".mvn" in folders or folders[:1] == ["buildSrc"]
    return name in BUILD_FILES or name.endswith(build_logic) or in_folder


MISSING = 127
"""Exit code of a build command if its tool is missing."""
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Xss4m"
"""Of the build tools' own JVMs. The first compiler's code takes more stack, and javac needs much of
it for long chains of calls."""
LEAST = 1.0
"""Seconds that a tool gets at least, so that it can report its own error."""


@dataclass(frozen=True)
class BuildJob:
    """The inputs that all builders need."""

    sandbox: Sandbox
    jdk: Jdk
    scan: Scan
    """The workspace as it is being built."""
    deadline: float
    """On the clock of `time.monotonic`."""

    def run(self, script: str, *arguments: str, folder: str = ".") -> CommandResult:
        """Run a script of `sh` in a folder of the workspace, until the deadline at most."""
        left = max(LEAST, self.deadline - time.monotonic())
        return capture(self.sandbox, script, *arguments, cwd=self.absolute(folder), timeout=left)

    def absolute(self, path: str) -> str:
        """The absolute path, inside the sandbox, of a path relative to the workspace."""
        return posixpath.normpath(posixpath.join(self.sandbox.workspace, path))


class BuildKind(StrEnum):
    MAVEN = "maven"
    GRADLE = "gradle"
    PLAIN = "plain"
    """Sources without a build file: javac."""


@dataclass(frozen=True)
class Module:
    """One module of a build: its folder and the build's, relative to the workspace."""

    kind: BuildKind
    root: str
    """Where the build tool runs; `.` is the workspace itself."""
    folder: str
    source_set: str = "test"
    """Gradle's name for the source set of the tests."""


@dataclass(frozen=True)
class CompileStep:
    """One javac call of the build tool."""

    output: str
    """Absolute path of the classes' folder."""
    source_roots: tuple[str, ...]
    """Absolute paths of the folders all of whose sources it compiles."""
    options: tuple[str, ...]


@dataclass(frozen=True)
class JavaProject:
    """A built module: all that a plain JVM needs to run its tests. Paths are absolute, inside the
    sandbox."""

    module: Module
    folder: str
    """The working folder of tests."""
    class_path: tuple[str, ...]
    """The whole class path of tests, the project's own classes first; empty if only the build tool
    knows it."""
    class_roots: tuple[str, ...]
    """Folders of the project's own classes, including those of other modules of the build."""
    source_roots: tuple[str, ...]
    jvm_options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[CompileStep, ...] = ()
    """How the build tool compiles it, in order; empty if not known for sure."""


TOOLS = {BuildKind.MAVEN: "mvn", BuildKind.GRADLE: "gradle"}
_LAYOUTS = {
    BuildKind.MAVEN: ("target/classes", "target/test-classes"),
    BuildKind.GRADLE: ("build/classes/java/main", "build/classes/java/test"),
}


def unknown_project(folder: str, module: Module) -> JavaProject:
    """A module of the usual layout in an absolute `folder`, whose build tool does not print its
    class path."""
    roots = tuple(f"{folder}/{path}" for path in _LAYOUTS[module.kind])
    sources = (f"{folder}/src/main/java", f"{folder}/src/{module.source_set}/java")
    return JavaProject(module, folder, (), roots, sources)


def find_module(sandbox: Sandbox, scan: Scan, file: str, tools: frozenset[str]) -> Module:
    """The module of a source file. If a folder has two build files, the first whose tool (`mvn`,
    `gradle`) is installed decides, Maven's before Gradle's."""
    for folder in _folders_above(file):
        kinds = [BuildKind.MAVEN] if _join(folder, "pom.xml") in scan.stamps else []
        if any(_join(folder, name) in scan.stamps for name in GRADLE_FILES):
            kinds.append(BuildKind.GRADLE)
        if not kinds:
            continue
        kind = next((kind for kind in kinds if TOOLS[kind] in tools), kinds[0])
        sources = "test"
        if kind is BuildKind.GRADLE:
            # Gradle's layout: `test` of `src/test/java/...`.
            match = re.match(r"src/([\w-]+)/", posixpath.relpath(file, folder))
            sources = match[1] if match and match[1] != "main" else "test"
        return Module(kind, _root(sandbox, scan, folder, kind), folder, sources)
    return Module(BuildKind.PLAIN, ".", ".")


def installed_tools(sandbox: Sandbox) -> frozenset[str]:
    """The build tools in a sandbox: `mvn`, `gradle`."""
    script = 'for tool; do command -v "$tool" >/dev/null && echo "$tool"; done; exit 0'
    result = sandbox.run(Command(["sh", "-c", script, "sh", *TOOLS.values()]))
    return frozenset(result.output.split())


def run_tool(job: BuildJob, module: Module, script: str, *arguments: str) -> CommandResult:
    """Run a script with the build tool in the build's root. Raises BuildTimedOut, JavaUnavailable
    if it exits with MISSING."""
    told = job.run(script, *arguments, folder=module.root)
    if told.timed_out:
        raise timed_out(TOOLS[module.kind])
    if told.exit_code == MISSING:
        raise JavaUnavailable(
            f"the project in {module.root} is built by {module.kind.capitalize()}, and the sandbox "
            f"has no `{TOOLS[module.kind]}`: install it (Debian: apt-get install {module.kind}), "
            "or choose an image that has it"
        )
    return told


def timed_out(tool: str) -> BuildTimedOut:
    return BuildTimedOut(
        f"the build failed: `{tool}` was still at it at the time-out (DebugLimits.build_timeout)"
    )


def _root(sandbox: Sandbox, scan: Scan, folder: str, kind: BuildKind) -> str:
    above = _folders_above(posixpath.join(folder, "file"))
    if kind is BuildKind.GRADLE:
        found = scan.stamps.keys()
        settings = (f for f in above if any(_join(f, name) in found for name in SETTINGS_FILES))
        return next(settings, folder)
    root = folder
    for parent in above[1:]:
        pom, text = _join(parent, "pom.xml"), ""
        with suppress(SandboxFileError):
            if pom in scan.stamps:
                text = sandbox.read_file(pom, SOURCE_LIMIT).decode("utf-8", "replace")
        names = re.findall(r"<module>([^<]*)</module>", text)
        modules = {posixpath.normpath(name.strip().removesuffix("/pom.xml")) for name in names}
        if posixpath.relpath(root, parent) in modules:
            root = parent
    return root


def _folders_above(file: str) -> list[str]:
    """A file's parent folders, innermost first, the workspace (`.`) last."""
    return [str(folder) for folder in PurePosixPath(posixpath.normpath(file)).parents]


def _join(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))
