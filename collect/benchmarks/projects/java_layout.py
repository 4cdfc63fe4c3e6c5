"""Separate a Java project's tests from its code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from collect.benchmarks.base import Environment
from collect.benchmarks.projects.config import ProjectConfig
from collect.benchmarks.projects.layout import NO_CODE, is_below
from collect.benchmarks.projects.project import Project, ProjectRefused, Source
from collect.benchmarks.running import java_build_outputs

NO_CLASSES = frozenset({"package-info.java", "module-info.java"})
_LICENSE = re.compile(rb"<license>\s*<name>\s*(.*?)\s*</name>", re.DOTALL)


def arrange(project: ProjectConfig, source: Source) -> Project:
    """Lay out the project as Maven or Gradle does. Raises ProjectRefused."""
    files = without_outputs(source.files)
    tests = project.tests or tuple(_test_paths(files))
    if not tests:
        raise ProjectRefused(
            f"{project.place}: no Java tests among its {len(files)} files (src/test/java in a "
            "module's folder); name their folders as `tests`"
        )
    return Project(
        source=replace(source, files=files, license=source.license or _license(files)),
        environment=Environment(),
        test_paths=tests,
        code_paths=tuple(_code_paths(files, tests, project.exclude)),
        language="java",
    )


def without_outputs(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files without build outputs in module folders."""
    outputs = java_build_outputs(files)
    return {path: data for path, data in files.items() if not is_below(path, outputs)}


def _test_paths(files: Mapping[str, bytes]) -> list[str]:
    found = {
        f"{path.partition('src/test/')[0]}src/test"
        for path in files
        if "src/test/" in path and path.endswith(".java")
    }
    return sorted(path for path in found if path.split("/")[0] not in NO_CODE)


def _code_paths(
    files: Mapping[str, bytes], tests: Sequence[str], excluded: Sequence[str]
) -> Iterator[str]:
    for path in sorted(files):
        if not path.endswith(".java") or posixpath.basename(path) in NO_CLASSES:
            continue
        left_out = any(fnmatchcase(path, pattern) for pattern in excluded)
        if not left_out and not is_below(path, tests) and path.split("/")[0] not in NO_CODE:
            yield path


def _license(files: Mapping[str, bytes]) -> str:
    """The licence named in the top-level build file."""
    found = _LICENSE.search(files.get("pom.xml", b""))
    return found[1].decode("utf-8", "replace")[:100] if found else ""
