"""The projects of a repository: the one at its top, and the members of a workspace.

A member that another one requires is not installed from an index: its code is in the repository,
and a release of it could show a fix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from posixpath import basename, dirname, join

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sandbox.languages.python.declared import Declared, read_declared
from sandbox.languages.python.project_files import (
    own_name,
    read_pyproject,
    read_setup_cfg,
    table_of,
    texts_of,
)
from sandbox.languages.python.requirement_files import LOCKS

BUILD_FILES = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
MOST_PROJECTS = 60
MOST_PATTERNS = 50
"""Patterns of a workspace that are read."""
NO_MEMBERS = frozenset(
    {"test", "tests", "testing", "testdata", "fixtures", "docs", "doc", "examples", "example"}
    | {"samples", "templates", "benchmarks", "scripts", "tools", "build", "dist", "vendor"}
    | {"_vendor", "third_party"}
)
"""Folders whose projects are data, or not the repository's own."""


def find_projects(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The folders of the projects, the top (``) first: below it those of a workspace of uv, and all
    if there is none at the top."""
    at_top = ("",) if is_project(files) else ()
    workspace = table_of(read_pyproject(files), "tool", "uv", "workspace")
    patterns = texts_of(workspace.get("members"))[:MOST_PATTERNS]
    excluded = texts_of(workspace.get("exclude"))[:MOST_PATTERNS]
    if at_top and not patterns:
        return at_top
    folders = sorted({dirname(path) for path in files if basename(path) in BUILD_FILES} - {""})
    members = []
    for folder in folders:
        is_named = not patterns or _matches(folder, patterns)
        is_data = not NO_MEMBERS.isdisjoint(folder.split("/")) and not patterns
        if is_named and not is_data and not _matches(folder, excluded):
            members.append(folder)
        if len(members) == MOST_PROJECTS:
            break
    own = [folder for folder in members if is_project(files_below(files, folder))]
    return (*at_top, *own)


def _matches(folder: str, patterns: Sequence[str]) -> bool:
    parts = folder.split("/")
    for pattern in patterns:
        wanted = pattern.strip("/").split("/")
        if len(wanted) == len(parts) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False


def files_below(files: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    """The files of a project, by path relative to its folder; all for the top."""
    prefix = join(folder, "")
    return {
        path.removeprefix(prefix): data for path, data in files.items() if path.startswith(prefix)
    }


def is_project(files: Mapping[str, bytes]) -> bool:
    """Whether pip could install it."""
    pyproject = read_pyproject(files)
    tables = table_of(pyproject, "project"), table_of(pyproject, "tool", "poetry")
    return (
        any("name" in table for table in tables)
        or bool(read_setup_cfg(files).get("metadata", "name", fallback=""))
        or ("build-system" in pyproject and "tool" in pyproject and bool(own_name(files)))
        or b"setup(" in files.get("setup.py", b"")
    )


def import_paths(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The folders that the members' modules are imported from, besides those of the top."""
    paths = []
    for folder in filter(None, find_projects(files)):
        source = f"{folder}/src/"
        in_src = any(path.startswith(source) and path.endswith(".py") for path in files)
        paths.append(source.rstrip("/") if in_src else folder)
    return tuple(paths)


def _without_conflicts(requirements: Iterable[str]) -> list[str]:
    """Of a package that several lists fix to different versions, any version will do."""
    by_name: dict[str, list[str]] = {}
    for text in requirements:
        by_name.setdefault(canonicalize_name(Requirement(text).name), []).append(text)
    kept: list[str] = []
    for name, texts in by_name.items():
        is_fixed = any("==" in str(Requirement(text).specifier) for text in texts)
        kept += [name] if len(texts) > 1 and is_fixed else texts
    return kept


def read_needs(files: Mapping[str, bytes], python: str | None = None) -> Declared:
    """What all projects of a repository declare, as `read_declared` reads it for one, and without
    the projects themselves."""
    folders = dict.fromkeys(("", *find_projects(files)))
    # The repository's lock file counts, not those of its members.
    without_locks = {path: data for path, data in files.items() if basename(path) not in LOCKS}
    trees = [files_below(without_locks, folder) if folder else files for folder in folders]
    names = {canonicalize_name(own_name(tree)) for tree in trees}
    declared = [read_declared(tree, python) for tree in trees]

    def others(requirements: Sequence[str]) -> list[str]:
        parsed = [(text, canonicalize_name(Requirement(text).name)) for text in requirements]
        return [text for text, name in parsed if name not in names]

    requires = dict.fromkeys(text for one in declared for text in others(one.requires))
    tests = dict.fromkeys(text for one in declared for text in others(one.test_requires))
    return Declared(
        license=declared[0].license,
        requires=tuple(requires),
        test_requires=tuple(text for text in _without_conflicts(tests) if text not in requires),
        constraints=declared[0].constraints,
        left_out=tuple(text for one in declared for text in one.left_out),
    )
