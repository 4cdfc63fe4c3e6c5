"""Compiles changed sources with the javac calls that the build tool made: the same classes, in a
fraction of the tool's time."""

from __future__ import annotations

import posixpath
from collections.abc import Set

from sandbox.java.errors import BuildFailed
from sandbox.java.javac import compile_sources
from sandbox.java.job import BuildJob
from sandbox.java.project import CompileStep, JavaProject
from sandbox.java.scan import OUTPUT_FOLDERS

OTHER_LANGUAGES = (".kt", ".groovy", ".scala")


def recompile(job: BuildJob, project: JavaProject, changed: Set[str]) -> bool:
    """Repeat the build tool's calls of javac, from the first that a change concerns on.

    False, and nothing is done, where only the tool itself would surely do the same: something
    else than a Java source has changed, the calls are not known, or some sources are generated or
    in another language. Raises BuildFailed, SandboxError.
    """
    roots = [tuple(_relative(job, root) for root in step.source_roots) for step in project.steps]
    if not changed or not roots or not all(_plain(root) for own in roots for root in own):
        return False
    if any(path.endswith(OTHER_LANGUAGES) for path in job.scan.stamps):
        return False
    if not all(path.endswith(".java") and _in_one(path, roots) for path in changed):
        return False
    concerned = [any(_inside(path, own) for path in changed) for own in roots]
    for step, own in list(zip(project.steps, roots, strict=True))[concerned.index(True) :]:
        sources = [job.absolute(path) for path in job.scan.sources if _inside(path, own)]
        if sources and not _compiled(job, step, sources):
            return False
    return True


def _compiled(job: BuildJob, step: CompileStep, sources: list[str]) -> bool:
    """False where javac fails for another reason than the sources': the class path may be gone."""
    try:
        compile_sources(job, step, sources)
    except BuildFailed as error:
        if error.in_sources:
            raise
        return False
    return True


def _plain(root: str) -> bool:
    """Whether a root holds written sources, not generated ones, which the scan leaves out."""
    parts = root.split("/")
    above = parts[: parts.index("src")] if "src" in parts else parts
    return not {"..", *OUTPUT_FOLDERS} & set(above)


def _in_one(path: str, roots: list[tuple[str, ...]]) -> bool:
    return any(_inside(path, own) for own in roots)


def _inside(path: str, roots: tuple[str, ...]) -> bool:
    return any(root == "." or path.startswith(f"{root}/") for root in roots)


def _relative(job: BuildJob, root: str) -> str:
    return posixpath.relpath(root, job.sandbox.workspace)
