"""What a Java project's build needs from Maven repositories, fetched once and cached.

Before the first sandbox of a project opens, its build tool runs in a sandbox of its own, which
reaches nothing but an `ArtifactServer`. All files that this build asks for become a repository of
the project's own, which its sandboxes mount read-only and in which the build tools then run
offline. It has exactly what the build needs, down to the test runner's providers, and no other
project's jars, which could hold the fix of a bug.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import posixpath
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandbox.base import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable
from sandbox.java.artifacts import METADATA, ArtifactStore, Repository, serving
from sandbox.java.build import installed_tools
from sandbox.java.distributions import maven_home, maven_version
from sandbox.java.jdk import find_jdk
from sandbox.java.maven import SKIPPED_CHECKS, maven_command
from sandbox.java.maven_settings import repositories_of
from sandbox.java.project import BuildKind, Module, find_module, is_build_file, scan_workspace
from sandbox.leftovers import OwnedFolder
from sandbox.shell import FOLDER, write_bytes

logger = logging.getLogger(__name__)

FETCH_TIMEOUT = 1800.0
"""Seconds for all builds of a project that fetch."""
MEGABYTE = 1024 * 1024
PORT = 8081
"""Of the sandbox's own loopback network."""
FORWARDER = f"{FOLDER}/forward.py"
SOCKET = "socket"
SETTINGS = "settings.xml"
REPOSITORY_ID = "stepinto"
"""Maven keeps the lists of versions of each repository under its id."""
_SETTINGS = f"""\
<settings>
  <mirrors>
    <mirror><id>{REPOSITORY_ID}</id><mirrorOf>*</mirrorOf><url>%s</url></mirror>
  </mirrors>
</settings>
"""
NO_TEST = "*#stepintoRunsNoTest"
"""Chooses no test, but lets Surefire look for one: so it asks for all that runs tests."""


def with_dependencies(
    config: SandboxConfig, files: Mapping[str, bytes], by_default: bool = False
) -> SandboxConfig:
    """The config of sandboxes in which this project's build finds what it needs. The first call for
    a project fetches it, which may take minutes.

    `by_default` says what `sandbox.java.repositories` means if it is not set: the user's own
    repositories, or none. Raises SandboxUnavailable if a configured repository does not answer.
    """
    java = config.java
    is_set = java.repositories is not None
    chosen = is_set or (by_default and java.maven_options is None and not config.readable_paths)
    if config.backend != "local" or not chosen or not any(map(is_build_file, files)):
        return config
    repositories = repositories_of(java.repositories)
    if not repositories:
        return config
    try:
        equipped = _with_maven(config, files, repositories)
        folder = repository_folder(equipped, files, repositories)
    except SandboxUnavailable as error:
        if is_set:
            raise
        logger.warning(f"the build stays offline: {error}")
        return config
    place = str(folder)
    options = ("-o", *settings_options(folder), f"-Dmaven.repo.local={place}")
    java = equipped.java.model_copy(update={"maven_options": java.maven_options or options})
    readable = (*equipped.readable_paths, place)
    return equipped.model_copy(update={"readable_paths": readable, "java": java})


def _with_maven(
    config: SandboxConfig, files: Mapping[str, bytes], repositories: Sequence[Repository]
) -> SandboxConfig:
    """The config with the Maven of a project that has a `pom.xml`, unless it sets one. Raises
    SandboxUnavailable."""
    if config.java.maven_home is not None or "pom.xml" not in map(posixpath.basename, files):
        return config
    home = maven_home(maven_version(files), repositories)
    if home is None:
        return config
    java = config.java.model_copy(update={"maven_home": str(home)})
    readable = (*config.readable_paths, str(home))
    return config.model_copy(update={"java": java, "readable_paths": readable})


_attempts: set[str] = set()
"""Digests of the projects whose fetching build failed in this process."""


def repository_folder(
    config: SandboxConfig, files: Mapping[str, bytes], repositories: Sequence[Repository]
) -> Path:
    """The project's own repository, made on first use. Of two processes that want the same one, one
    makes it and the other waits. Raises SandboxUnavailable."""
    root = cache_folder() / "java"
    facts = [*(repository.url for repository in repositories), str(config.java.maven_home)]
    build_files = {path: data for path, data in files.items() if is_build_file(path)}
    folder, attempt = root / _digest(facts, build_files), _digest(facts, files)
    complete = folder.with_suffix(".complete")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # A build that failed may not have asked for everything: other sources are tried again.
            if not complete.exists() and attempt not in _attempts:
                if _fetch(config, files, repositories, folder):
                    complete.touch()
                else:
                    _attempts.add(attempt)
    except OSError as error:
        raise SandboxUnavailable(
            f"{root}, where the dependencies of Java projects are kept, can't be written "
            f"({error}); set XDG_CACHE_HOME to a folder that can"
        ) from error
    return folder


def _digest(facts: Sequence[str], files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(json.dumps(facts).encode())
    for path in sorted(files):
        content = hashlib.sha256(files[path]).digest()
        digest.update(path.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


def _fetch(
    config: SandboxConfig,
    files: Mapping[str, bytes],
    repositories: Sequence[Repository],
    folder: Path,
) -> bool:
    """Build a project in a sandbox that reaches the repositories, and put all files that it asked
    for into a folder. Returns whether the build succeeded. Raises SandboxUnavailable."""
    urls = ", ".join(repository.url for repository in repositories)
    logger.info(f"fetching once what the build needs, from {urls}")
    largest, most = config.file_size_mb * MEGABYTE, config.disk_mb * MEGABYTE
    store = ArtifactStore(repositories, largest, most)
    with _shared_folder() as shared, serving(store, shared / SOCKET) as server:
        address = f"http://127.0.0.1:{PORT}/{server.token}"
        write_settings(shared, address)
        java = config.java.model_copy(update={"maven_options": settings_options(shared)})
        readable = (*config.readable_paths, str(shared))
        reaching = config.model_copy(update={"java": java, "readable_paths": readable})
        with open_sandbox(reaching) as sandbox:
            sandbox.write_files(files)
            ended_well = _build(sandbox, f"{shared}/{SOCKET}")
        refused = tuple(server.refused)
    for reason in refused:
        logger.warning(reason)
    if store.unreachable and not ended_well:
        told = "; ".join(f"{url}: {why}" for url, why in store.unreachable.items())
        raise SandboxUnavailable(
            f"a Maven repository does not answer ({told}): name one that does in "
            "sandbox.java.repositories"
        )
    write_settings(folder, repositories[0].url)
    _lay_out(store.given, folder)
    return ended_well and not refused


@contextmanager
def _shared_folder() -> Iterator[Path]:
    """A temporary folder that sandboxes can read, removed even if this process is killed."""
    owned = OwnedFolder()
    try:
        owned.path.chmod(0o755)
        yield owned.path
    finally:
        owned.remove()


def write_settings(folder: Path, address: str) -> None:
    """Write Maven's settings that make this address the only repository."""
    file = folder / SETTINGS
    file.write_text(_SETTINGS % address)
    file.chmod(0o644)


def settings_options(folder: Path) -> tuple[str, ...]:
    """Maven's options for a folder's settings."""
    return ("-s", f"{folder}/{SETTINGS}")


def _build(sandbox: Sandbox, socket: str) -> bool:
    """Run all builds of a workspace that reach the socket as their repository; whether all
    succeeded. Raises SandboxError."""
    write_bytes(sandbox, FORWARDER, Path(__file__).with_name("forward.py").read_bytes())
    deadline = time.monotonic() + FETCH_TIMEOUT
    ended_well = True
    for module in find_builds(sandbox):
        command = _fetching_command(sandbox, module)
        argv = [sandbox.python, FORWARDER, socket, str(PORT), *command]
        left = max(1.0, deadline - time.monotonic())
        folder = posixpath.join(sandbox.workspace, module.root)
        result = sandbox.run(Command(argv, cwd=folder, timeout=left))
        if result.exit_code != 0:
            ended_well = False
            logger.debug(f"{module.root}: {result.output}")
    return ended_well


def find_builds(sandbox: Sandbox) -> list[Module]:
    """Every build of the workspace that has sources, at its root."""
    scan = scan_workspace(sandbox)
    tools = installed_tools(sandbox)
    folders = {posixpath.dirname(path): path for path in scan.sources}
    found = (find_module(sandbox, scan, path, tools) for path in folders.values())
    roots = {(module.root, module.kind) for module in found if module.kind is not BuildKind.PLAIN}
    # A build below a folder of sources is data of a test.
    return [
        Module(kind, root, root) for root, kind in sorted(roots) if "src" not in root.split("/")
    ]


def _fetching_command(sandbox: Sandbox, module: Module) -> list[str]:
    """The command that builds and runs no test, but asks for all that later builds and test runs
    ask for."""
    options = [
        *SKIPPED_CHECKS,
        *("-fae", f"-Dtest={NO_TEST}", "-DfailIfNoTests=false"),
        *("-Dsurefire.failIfNoSpecifiedTests=false", "-Dmaven.test.failure.ignore=true"),
    ]
    return maven_command(sandbox, find_jdk(sandbox), module, options)


def _lay_out(given: Mapping[str, Path], folder: Path) -> None:
    """Add files to a folder that is a repository for Maven and Gradle."""
    for path, file in given.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        names = [place.name]
        if place.name == METADATA:
            names.append(f"maven-metadata-{REPOSITORY_ID}.xml")
        for name in names:
            place.with_name(name).unlink(missing_ok=True)
            os.link(file, place.with_name(name))
    # The sandbox's commands may run as another user.
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o755)
