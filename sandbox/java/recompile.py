"""Compiles changed sources with the javac calls that the build tool made: the same classes, in a
fraction of the tool's time."""

from __future__ import annotations

import posixpath

from sandbox.java.javac import compile_sources
from sandbox.java.job import BuildJob
from sandbox.java.project import CompileStep, JavaProject
from sandbox.java.scan import Scan

OTHER_LANGUAGES = (".kt", ".groovy", ".scala")


def recompile(job: BuildJob, project: JavaProject, before: Scan) -> bool:
    """Repeat the build tool's calls of javac from the first that a change concerns; False, and
    nothing is done, where only the tool itself would surely do the same: something else than a
    Java source has changed, the calls are not known, or sources are generated or in another
    language. Raises BuildFailed, SandboxError."""
    roots = [tuple(_relative(job, root) for root in step.source_roots) for step in project.steps]
    changed = job.scan.changed(before)
    if not all(_in_one(path, roots) and path.endswith(".java") for path in changed):
        return False
    if not project.steps or any(_generates(step) for step in project.steps):
        return False
    if any(path.endswith(OTHER_LANGUAGES) and _in_one(path, roots) for path in job.scan.stamps):
        return False
    concerned = [any(_inside(path, own) for path in changed) for own in roots]
    for step, own in list(zip(project.steps, roots, strict=True))[concerned.index(True) :]:
        sources = [path for path in job.scan.sources if _inside(path, own)]
        absolute = [job.absolute(path) for path in sources]
        if absolute:
            compile_sources(job, step, absolute)
    return True


def _generates(step: CompileStep) -> bool:
    """Whether annotation processors are named; those only found on the class path write below
    the folder of `-s`, which is a source root once it holds anything."""
    return any(
        option in ("-processor", "-processorpath", "--processor-path") for option in step.options
    )


def _in_one(path: str, roots: list[tuple[str, ...]]) -> bool:
    return any(_inside(path, own) for own in roots)


def _inside(path: str, roots: tuple[str, ...]) -> bool:
    return any(root == "." or path.startswith(f"{root}/") for root in roots)


def _relative(job: BuildJob, root: str) -> str:
    return posixpath.relpath(root, job.sandbox.workspace)
