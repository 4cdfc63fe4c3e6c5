"""Fetch what a Java project's build needs from Maven repositories, once, into a repository of its
own.

Before the first sandbox of a project opens, its build tool runs in another one, which reaches
nothing but an `ArtifactServer`. Nothing else would know what a build asks for, down to the test
runner's providers and the annotation processors.
"""

from __future__ import annotations

import logging
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import JavaUnavailable, SandboxUnavailable
from sandbox.java.artifacts import (
    MEGABYTE,
    ArtifactRefused,
    ArtifactStore,
    Repository,
    serving,
)
from sandbox.java.distributions import gradle_for, maven_for, unpacked
from sandbox.java.gradle import gradle_command
from sandbox.java.jdk import find_jdk, release_of
from sandbox.java.maven import SKIPPED_CHECKS, maven_command
from sandbox.java.maven_settings import GRADLE_DISTRIBUTIONS, repositories_of
from sandbox.java.project import (
    BuildKind,
    Module,
    find_module,
    installed_tools,
    is_build_file,
    scan_workspace,
)
from sandbox.java.project_repository import (
    ProjectRepository,
    digest_of,
    gradle_settings,
    maven_settings,
    repositories_folder,
    settings_files,
)
from sandbox.leftovers import OwnedFolder
from sandbox.shell import FOLDER, write_bytes

logger = logging.getLogger(__name__)

FETCH_TIMEOUT = 1800.0
"""Seconds for all builds of a project that fetch."""
PORT = 8081
"""Of the sandbox's own loopback network."""
FORWARDER = f"{FOLDER}/forward.py"
SOCKET = "socket"
NO_TEST = "#stepintoRunsNoTest"
"""Behind the name of a class: chooses no test, but lets Surefire look for one, so that it asks for
all that runs tests."""
_TEST_CLASS = re.compile(r"Test\w*|\w*(?:Test|Tests|TestCase)")
GRADLE_SCRIPT = f"{FOLDER}/fetch.gradle"
GRADLE_TASKS = ("stepintoResolve", "stepintoCompile")
_ENGINE = re.compile(
    r"org/junit/platform/junit-platform-engine/([^/]+)/junit-platform-engine-[^/]+\.jar"
)


def for_project(
    config: SandboxConfig, files: Mapping[str, bytes], by_default: bool = False
) -> SandboxConfig:
    """The config of sandboxes in which a Java project with these files builds: with its release of
    Java, and all that its build asks for. The first call for a project fetches this, which may take
    minutes.

    `by_default` says what `sandbox.java.repositories` means if it is not set: the user's own
    repositories, or none. Raises SandboxUnavailable if a configured repository does not answer.
    """
    java = config.java.model_copy(update={"release": config.java.release or release_of(files)})
    config = config.model_copy(update={"java": java})
    if config.backend != "local" or not any(map(is_build_file, files)):
        return config
    is_set = java.repositories is not None
    if not is_set and (not by_default or _is_equipped(config)):
        return config
    with_gradle = any("gradle" in path for path in files)
    repositories = repositories_of(java.repositories, with_gradle)
    if not repositories:
        return config
    try:
        config = _with_tools(config, files, repositories)
        project = project_repository(config, files, repositories)
    except JavaUnavailable:
        # Whatever needs Java says so.
        return config
    except SandboxUnavailable as error:
        if is_set:
            raise
        logger.warning(f"the build stays offline: {error}")
        return config
    options = {
        "maven_options": java.maven_options or project.maven_options,
        "gradle_options": java.gradle_options or project.gradle_options,
    }
    java = config.java.model_copy(update=options)
    readable = (*config.readable_paths, str(project.folder))
    return config.model_copy(update={"readable_paths": readable, "java": java})


def _is_equipped(config: SandboxConfig) -> bool:
    """Whether the config says itself where dependencies come from."""
    java = config.java
    options = java.maven_options is not None or java.gradle_options is not None
    return options or bool(config.readable_paths)


def _with_tools(
    config: SandboxConfig, files: Mapping[str, bytes], repositories: Sequence[Repository]
) -> SandboxConfig:
    """The config with the build tools of a project, unless it sets them. Raises
    SandboxUnavailable."""
    wanted = {"maven_home": maven_for(files), "gradle_home": gradle_for(files)}
    homes: dict[str, str] = {}
    for setting, distribution in wanted.items():
        if distribution is None or getattr(config.java, setting) is not None:
            continue
        sources = list(repositories)
        if setting == "gradle_home" and config.java.repositories is None:
            sources.append(Repository(GRADLE_DISTRIBUTIONS))
        folder = unpacked(distribution, sources)
        if folder is not None:
            homes[setting] = str(folder)
    java = config.java.model_copy(update=homes)
    readable = (*config.readable_paths, *homes.values())
    return config.model_copy(update={"java": java, "readable_paths": readable})


def project_repository(
    config: SandboxConfig, files: Mapping[str, bytes], repositories: Sequence[Repository]
) -> ProjectRepository:
    """The project's own repository, filled on first use. Of two processes that want the same one,
    one fills it and the other waits. Raises SandboxUnavailable."""
    java = config.java
    facts = [*(repository.url for repository in repositories), *java.programs]
    facts.append(f"{java.java_home} {java.release}")
    build_files = {path: data for path, data in files.items() if is_build_file(path)}
    project = ProjectRepository(repositories_folder() / digest_of(facts, build_files))
    tree = digest_of([], files)
    try:
        with project.locked():
            if not project.is_filled(tree):
                fetched = _fetch(config, files, repositories)
                project.fill(fetched.given, repositories[0].url)
                if fetched.is_whole:
                    project.note_attempt(tree)
    except OSError as error:
        raise SandboxUnavailable(
            f"{project.folder}, where the dependencies of a Java project are kept, can't be "
            f"written ({error}); set XDG_CACHE_HOME to a folder that can"
        ) from error
    return project


@dataclass(frozen=True)
class _Fetched:
    given: Mapping[str, Path]
    """The files that the builds asked for, by their path in a repository."""
    is_whole: bool
    """Whether asking again would give no more."""


def _fetch(
    config: SandboxConfig, files: Mapping[str, bytes], repositories: Sequence[Repository]
) -> _Fetched:
    """Build a project in a sandbox that reaches the repositories. Raises JavaUnavailable,
    SandboxError."""
    urls = ", ".join(repository.url for repository in repositories)
    logger.info(f"fetching once what the build needs, from {urls}")
    largest, most = config.file_size_mb * MEGABYTE, config.disk_mb * MEGABYTE
    store = ArtifactStore(repositories, largest, most)
    options = {"maven_options": maven_settings(FOLDER), "gradle_options": gradle_settings(FOLDER)}
    with _shared_folder() as shared, serving(store, shared / SOCKET) as server:
        java = config.java.model_copy(update=options)
        readable = (*config.readable_paths, str(shared))
        reaching = config.model_copy(update={"java": java, "readable_paths": readable})
        address = f"http://127.0.0.1:{PORT}/{server.token}"
        with open_sandbox(reaching) as sandbox:
            sandbox.write_files(files)
            # Not into the shared folder, where other users of this machine could read the token.
            for name, data in settings_files(address, address).items():
                write_bytes(sandbox, f"{FOLDER}/{name}", data)
            ended_well = _build(sandbox, f"{shared}/{SOCKET}")
        refused = tuple(server.refused)
    _add_launchers(store)
    for reason in refused:
        logger.warning(reason)
    silent = "; ".join(f"{url}: {why}" for url, why in store.unreachable.items())
    if silent and not store.given:
        raise SandboxUnavailable(
            f"no Maven repository answers ({silent}): name one in sandbox.java.repositories"
        )
    if silent and not ended_well:
        logger.warning(f"a Maven repository does not answer: {silent}")
    return _Fetched(store.given, ended_well or not silent)


@contextmanager
def _shared_folder() -> Iterator[Path]:
    """A temporary folder that sandboxes can read, removed even if this process is killed."""
    owned = OwnedFolder()
    try:
        owned.path.chmod(0o755)
        yield owned.path
    finally:
        owned.remove()


def _build(sandbox: Sandbox, socket: str) -> bool:
    """Run all builds of a workspace that reach the socket as their repository; whether all
    succeeded. Raises SandboxError."""
    write_bytes(sandbox, FORWARDER, Path(__file__).with_name("forward.py").read_bytes())
    deadline = time.monotonic() + FETCH_TIMEOUT
    ended_well = True
    for module, tests in find_builds(sandbox).items():
        command = _fetching_command(sandbox, module, tests)
        argv = [sandbox.python, FORWARDER, socket, str(PORT), *command]
        left = max(1.0, deadline - time.monotonic())
        folder = posixpath.join(sandbox.workspace, module.root)
        result = sandbox.run(Command(argv, cwd=folder, timeout=left))
        if result.exit_code != 0:
            ended_well = False
            logger.debug(f"{module.root}: {result.output}")
    return ended_well


def find_builds(sandbox: Sandbox) -> dict[Module, list[str]]:
    """Every build of the workspace that has sources, at its root, and a test class of each of its
    modules."""
    scan = scan_workspace(sandbox)
    tools = installed_tools(sandbox)
    by_folder: dict[str, list[str]] = {}
    for path in scan.sources:
        by_folder.setdefault(posixpath.dirname(path), []).append(path)
    tests: dict[Module, dict[str, str]] = {}
    for paths in by_folder.values():
        module = find_module(sandbox, scan, paths[0], tools)
        # A build below a folder of sources is data of a test.
        if module.kind is BuildKind.PLAIN or "src" in module.root.split("/"):
            continue
        of_build = tests.setdefault(Module(module.kind, module.root, module.root), {})
        for path in paths:
            name, suffix = posixpath.splitext(posixpath.basename(path))
            in_tests = suffix == ".java" and "test" in path.split("/")
            if in_tests and _TEST_CLASS.fullmatch(name):
                of_build.setdefault(module.folder, name)
    return {build: sorted(tests[build].values()) for build in sorted(tests, key=lambda m: m.root)}


def _fetching_command(sandbox: Sandbox, module: Module, tests: Sequence[str]) -> list[str]:
    """The command that builds and runs no test, but asks for all that later builds and test runs
    ask for. Raises JavaUnavailable, SandboxError."""
    jdk = find_jdk(sandbox)
    if module.kind is BuildKind.GRADLE:
        script = Path(__file__).with_name("fetch.gradle").read_bytes()
        write_bytes(sandbox, GRADLE_SCRIPT, script)
        return gradle_command(sandbox, jdk, ["-I", GRADLE_SCRIPT, "--continue", *GRADLE_TASKS])
    chosen = ",".join(f"{test}{NO_TEST}" for test in tests)
    options = [
        *SKIPPED_CHECKS,
        *("-fae", f"-Dtest={chosen}" if tests else "-DskipTests", "-DfailIfNoTests=false"),
        *("-Dsurefire.failIfNoSpecifiedTests=false", "-Dmaven.test.failure.ignore=true"),
    ]
    return maven_command(sandbox, jdk, module, options)


def _add_launchers(store: ArtifactStore) -> None:
    """Ask for the launcher of each version of JUnit's platform: build tools that bring their own do
    not."""
    for path in list(store.given):
        if (match := _ENGINE.fullmatch(path)) is not None:
            version = match[1]
            folder = f"org/junit/platform/junit-platform-launcher/{version}"
            with suppress(ArtifactRefused):
                store.get(f"{folder}/junit-platform-launcher-{version}.jar")
