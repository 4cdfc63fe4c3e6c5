"""A project as it looks after `pip install -e .`: its metadata, entry points and scripts.

They are read from pyproject.toml if all is written there. Otherwise the project's build backend
makes them, in a sandbox; if that fails, they are what the project's files say as text.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from functools import lru_cache
from pathlib import Path
from posixpath import basename, dirname, join, normpath

from packaging.metadata import InvalidMetadata, Metadata, RawMetadata
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from sandbox.errors import SandboxError
from sandbox.languages.python.backend import (
    OUT,
    BackendFailed,
    open_backend,
    read_build_system,
)
from sandbox.languages.python.declared import read_declared
from sandbox.languages.python.project_files import (
    LONGEST_TEXT,
    own_name,
    read_pyproject,
    read_setup_cfg,
    read_setup_py,
    table_of,
    without_gaps,
)
from sandbox.languages.python.projects import files_below, find_projects
from sandbox.packages import ENTRY_POINTS, made_folder, runner_python, write_scripts

UNKNOWN = "0.0.0"
"""The version of a project that names none, and whose repository has no tags."""
MAX_BYTES = 1024 * 1024
"""Of each file of metadata that a backend makes."""
MOST_SECONDS = 120.0
"""Time after which no more backends are run."""
BUILD_FILES = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "hatch.toml", "PKG-INFO"})
VERSION_FILES = frozenset({"__init__.py", "__about__.py", "__version__.py", "_version.py"})
"""Where backends look for a version, among the project's sources."""
_NAME = re.compile(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", re.ASCII)
_DIST_INFO = re.compile(r"[\w.+-]+\.dist-info", re.ASCII)
_ABOVE = re.compile(rb"(?:\.\./)+[\w./-]+", re.ASCII)
NOTE, BUILT = "note.txt", "built"


@dataclass(frozen=True)
class OwnMetadata:
    folder: str
    """For PYTHONPATH; its `bin` has the project's scripts. Empty if the project has no name."""
    note: str = ""
    """What could not be found out, and why."""
    distributed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """PKG-INFO of each project as its build backend makes it, if it was asked."""


@dataclass(frozen=True)
class _Made:
    """What a distribution's folder is made of."""

    metadata: bytes
    entry_points: str = ""
    note: str = ""
    is_built: bool = False
    """Whether the build backend made it."""


def own_metadata(
    files: Mapping[str, bytes], version: str | None = None, python: str | None = None
) -> OwnMetadata:
    """The metadata of the projects with these files, cached by what they say. `version` is what the
    repository's tags say, for a project that takes its version from there; `python` is as in
    `SandboxConfig`. Raises SandboxUnavailable if the cache can't be written."""
    projects = find_projects(files)
    if not projects:
        return OwnMetadata("")
    digest = hashlib.sha256(json.dumps([version, python or runner_python(), projects]).encode())
    backends = tuple(_backend_folders(files, projects))
    outside = set(_outside(files, projects))
    for path in sorted(files):
        name = basename(path)
        at_top = dirname(path) in projects and not name.startswith("test")
        is_build = at_top or path in outside or path.startswith(backends)
        if is_build or name in VERSION_FILES or name.startswith("version"):
            digest.update(path.encode() + b"\0" + files[path] + b"\0")
    return _found(digest.hexdigest()[:16], _Files(files), version, python)


def _backend_folders(files: Mapping[str, bytes], projects: Sequence[str]) -> Iterator[str]:
    """The folders of build backends that projects bring: another backend makes other metadata."""
    for project in projects:
        with suppress(BackendFailed):
            system = read_build_system(files_below(files, project))
            module = system.backend.partition(":")[0].partition(".")[0]
            for folder in system.path:
                inside = normpath(join(project, folder))
                yield f"{module}/" if inside == "." else f"{inside}/"
                yield f"{inside}/{module}/"


def _outside(files: Mapping[str, bytes], projects: Sequence[str]) -> Iterator[str]:
    """The paths that projects' build files name outside their folders."""
    for project in projects:
        for name in BUILD_FILES:
            for match in _ABOVE.finditer(files.get(join(project, name), b"")):
                yield normpath(join(project, match[0].decode()))


class _Files:
    """A tree that is no key of a cache: the digest beside it is."""

    def __init__(self, tree: Mapping[str, bytes]) -> None:
        self.tree = tree

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=64)
def _found(digest: str, files: _Files, version: str | None, python: str | None) -> OwnMetadata:
    projects = find_projects(files.tree)

    def make(folder: Path) -> None:
        (folder / BUILT).mkdir()
        deadline = time.monotonic() + MOST_SECONDS
        for number, project in enumerate(projects):
            made = _made(files.tree, project, version, python, deadline)
            _write(made, folder)
            if made.is_built:
                (folder / BUILT / str(number)).write_bytes(made.metadata)
        write_scripts(folder)
        # The sandbox's commands may run as another user.
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)

    # A build may have failed for want of the index.
    folder = made_folder("metadata", [digest], make, lasts=lambda made: not (made / NOTE).exists())
    note = folder / NOTE
    text = note.read_text("utf-8") if note.is_file() else ""
    distributed = {
        join(projects[int(path.name)], "PKG-INFO"): path.read_bytes()
        for path in (folder / BUILT).iterdir()
    }
    has_any = any(folder.glob("*.dist-info"))
    return OwnMetadata(str(folder) if has_any else "", text, distributed)


def _made(
    repository: Mapping[str, bytes],
    folder: str,
    version: str | None,
    python: str | None,
    deadline: float,
) -> _Made:
    files = files_below(repository, folder)
    project = table_of(read_pyproject(files), "project")
    dynamic = project.get("dynamic")
    needs_backend = {"version", "scripts", "entry-points", "dependencies", "optional-dependencies"}
    is_whole = not needs_backend.intersection(dynamic if isinstance(dynamic, list) else ())
    if is_whole and "name" in project and "version" in project:
        return _as_written(files, version)
    distributed = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b"")[:MAX_BYTES])
    supposed = version or _version(str(distributed.get("Version"))) or UNKNOWN
    try:
        if time.monotonic() > deadline:
            raise BackendFailed(f"other builds took {MOST_SECONDS:.0f} s")
        return _by_backend(repository, folder, supposed, python)
    except SandboxError as error:
        written = _as_written(files, supposed)
        note = f"the project's metadata is what its files say, since its build failed: {error}"
        return _Made(written.metadata, written.entry_points, note)


# By the project's build backend.


def _by_backend(
    repository: Mapping[str, bytes], folder: str, version: str, python: str | None
) -> _Made:
    """Beside the whole repository, of which a build may use files outside the project's folder.
    Raises BackendFailed, SandboxError."""
    # Backends that take the version from git's tags, which the sandbox does not have.
    variables = {
        "SETUPTOOLS_SCM_PRETEND_VERSION": version,
        "PDM_BUILD_SCM_VERSION": version,
        "PBR_VERSION": version,
        "POETRY_DYNAMIC_VERSIONING_BYPASS": version,
        "UV_DYNAMIC_VERSIONING_BYPASS": version,
    }
    with open_backend(repository, "wheel", python, variables, folder) as backend:
        name = backend.call("prepare_metadata_for_build_wheel", backend.out, None)
        if not isinstance(name, str) or not _DIST_INFO.fullmatch(name):
            raise BackendFailed(f"{backend.system.backend} makes no metadata")
        about = f"{OUT}/{name}"
        metadata = backend.sandbox.read_file(f"{about}/METADATA", MAX_BYTES)
        entry_points = b""
        with suppress(SandboxError):
            entry_points = backend.sandbox.read_file(f"{about}/{ENTRY_POINTS}", MAX_BYTES)
        return _Made(metadata, entry_points.decode("utf-8", "replace"), is_built=True)


# As the project's files say it.


def _as_written(files: Mapping[str, bytes], version: str | None) -> _Made:
    """Without a description, which could be in any file that the project names."""
    name = own_name(files)
    if not name:
        return _Made(b"")
    pyproject = read_pyproject(files)
    project, poetry = table_of(pyproject, "project"), table_of(pyproject, "tool", "poetry")
    versions = [project.get("version"), poetry.get("version"), version]
    versions.append(read_setup_cfg(files).get("metadata", "version", fallback=""))
    versions.append(read_setup_py(files).get("version"))
    declared = read_declared({path: files[path] for path in BUILD_FILES & files.keys()})
    raw = RawMetadata(
        metadata_version="2.3",
        name=name,
        version=next(filter(None, map(_version, versions)), UNKNOWN),
        requires_dist=list(declared.requires),
    )
    try:
        metadata = Metadata.from_raw(raw).as_rfc822().as_bytes()
    except (ExceptionGroup, InvalidMetadata, ValueError):
        return _Made(b"", note=f"{name!r} is no name that pip could install")
    return _Made(metadata, _written_entry_points(files))


def _version(text: object) -> str:
    """Empty if it is none."""
    with suppress(InvalidVersion):
        if isinstance(text, str) and len(text) <= LONGEST_TEXT:
            return str(Version(text))
    return ""


def _written_entry_points(files: Mapping[str, bytes]) -> str:
    pyproject = read_pyproject(files)
    project, poetry = table_of(pyproject, "project"), table_of(pyproject, "tool", "poetry")
    groups: dict[str, dict[str, object]] = {}
    for table, key in ((project, "entry-points"), (poetry, "plugins")):
        for group in table_of(table, key):
            groups[group] = dict(table_of(table, key, group))
    for table in (project, poetry):
        scripts = groups.setdefault("console_scripts", {})
        scripts |= table_of(table, "scripts")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    texts = [_setup_py_entry_points(read_setup_py(files).get("entry_points"))]
    parser = read_setup_cfg(files)
    if parser.has_section("options.entry_points"):
        for group, text in parser.items("options.entry_points"):
            texts.append(f"[{group}]\n{text.strip()}")
    return "\n".join([*lines, *texts]) + "\n"


def _setup_py_entry_points(value: object) -> str:
    if isinstance(value, str):
        return value
    lines = []
    for group, entries in (value if isinstance(value, dict) else {}).items():
        listed = entries.splitlines() if isinstance(entries, str) else entries
        if isinstance(listed, list | tuple):
            lines.append(f"[{group}]")
            lines += [entry for entry in listed if isinstance(entry, str)]
    return "\n".join(lines)


# Modules that a build writes into the tree.

_VERSION_MODULE = """__version__ = version = {text!r}
__version_tuple__ = version_tuple = {parts!r}
"""


def with_version_module(files: Mapping[str, bytes], version: str | None) -> Mapping[str, bytes]:
    """The files, with the module that tells the version if a build of setuptools_scm, hatch-vcs or
    PDM would write it, and it is not there."""
    tool = table_of(read_pyproject(files), "tool")
    hatch = table_of(tool, "hatch", "build", "hooks", "vcs")
    places = [hatch.get("version-file"), table_of(tool, "pdm", "version").get("write_to")]
    places += [table_of(tool, "setuptools_scm").get(key) for key in ("version_file", "write_to")]
    path = next((normpath(place) for place in places if isinstance(place, str)), "")
    is_inside = path.endswith(".py") and not path.startswith(("/", ".."))
    if not is_inside or path in files:
        return files
    known = Version(_version(version) or UNKNOWN)
    text = _VERSION_MODULE.format(text=str(known), parts=known.release)
    return {**files, path: text.encode()}


# On disk.


def _write(made: _Made, folder: Path) -> None:
    """Write a distribution's folder, with names that lead nowhere else. What can't be read as
    metadata is left out."""
    headers = BytesHeaderParser().parsebytes(made.metadata)
    name, version = str(headers.get("Name", "")), _version(str(headers.get("Version", "")))
    if made.note and not (folder / NOTE).exists():
        (folder / NOTE).write_text(made.note, "utf-8")
    if not _NAME.fullmatch(name) or len(name) > 100 or len(version) > 100 or not version:
        return
    about = folder / f"{canonicalize_name(name).replace('-', '_')}-{version}.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_bytes(made.metadata)
    (about / "INSTALLER").write_text("stepinto\n")
    with suppress(configparser.Error):
        entry_points = without_gaps(made.entry_points)[:MAX_BYTES]
        configparser.RawConfigParser(delimiters=("=",), strict=False).read_string(entry_points)
        (about / ENTRY_POINTS).write_text(entry_points, "utf-8")
