"""Projects without a build file: all sources through javac, jars from `lib/`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from sandbox.base import Command, Sandbox
from sandbox.java.errors import BuildFailed
from sandbox.java.javac import compile_sources
from sandbox.java.job import BuildJob
from sandbox.java.lookup import Found
from sandbox.java.project import CompileStep, JavaProject, Module
from sandbox.java.scan import Scan
from sandbox.shell import FOLDER

OUTPUT = f"{FOLDER}/classes"
SYSTEM_JARS = "/usr/share/java"
FRAMEWORK_JARS = {
    "org.junit.jupiter": (
        "junit-jupiter-api",
        "junit-jupiter-engine",
        "junit-jupiter-params",
        "junit-platform-commons",
        "junit-platform-engine",
        "junit-platform-launcher",
        "opentest4j",
        "apiguardian-api",
        "univocity-parsers",
    ),
    "org.testng": ("testng", "jcommander", "bsh", "slf4j-api"),
    "org.junit": ("junit4", "hamcrest-core"),
    "junit.framework": ("junit4", "hamcrest-core"),
    # What tasks of HumanEval are given on the class path.
    "org.javatuples": ("javatuples",),
}
"""Jars of the distribution that stand in where a test's own framework is not in the workspace."""

_PACKAGES = r"""
find . -name "*.java" -type f \
    -exec grep -m1 -HoE "^[[:space:]]*package[[:space:]]+[A-Za-z0-9_.]+" {} +
exit 0
"""


def build_plain(job: BuildJob, module: Module, found: Found) -> JavaProject:
    """Compile all sources; where they do not compile together, only what the target needs.

    Raises BuildFailed, SandboxError.
    """
    packages = _packages(job)
    chosen = _without_doubles(job.scan.sources, packages, found.file)
    roots = sorted({_root(path, packages) for path in chosen}, key=len)
    home = _root(found.file, packages)
    absolute = [job.absolute(root) for root in roots]
    jars = _jars(job.sandbox, job.scan, found)
    step = _step(jars, absolute)
    try:
        compile_sources(job, step, chosen)
    except BuildFailed:
        needed = (*step.options, "-sourcepath", job.absolute(home))
        alone = CompileStep(step.output, step.source_roots, needed)
        compile_sources(job, alone, [found.file])
        step = alone
    return JavaProject(
        module=module,
        folder=job.sandbox.workspace,
        class_path=(OUTPUT, *absolute, *jars),
        class_roots=(OUTPUT,),
        source_roots=tuple(absolute),
    )


def _step(jars: Sequence[str], roots: Sequence[str]) -> CompileStep:
    class_path = ["-classpath", ":".join([OUTPUT, *jars])]
    options = ("-g", "-nowarn", "-encoding", "UTF-8", "-d", OUTPUT, *class_path)
    return CompileStep(OUTPUT, tuple(roots), options)


def _packages(job: BuildJob) -> dict[str, str]:
    """The package of each source that names one."""
    told = job.run(_PACKAGES)
    packages = {}
    for line in told.output.splitlines():
        path, _, declaration = line.rpartition(":")
        words = re.split(r"\s+", declaration.strip())
        packages[posixpath.normpath(path)] = words[-1]
    return packages


def _root(path: str, packages: dict[str, str]) -> str:
    """The folder that a source's package starts in, relative to the workspace."""
    folder = posixpath.dirname(path)
    package = packages.get(path, "").replace(".", "/")
    if package and f"/{folder}".endswith(f"/{package}"):
        folder = folder[: len(folder) - len(package)].rstrip("/")
    return folder or "."


def _without_doubles(sources: Iterable[str], packages: dict[str, str], target: str) -> list[str]:
    """One file of each class: javac refuses a class that it is given twice. The root that the
    target lies in comes first."""
    home = _root(target, packages)
    chosen: dict[str, str] = {}
    for path in sorted(sources, key=lambda path: (_root(path, packages) != home, path)):
        name = f"{packages.get(path, '')}.{posixpath.basename(path)}"
        chosen.setdefault(name, path)
    return sorted(chosen.values())


def _jars(sandbox: Sandbox, scan: Scan, found: Found) -> list[str]:
    """The configured class path, the workspace's jars, and the target's test framework."""
    own = [posixpath.join(sandbox.workspace, path) for path in scan.stamps if path.endswith(".jar")]
    given = [*sandbox.config.java.class_path, *own]
    if any(re.search(r"junit|testng", posixpath.basename(jar)) for jar in given):
        return given
    wanted = [
        f"{SYSTEM_JARS}/{name}.jar"
        for framework, names in FRAMEWORK_JARS.items()
        if any(name.startswith(framework) for name in found.imports)
        for name in names
    ]
    if not wanted:
        return given
    script = 'for jar; do [ -f "$jar" ] && echo "$jar"; done; exit 0'
    there = sandbox.run(Command(["sh", "-c", script, "sh", *dict.fromkeys(wanted)]))
    return [*given, *there.output.split()]
