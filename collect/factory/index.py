"""Source distributions from a package index (PEP 503 and 691), kept in the user's cache."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple

from collect.durable import replacing
from collect.factory.project import ProjectRefused
from sandbox.environment import cache_folder

ARCHIVES = (".tar.gz", ".zip", ".tar.bz2")
TIMEOUT = 120.0
"""Seconds without a byte from the index."""


@dataclass(frozen=True)
class Sdist:
    """One source distribution on disk."""

    name: str
    version: str
    sha256: str
    path: Path


def download_sdist(requirement: str, index_url: str) -> Sdist:
    """The newest release that the requirement allows and this interpreter can run.

    Its hash is checked against the index. Raises ProjectRefused.
    """
    try:
        wanted = Requirement(requirement)
    except InvalidRequirement as error:
        raise ProjectRefused(f"factory.projects: {requirement!r}: {error}") from error
    try:
        return _download(wanted, index_url)
    # No network, not allowed, no such project, an answer that is no index's, a wrong hash.
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
