"""Build the module that a test belongs to if its sources have changed."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from sandbox.base import Command, Sandbox
from sandbox.errors import BuildFailed
from sandbox.java.gradle import build_gradle, gradle_command
from sandbox.java.javac import compile_sources
from sandbox.java.jdk import Jdk, find_jdk
from sandbox.java.lookup import Found, Lookup, parse_name
from sandbox.java.maven import SKIPPED_CHECKS, build_maven, maven_command
from sandbox.java.project import (
    OUTPUT_FOLDERS,
    BuildJob,
    BuildKind,
    CompileStep,
    JavaProject,
    Module,
    Scan,
    find_module,
    installed_tools,
    is_build_file,
    scan_workspace,
)
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
    jupiter = any(name.startswith(("org.junit.jupiter", "spock.")) for name in found.imports)
    return not project.class_path or (jupiter and not _has_launcher(project))


def _has_launcher(project: JavaProject) -> bool:
    known = ("junit-platform-launcher", "junit-platform-console-standalone")
    return any(posixpath.basename(path).startswith(known) for path in project.class_path)


def fork_command(sandbox: Sandbox, jdk: Jdk, module: Module, found: Found) -> list[str]:
    """The build tool's command that runs one test in a JVM that connects back to the debugger: the
    fallback if the class path is unknown, or if only the build tool can run the test framework."""
    if module.kind is BuildKind.MAVEN:
        options = [
            *SKIPPED_CHECKS,
            *(f"-Dtest={found.selector}", "-DfailIfNoTests=false"),
            *("-Dsurefire.failIfNoSpecifiedTests=false", "-DtrimStackTrace=false"),
            *(f"-Dmaven.surefire.debug={AGENT}", "-DforkCount=1"),
        ]
        return maven_command(sandbox, jdk, module, options)
    write_bytes(sandbox, GRADLE_SCRIPT, _GRADLE_SCRIPT.encode())
    path = posixpath.relpath(module.folder, module.root)
    prefix = "" if path == "." else ":" + path.replace("/", ":") + ":"
    name = found.class_name + (f".{found.method}" if found.method else "")
    options = ["-I", GRADLE_SCRIPT, f"-Dstepinto.agent={AGENT}"]
    return gradle_command(sandbox, jdk, [*options, f"{prefix}{module.source_set}", "--tests", name])


OUTPUT = f"{FOLDER}/classes"
SYSTEM_JARS = "/usr/share/java"
FRAMEWORK_JARS = {
    "org.junit.jupiter": (
        *("junit-jupiter-api", "junit-jupiter-engine", "junit-jupiter-params"),
        *("junit-platform-commons", "junit-platform-engine", "junit-platform-launcher"),
        *("opentest4j", "apiguardian-api", "univocity-parsers"),
    ),
    "org.testng": ("testng", "jcommander", "bsh", "slf4j-api"),
    "org.junit": ("junit4", "hamcrest-core"),
    "junit.framework": ("junit4", "hamcrest-core"),
    # On the class path of HumanEval tasks.
    "org.javatuples": ("javatuples",),
}
"""Jars of the distribution used if the workspace lacks the test's framework."""

_PACKAGES = r"""
find . -name "*.java" -type f \
    -exec grep -m1 -HoE "^[[:space:]]*package[[:space:]]+[A-Za-z0-9_.]+" {} +
exit 0
"""


def build_plain(job: BuildJob, module: Module, found: Found) -> JavaProject:
    """Compile all sources, or if that fails only those that the target needs. Raises BuildFailed,
    SandboxError."""
    packages: dict[str, str] = {}
    for line in job.run(_PACKAGES).output.splitlines():
        path, _, declaration = line.rpartition(":")
        packages[posixpath.normpath(path)] = (declaration.split() or [""])[-1]
    home = _root(found.file, packages)
    # One file for each class, since javac refuses duplicates; the target's root comes first.
    chosen: dict[str, str] = {}
    for path in sorted(job.scan.sources, key=lambda path: (_root(path, packages) != home, path)):
        chosen.setdefault(f"{packages.get(path, '')}.{posixpath.basename(path)}", path)
    sources = sorted(chosen.values())
    roots = sorted({_root(path, packages) for path in sources}, key=len)
    absolute = tuple(job.absolute(root) for root in roots)
    jars = _jars(job.sandbox, job.scan, found)
    class_path = ["-classpath", ":".join([OUTPUT, *jars])]
    options = ("-g", "-nowarn", "-encoding", "UTF-8", "-d", OUTPUT, *class_path)
    try:
        compile_sources(job, CompileStep(OUTPUT, absolute, options), sources)
    except BuildFailed:
        options = (*options, "-sourcepath", job.absolute(home))
        compile_sources(job, CompileStep(OUTPUT, absolute, options), [found.file])
    return JavaProject(
        module=module,
        folder=job.sandbox.workspace,
        class_path=(OUTPUT, *absolute, *jars),
        class_roots=(OUTPUT,),
        source_roots=absolute,
    )


def _root(path: str, packages: dict[str, str]) -> str:
    folder = posixpath.dirname(path)
    package = packages.get(path, "").replace(".", "/")
    if package and f"/{folder}".endswith(f"/{package}"):
        folder = folder[: len(folder) - len(package)].rstrip("/")
    return folder or "."


def _jars(sandbox: Sandbox, scan: Scan, found: Found) -> list[str]:
    """The configured class path, the workspace's jars, and the target's test framework."""
    own = [posixpath.join(sandbox.workspace, path) for path in scan.stamps if path.endswith(".jar")]
    given = [*sandbox.config.java.class_path, *own]
    wanted: dict[str, None] = {}
    for framework, names in FRAMEWORK_JARS.items():
        if any(name.startswith(framework) for name in found.imports):
            wanted |= dict.fromkeys(f"{SYSTEM_JARS}/{name}.jar" for name in names)
    if not wanted or any(re.search(r"junit|testng", posixpath.basename(jar)) for jar in given):
        return given
    script = 'for jar; do [ -f "$jar" ] && echo "$jar"; done; exit 0'
    there = sandbox.run(Command(["sh", "-c", script, "sh", *wanted]))
    return [*given, *there.output.split()]


OTHER_LANGUAGES = (".kt", ".groovy", ".scala")


def recompile(job: BuildJob, project: JavaProject, changed: Set[str]) -> bool:
    """Repeat the build tool's javac calls, starting at the first one that a change affects: the
    same classes in a fraction of the time.

    Returns False if only the tool itself would surely give the same result: other files than Java
    sources have changed, the calls are unknown, or some sources are generated or in another
    language. Raises BuildFailed, SandboxError.
    """
    workspace = job.sandbox.workspace
    roots = [
        [posixpath.relpath(root, workspace) for root in step.source_roots] for step in project.steps
    ]
    every = [root for own in roots for root in own]
    if (
        not changed
        or not all(map(_hand_written, every))
        or any(path.endswith(OTHER_LANGUAGES) for path in job.scan.stamps)
        or not all(path.endswith(".java") and _inside(path, every) for path in changed)
    ):
        return False
    affected = [any(_inside(path, own) for path in changed) for own in roots]
    for step, own in list(zip(project.steps, roots, strict=True))[affected.index(True) :]:
        sources = [job.absolute(path) for path in job.scan.sources if _inside(path, own)]
        try:
            if sources:
                compile_sources(job, step, sources)
        except BuildFailed as error:
            if error.in_sources:
                raise
            # Another reason than the sources, such as a missing class path.
            return False
    return True


def _hand_written(root: str) -> bool:
    """Whether a root holds hand-written sources; the scan leaves generated ones out."""
    parts = root.split("/")
    above = parts[: parts.index("src")] if "src" in parts else parts
    return not {"..", *OUTPUT_FOLDERS} & set(above)


def _inside(path: str, roots: Sequence[str]) -> bool:
    return any(root == "." or path.startswith(f"{root}/") for root in roots)


_ENGINE = re.compile(r"junit-platform-(engine|commons)-([\w.-]+?)\.jar$")
# Maven keeps versions side by side in a module's folder; Gradle one level deeper, by hash.
_FIND_LAUNCHER = r"""
name=junit-platform-launcher-$1.jar
for jar in "$0/$name" "$0/../../junit-platform-launcher/$1/$name" \
        "$0/../../../junit-platform-launcher/$1"/*/"$name"; do
    [ -f "$jar" ] && { echo "$jar"; exit 0; }
done
exit 0
"""


def with_launcher(sandbox: Sandbox, project: JavaProject) -> JavaProject:
    """Add the JUnit Platform launcher of the engine's version, if the class path has an engine and
    no launcher, and a Maven repository, Gradle's cache or the engine's folder has one. Build tools
    add it themselves when they run tests."""
    for path in () if _has_launcher(project) else project.class_path:
        if (match := _ENGINE.search(path)) is not None:
            argv = ["sh", "-c", _FIND_LAUNCHER, posixpath.dirname(path), match[2]]
            found = map(posixpath.normpath, sandbox.run(Command(argv)).output.split())
            return replace(project, class_path=(*project.class_path, *found))
    return project


@dataclass(frozen=True)
class _Built:
    scan: Scan
    target: str
    project: JavaProject
    outputs: str
    """A digest of its classes; empty if only the build tool knows its outputs."""


@dataclass
class _Workspace:
    tools: frozenset[str]
    scan: Scan | None = None
    """The last scan."""
    built: dict[Module, _Built] = field(default_factory=dict)


_workspaces: WeakKeyDictionary[Sandbox, _Workspace] = WeakKeyDictionary()


def built_test(sandbox: Sandbox, test: str, timeout: float = 300.0) -> tuple[Found, JavaProject]:
    """Find what `test` names in the workspace (see `parse_name` for its forms), and build its
    module with the modules that it depends on.

    Fast if nothing has changed since the last call on this sandbox. Raises JavaError (NoSuchTest,
    BuildFailed with the compiler's errors, JavaUnavailable) or SandboxError.
    """
    jdk = find_jdk(sandbox)
    found, scan = find_test(sandbox, test)
    return found, _build(BuildJob(sandbox, jdk, scan, time.monotonic() + timeout), found)


def find_test(sandbox: Sandbox, test: str) -> tuple[Found, Scan]:
    """Find what `test` names, without a build. Raises JavaError or SandboxError."""
    workspace = _workspace(sandbox)
    outputs = [known.project.class_roots for known in workspace.built.values()]
    scan = workspace.scan = scan_workspace(sandbox, workspace.scan, outputs)
    return Lookup(sandbox, scan).find(parse_name(test)), scan


def _build(job: BuildJob, found: Found) -> JavaProject:
    workspace = _workspace(job.sandbox)
    module = find_module(job.sandbox, job.scan, found.file, workspace.tools)
    known = workspace.built.pop(module, None)
    if known is not None:
        # Somebody may have cleaned or compiled since. Without a build tool, the compiled sources
        # depend on the target.
        same = known.target == found.file or module.kind is not BuildKind.PLAIN
        outputs = job.scan.outputs.get(known.project.class_roots, "")
        known = known if same and outputs in (known.outputs, "") else None
    if known is None:
        project = _with_tool(job, module, found)
    elif changes := _changes(known, module, job.scan):
        try:
            repeated = recompile(job, known.project, changes)
            project = known.project if repeated else _with_tool(job, module, found)
        except BuildFailed:
            # javac's outputs are gone; the next attempt starts from the same changes.
            workspace.built[module] = _as_built(job, known.scan, found, known.project)
            raise
    else:
        workspace.built[module] = known
        return known.project
    built = workspace.built[module] = _as_built(job, job.scan, found, project)
    return built.project


def _as_built(job: BuildJob, scan: Scan, found: Found, project: JavaProject) -> _Built:
    """Record a build. Files that the build wrote are no changes; files edited meanwhile are."""
    roots = project.class_roots
    after = scan_workspace(job.sandbox, outputs=[roots] if project.class_path else [])
    if any(path not in job.scan.stamps for path in after.sources):
        # The build makes sources beside the others, and they may be gone before the next one.
        project = replace(project, steps=())
    seen = Scan({**after.stamps, **scan.stamps})
    return _Built(seen, found.file, project, after.outputs.get(roots, ""))


def _changes(known: _Built, module: Module, scan: Scan) -> set[str]:
    """The changed files that are inputs of a build."""
    changed = scan.changed(known.scan)
    if module.kind is BuildKind.PLAIN:
        return {path for path in changed if path.endswith((".java", ".jar"))}
    # A new file may be one that a test run left behind.
    return {
        path
        for path in changed
        if path in known.scan.stamps
        or path.endswith((".java", *OTHER_LANGUAGES))
        or "src" in path.split("/")
        or is_build_file(path)
    }


def _with_tool(job: BuildJob, module: Module, found: Found) -> JavaProject:
    if module.kind is BuildKind.PLAIN:
        return build_plain(job, module, found)
    build = build_maven if module.kind is BuildKind.MAVEN else build_gradle
    return with_launcher(job.sandbox, build(job, module))


def _workspace(sandbox: Sandbox) -> _Workspace:
    if sandbox not in _workspaces:
        _workspaces[sandbox] = _Workspace(installed_tools(sandbox))
    return _workspaces[sandbox]


def java_command(
    sandbox: Sandbox, jdk: Jdk, project: JavaProject, jar: str, program: Sequence[str]
) -> list[str]:
    """The command of a plain JVM that runs a program (its class, then arguments) on a project's
    class path, with StepInto's own `jar` last, so that it hides nothing.

    Jars of other projects come before the project's own classes, so that these can't replace, say,
    an assertion of a test library.
    """
    own = re.compile(rf"{re.escape(sandbox.workspace)}/(.*/)?({'|'.join(OUTPUT_FOLDERS)})/")
    first = [path for path in project.class_path if path.endswith(".jar") and not own.match(path)]
    rest = [path for path in project.class_path if path not in first]
    class_path = ":".join([*first, *rest, jar])
    options = project.jvm_options or ("-ea",)
    given = [option for option in options if re.match(r"-XX:\+Use\w+GC$", option)]
    # Fewer threads and less memory than the JVM would choose from the host's cores.
    collector = [] if given else ["-XX:+UseSerialGC"]
    # A heap above the sandbox's limit would end in a crash instead of an OutOfMemoryError.
    heap = f"-Xmx{sandbox.config.memory_mb // 2}m"
    bounds = [] if any(option.startswith("-Xmx") for option in options) else [heap]
    return [jdk.java, *collector, *bounds, *options, "-cp", class_path, *program]
