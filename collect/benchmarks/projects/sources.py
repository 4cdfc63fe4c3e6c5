"""Fetch a project's files: from a folder, a git repository, or a package index.

No code of the project runs here: an sdist is unpacked, not built.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import posixpath
import re
import sys
import tarfile
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from functools import partial
from pathlib import Path

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple

from collect.benchmarks.git_clones import GitFailed, read_commit, repository_name
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import ProjectRefused, Source
from collect.benchmarks.workspace import LEFT_OUT, MEGABYTE, TreeTooLarge, read_folder
from collect.quantities import first_of
from collect.store.atomic_files import replacing
from sandbox.environment import cache_folder

# Source distributions from a package index (PEP 503 and 691), kept in the user's cache.


ARCHIVES = (".tar.gz", ".zip", ".tar.bz2")
TIMEOUT = 120.0
"""Seconds to wait for data from the index."""


@dataclass(frozen=True)
class Sdist:
    """A source distribution on disk."""

    name: str
    version: str
    sha256: str
    path: Path


def download_sdist(requirement: str, index_url: str) -> Sdist:
    """Download the newest release that the requirement allows and this interpreter can run.

    Its hash is checked against the index. Raises ProjectRefused.
    """
    try:
        wanted = Requirement(requirement)
    except InvalidRequirement as error:
        raise ProjectRefused(f"factory.projects: {requirement!r}: {error}") from error
    try:
        return _download(wanted, index_url)
    # No network, no permission, no such project, an invalid answer, or a wrong hash.
    except (OSError, NoSuchProjectError, ValueError) as error:
        raise ProjectRefused(
            f"factory.projects: {requirement}: {index_url} gave no sdist ({error}); is the name "
            "right, and does factory.index_url name an index that can be reached?"
        ) from error


def _download(wanted: Requirement, index_url: str) -> Sdist:
    with PyPISimple(index_url) as client:
        page = client.get_project_page(wanted.name, timeout=TIMEOUT)
        chosen = _newest(wanted, page.packages)
        folder = cache_folder() / "sdists"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / chosen.filename
        expected = chosen.digests.get("sha256")
        if not path.is_file() or (expected is not None and _sha256(path) != expected):
            with replacing(path) as temporary:
                client.download_package(chosen, temporary, progress=None, timeout=TIMEOUT)
    return Sdist(wanted.name, str(chosen.version), _sha256(path), path)


def _newest(wanted: Requirement, packages: Sequence[DistributionPackage]) -> DistributionPackage:
    fitting = [
        (Version(package.version), package)
        for package in packages
        if package.version is not None and _fits(wanted, package, package.version)
    ]
    if not fitting:
        raise ProjectRefused(
            f"factory.projects: {wanted}: no sdist of it fits Python {sys.version_info.major}."
            f"{sys.version_info.minor}; name another version, or its git repository"
        )
    return max(fitting, key=lambda each: each[0])[1]


def _fits(wanted: Requirement, package: DistributionPackage, version: str) -> bool:
    if package.package_type != "sdist" or not package.filename.endswith(ARCHIVES):
        return False
    if package.is_yanked:
        return False
    try:
        runs_here = SpecifierSet(package.requires_python or "").contains(
            ".".join(map(str, sys.version_info[:3]))
        )
        return runs_here and wanted.specifier.contains(Version(version))
    except (InvalidSpecifier, InvalidVersion):
        return False


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# A Python project's metadata: its licence, and what it and its tests need.


TEST_GROUPS = ("test", "tests", "testing", "dev")
"""Names of extras and of dependency groups (PEP 735) that hold what tests need."""
NOT_FOR_TESTS = frozenset(
    {"black", "codecov", "commitizen", "coverage", "coveralls", "docutils", "flake8", "flit-core"}
    | {"furo", "hatch", "ipdb", "isort", "mypy", "nox", "pip", "pre-commit", "pycodestyle"}
    | {"pylint", "pyright", "pytest", "pytest-benchmark", "pytest-clarity", "pytest-codspeed"}
    | {"pytest-cov", "pytest-icdiff", "pytest-mypy", "pytest-pycodestyle", "pytest-sphinx"}
    | {"pytest-sugar", "pytest-xdist", "ruff", "setuptools", "setuptools-scm", "sphinx", "tox"}
    | {"tox-uv", "twine", "ty", "wheel"}
)
"""Tools that test extras often name but tests do not import. The interpreter already has pytest."""

FOR_USE = frozenset({"base", "common", "core", "main", "prod", "production"})
"""Names of requirements files that list run-time dependencies."""
MAX_INCLUDED = 100
"""Maximum number of requirements files read per project."""
OWN_PROJECT = re.compile(r"(-e|--editable)?[\s=]*\.(\[[\w,\s-]*\])?$")


@dataclass(frozen=True)
class Metadata:
    """Fields are empty if unknown."""

    license: str = ""
    requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()


def read_metadata(files: Mapping[str, bytes]) -> Metadata:
    """Read PKG-INFO, which sdists have, and pyproject.toml; empty if neither has the data."""
    told = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b""))
    pyproject = _toml(files.get("pyproject.toml", b""))
    project = _table(pyproject, "project")
    declared = told.get_all("Requires-Dist") or list(_project_requires(project))
    return Metadata(
        license=_license(told.get_all("License-Expression"), told.get_all("License"), project),
        requires=_needed(declared, ("",)),
        test_requires=tuple(
            dict.fromkeys(
                (*_needed(declared, TEST_GROUPS, only_extras=True), *_from_groups(pyproject))
            )
        ),
    )


@dataclass(frozen=True)
class RequirementsFiles:
    """The contents of `requirements.txt` and similar files."""

    requires: tuple[str, ...] = ()
    test_requires: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Lines that were skipped, each with its location."""


def read_requirements(files: Mapping[str, bytes]) -> RequirementsFiles:
    """Read `requirements*.txt`, `*requirements.txt` and `requirements/*.txt`.

    Only package names with versions are used. Options, URLs and paths could reach anything, so they
    are skipped, except `-r` with a file of the project.
    """
    left_out: list[str] = []
    found: dict[bool, list[str]] = {False: [], True: []}
    seen: set[str] = set()
    for path in sorted(files):
        is_for_tests = _is_for_tests(path)
        if is_for_tests is not None:
            found[is_for_tests] += _requirement_lines(path, files, seen, left_out)
    for_use, for_tests = (_needed(found[key], ("",)) for key in (False, True))
    return RequirementsFiles(for_use, for_tests, tuple(left_out))


def _is_for_tests(path: str) -> bool | None:
    """Whether a requirements file is for tests; None if it is for something else, such as docs, or
    no requirements file."""
    folder, name = posixpath.split(path)
    words = set(re.split(r"[-_.]", name.lower()))
    if folder not in ("", "requirements") or "txt" not in words:
        return None
    if not folder and "requirements" not in words:
        return None
    words -= {"requirements", "txt"}
    if words & {*TEST_GROUPS, "development"}:
        return True
    return False if not words or words & FOR_USE else None


def _requirement_lines(
    path: str, files: Mapping[str, bytes], seen: set[str], left_out: list[str]
) -> Iterator[str]:
    """The requirements of a file and the files it includes, each file once."""
    if path in seen:
        return
    seen.add(path)
    text = _decoded(files[path]).replace("\\\n", " ")
    for line in (re.sub(r"(^|\s+)#.*$", "", each.strip()) for each in text.split("\n")):
        included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)$", line)
        if included:
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), included[1]))
            if inner in files and len(seen) < MAX_INCLUDED:
                yield from _requirement_lines(inner, files, seen, left_out)
                continue
        # Hashes and other options can follow a requirement.
        requirement = re.sub(r"\s--.*$", "", line)
        if _is_plain(requirement):
            yield requirement
        elif line and not OWN_PROJECT.match(line):
            left_out.append(f"{path}: {line}")


def _decoded(data: bytes) -> str:
    """Decode as pip does: PowerShell writes UTF-16 for `pip freeze`."""
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if is_utf_16 else "utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_plain(text: str) -> bool:
    requirement = _requirement(text)
    return requirement is not None and requirement.url is None


def _requirement(text: str) -> Requirement | None:
    """None if it is not a requirement. Thousands of brackets raise RecursionError."""
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None


def _holds(marker: Marker, extra: str) -> bool:
    try:
        return marker.evaluate({"extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return False


def _toml(data: bytes) -> Mapping[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8", "replace"))
    # Also for numbers with thousands of digits, and thousands of brackets.
    except (ValueError, RecursionError):
        return {}


def _table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    inner = table.get(key)
    return inner if isinstance(inner, dict) else {}


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _license(
    expression: list[str] | None, older: list[str] | None, project: Mapping[str, object]
) -> str:
    told = (expression or older or [""])[0].strip()
    if not told and isinstance(project.get("license"), str):
        told = str(project["license"])
    # Some projects put the whole licence text here.
    return told.splitlines()[0][:100] if told else ""


def _project_requires(project: Mapping[str, object]) -> Iterator[str]:
    yield from _texts(project.get("dependencies"))
    for extra, requirements in _table(project, "optional-dependencies").items():
        for requirement in _texts(requirements):
            name, _, marker = requirement.partition(";")
            condition = f"({marker.strip()}) and " if marker.strip() else ""
            yield f'{name} ; {condition}extra == "{extra}"'


def _from_groups(pyproject: Mapping[str, object]) -> tuple[str, ...]:
    groups = _table(pyproject, "dependency-groups")
    wanted = [each for name in TEST_GROUPS for each in _texts(groups.get(name))]
    return _needed(wanted, ("",))


def _needed(
    declared: Iterable[str], extras: Iterable[str], only_extras: bool = False
) -> tuple[str, ...]:
    """Requirements whose markers apply on this machine with one of these extras."""
    found: dict[str, None] = {}
    for text in declared:
        requirement = _requirement(text)
        if requirement is None:
            continue
        marker = requirement.marker
        if only_extras and (marker is None or _holds(marker, "")):
            continue
        if marker is not None and not any(_holds(marker, name) for name in extras):
            continue
        if canonicalize_name(requirement.name) not in NOT_FOR_TESTS and requirement.url is None:
            requirement.marker = None
            found[str(requirement)] = None
    return tuple(found)


ARCHIVE_TO_TREE = 4
"""An archive may be this many times as large as its files, because of headers and padding."""

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error)


def fetch(project: ProjectConfig, config: FactoryConfig) -> Source:
    """The project's files. Raises ProjectRefused."""
    if project.pypi is not None:
        source = _from_index(project, project.pypi, config)
    else:
        try:
            source = _from_tree(project, config.max_tree_mb)
        except GitFailed as error:
            raise ProjectRefused(str(error)) from error
        except TreeTooLarge as error:
            raise ProjectRefused(f"{error}; raise max_tree_mb, or name a smaller folder") from error
    size = sum(map(len, source.files.values()))
    if size > config.max_tree_mb * MEGABYTE:
        raise _too_large(project.place, config.max_tree_mb)
    return source


def _too_large(place: str, max_mb: int) -> ProjectRefused:
    return ProjectRefused(
        f"{place}: more than {max_mb} MB of files (factory.max_tree_mb); raise it, or leave the "
        "project out"
    )


def _from_index(project: ProjectConfig, requirement: str, config: FactoryConfig) -> Source:
    sdist = download_sdist(requirement, config.index_url)
    files = _unpacked(sdist.path, project.place, config.max_tree_mb)
    metadata = read_metadata(files)
    # The release: its metadata, entry points, compiled parts and requirements.
    release = f"{sdist.name}=={sdist.version}"
    return Source(
        name=project.name or sdist.name,
        version=sdist.version,
        origin=f"pypi:{sdist.name}=={sdist.version} sha256:{sdist.sha256}",
        license=metadata.license,
        files=files,
        requires=((release, *metadata.test_requires), (release,), metadata.requires),
    )


def _from_tree(project: ProjectConfig, max_mb: int) -> Source:
    if project.git is not None:
        return _from_git(project, project.git, max_mb)
    return _from_folder(project, Path(project.folder or "."), max_mb)


def _from_git(project: ProjectConfig, url: str, max_mb: int) -> Source:
    checkout = read_commit(url, project.revision, max_mb)
    commit, name = checkout.commit, project.name or repository_name(url)
    return _source(name, commit[:12], f"git:{url}@{commit}", checkout.files)


def _from_folder(project: ProjectConfig, folder: Path, max_mb: int) -> Source:
    if not folder.is_dir():
        raise ProjectRefused(f"{folder}: no such folder")
    files = read_folder(folder, max_mb=max_mb)
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + files[path] + b"\0")
    version = digest.hexdigest()[:12]
    return _source(
        project.name or folder.resolve().name, version, f"folder sha256:{version}", files
    )


def _source(name: str, version: str, origin: str, files: Mapping[str, bytes]) -> Source:
    metadata, listed = read_metadata(files), read_requirements(files)
    needed = metadata.requires or listed.requires
    for_tests = dict.fromkeys((*needed, *metadata.test_requires, *listed.test_requires))
    notes = (f"not installed: {first_of(listed.left_out)}",) if listed.left_out else ()
    requires = (tuple(for_tests), needed)
    return Source(name, version, origin, metadata.license, files, requires, notes)


def _unpacked(path: Path, place: str, max_mb: int) -> dict[str, bytes]:
    """The files in the archive's single top-level folder."""
    read = _zip_members if path.suffix == ".zip" else _tar_members
    files: dict[str, bytes] = {}
    room = max_mb * MEGABYTE
    try:
        for name, size, data in read(path, ARCHIVE_TO_TREE * room):
            room -= size
            if room < 0:
                raise _too_large(place, max_mb)
            top, _, inner = posixpath.normpath(name).partition("/")
            wanted = inner and top not in ("", "..") and not LEFT_OUT & set(inner.split("/"))
            if wanted and _can_be_written(inner):
                files[inner] = data()
    except TreeTooLarge as error:
        raise _too_large(place, max_mb) from error
    # An encrypted member raises RuntimeError, as does an unknown compression.
    except (*BROKEN, EOFError, OSError, RuntimeError) as error:
        raise ProjectRefused(
            f"{place}: {path} is not a whole archive ({error}); remove it"
        ) from error
    return files


def _can_be_written(name: str) -> bool:
    return "\0" not in name and not any("\ud800" <= each <= "\udfff" for each in name)


_Members = Iterator[tuple[str, int, Callable[[], bytes]]]
"""Name, size in bytes, and a function that returns the content."""


def _tar_members(path: Path, most: int) -> _Members:
    """Decompress to a file first: a small archive can be huge, and so can one of its headers, which
    would be read into memory."""
    decompressed = bz2.open if path.suffix == ".bz2" else gzip.open
    with decompressed(path) as packed, tempfile.TemporaryFile() as whole:
        while chunk := packed.read(MEGABYTE):
            whole.write(chunk)
            if whole.tell() > most:
                raise TreeTooLarge(path, most // MEGABYTE)
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name, member.size, file.read


def _zip_members(path: Path, most: int) -> _Members:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                # Read no more than the declared size.
                yield member.filename, member.file_size, partial(archive.read, member)
