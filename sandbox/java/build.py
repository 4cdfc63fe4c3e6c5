"""Builds the module that a test belongs to, when its sources have changed since."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sandbox.base import Command, Sandbox
from sandbox.java.errors import BuildFailed
from sandbox.java.gradle import build_gradle
from sandbox.java.jdk import Jdk, find_jdk
from sandbox.java.job import BuildJob
from sandbox.java.launcher_jar import with_launcher
from sandbox.java.lookup import Found, Lookup
from sandbox.java.maven import build_maven
from sandbox.java.names import parse_name
from sandbox.java.plain import build_plain
from sandbox.java.project import TOOLS, BuildKind, JavaProject, Module, find_module
from sandbox.java.recompile import OTHER_LANGUAGES, recompile
from sandbox.java.scan import OUTPUT_FOLDERS, Scan, is_build_file, scan_workspace

BUILD_TIMEOUT = 300.0


@dataclass(frozen=True)
class _Built:
    """What a sandbox's module was when it was built last."""

    scan: Scan
    target: str
    project: JavaProject
    outputs: str
    """A digest of its classes; empty where only the build tool knows what it made."""


@dataclass
class _Workspace:
    """What is known of one sandbox's workspace."""

    tools: frozenset[str]
    scan: Scan | None = None
    """How it was seen last."""
    built: dict[Module, _Built] = field(default_factory=dict)


_workspaces: WeakKeyDictionary[Sandbox, _Workspace] = WeakKeyDictionary()


def built_test(
    sandbox: Sandbox, test: str, timeout: float = BUILD_TIMEOUT
) -> tuple[Found, JavaProject]:
    """Find what `test` names in the workspace (see `names.parse_name` for its forms), and build
    the module it lies in, with the modules that one needs.

    Quick where nothing has changed since the last call on this sandbox. Raises JavaError: a
    NoSuchTest, a BuildFailed with the compiler's errors, a JavaUnavailable; SandboxError.
    """
    jdk = find_jdk(sandbox)
    workspace = _workspace(sandbox)
    outputs = [known.project.class_roots for known in workspace.built.values()]
    scan = workspace.scan = scan_workspace(sandbox, workspace.scan, outputs)
    found = Lookup(sandbox, scan).find(parse_name(test))
    return found, _build(BuildJob(sandbox, jdk, scan, time.monotonic() + timeout), found)


def _build(job: BuildJob, found: Found) -> JavaProject:
    workspace = _workspace(job.sandbox)
    module = find_module(job.sandbox, job.scan, found.file, workspace.tools)
    known = workspace.built.pop(module, None)
    if known is None or not _intact(known, module, job.scan, found):
        project = _with_tool(job, module, found)
    elif changes := _changes(known, module, job.scan):
        try:
            project = known.project
            if not recompile(job, project, changes):
                project = _with_tool(job, module, found)
        except BuildFailed:
            # What javac made is gone, and the next attempt starts from the same changes.
            workspace.built[module] = _as_built(job, known.scan, found, known.project)
            raise
    else:
        workspace.built[module] = known
        return known.project
    workspace.built[module] = _as_built(job, job.scan, found, project)
    return project


def _intact(known: _Built, module: Module, scan: Scan, found: Found) -> bool:
    """Whether what was built is there as it was: nobody has cleaned or compiled since. Without a
    build tool, what is compiled follows the target."""
    same = known.target == found.file or module.kind is not BuildKind.PLAIN
    return same and scan.outputs.get(known.project.class_roots, "") in (known.outputs, "")


def _as_built(job: BuildJob, scan: Scan, found: Found, project: JavaProject) -> _Built:
    """What the build itself wrote is no change; what was edited meanwhile is one."""
    roots = project.class_roots
    after = scan_workspace(job.sandbox, outputs=[roots] if project.class_path else [])
    seen = Scan({**after.stamps, **scan.stamps})
    return _Built(seen, found.file, project, after.outputs.get(roots, ""))


def _changes(known: _Built, module: Module, scan: Scan) -> set[str]:
    """What has changed of what a build looks at."""
    changed = scan.changed(known.scan)
    if module.kind is BuildKind.PLAIN:
        return {path for path in changed if path.endswith((".java", ".jar"))}
    return {path for path in changed if known.scan.has(path) or _may_be_input(path)}


def _may_be_input(path: str) -> bool:
    """Whether a new file may matter to a build; what a test run leaves behind does not."""
    sources = path.endswith((".java", *OTHER_LANGUAGES)) or "src" in path.split("/")
    return sources or is_build_file(path)


def _with_tool(job: BuildJob, module: Module, found: Found) -> JavaProject:
    if module.kind is BuildKind.PLAIN:
        return build_plain(job, module, found)
    build = build_maven if module.kind is BuildKind.MAVEN else build_gradle
    return with_launcher(job.sandbox, build(job, module))


def _workspace(sandbox: Sandbox) -> _Workspace:
    if sandbox not in _workspaces:
        script = 'for tool; do command -v "$tool" >/dev/null && echo "$tool"; done; exit 0'
        result = sandbox.run(Command(["sh", "-c", script, "sh", *TOOLS.values()]))
        _workspaces[sandbox] = _Workspace(frozenset(result.output.split()))
    return _workspaces[sandbox]


def java_command(
    sandbox: Sandbox, jdk: Jdk, project: JavaProject, jar: str, program: Sequence[str]
) -> list[str]:
    """The command of a plain JVM that runs a program (its class, then arguments) on a project's
    class path, with StepInto's own `jar` at the end of it, where it is in nobody's way.

    Other projects' jars come before the project's own classes, so that none of these stands in
    for, say, an assertion of a test library.
    """
    own = re.compile(rf"{re.escape(sandbox.workspace)}/(.*/)?({'|'.join(OUTPUT_FOLDERS)})/")
    first = [path for path in project.class_path if path.endswith(".jar") and not own.match(path)]
    rest = [path for path in project.class_path if path not in first]
    class_path = ":".join([*first, *rest, jar])
    options = project.jvm_options or ("-ea",)
    given = [option for option in options if re.match(r"-XX:\+Use\w+GC$", option)]
    # Fewer threads and less memory than the JVM's own choice, which goes by the host's cores.
    collector = [] if given else ["-XX:+UseSerialGC"]
    # A heap beyond the sandbox's limit would end in a crash and not in an OutOfMemoryError.
    heap = f"-Xmx{sandbox.config.memory_mb // 2}m"
    bounds = [] if any(option.startswith("-Xmx") for option in options) else [heap]
    return [jdk.java, *collector, *bounds, *options, "-cp", class_path, *program]
