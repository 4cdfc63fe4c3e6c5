"""Sandboxes: where commands chosen by a model, and the programs under test, run."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sandbox.errors import EngineDown, SandboxUnavailable
from sandbox.terminal import Terminal


def require_package_name(text: str) -> str:
    """Returns the text. Raises ValueError unless it is a package name, with optional extras,
    version bounds and markers (PEP 508).

    The author of a bug's record chooses it, and pip runs outside the sandbox: given a path, a URL
    or an option, pip could build a project there, which runs the project's code.
    """
    try:
        # In a file of pip's a second line would be an option.
        is_name = text.isprintable() and Requirement(text).url is None
    except InvalidRequirement:
        is_name = False
    if not is_name:
        raise ValueError(
            f"{text!r} is not the name of a package: write its name, with version bounds if they "
            "matter (`numpy>=2`), not options of pip, paths or URLs"
        )
    return text


PackageName = Annotated[str, AfterValidator(require_package_name)]
"""A requirement that may be passed to pip."""

PythonVersion = Annotated[str, Field(pattern=r"^3\.\d{1,2}$")]
"""A version of CPython, without its patch release."""


def require_repository_address(text: str) -> str:
    """Returns the text. Raises ValueError unless it is the address of a Maven repository."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(
            f"{text!r} is not the address of a Maven repository: write `https://host/path`; user "
            "and password belong into a <server> of ~/.m2/settings.xml"
        )
    return text


RepositoryAddress = Annotated[str, AfterValidator(require_repository_address)]


class JavaConfig(BaseModel):
    """Java settings of a sandbox; all are optional."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    java_home: str | None = None
    """The JDK's folder inside the sandbox. None: $JAVA_HOME there, otherwise the JDK of `javac`, or
    if that is too old or too new for `release` another one in /usr/lib/jvm."""
    release: int | None = None
    """The Java release that the project is written for. None: what its build files name."""
    repositories: tuple[RepositoryAddress, ...] | None = None
    """Addresses of Maven repositories (`https://host/path`) for the local sandbox. Before it opens,
    a build in another sandbox fetches once what the project needs from them; the first one that has
    a file decides. []: builds stay offline. None: for the user's own repository the mirror that
    `~/.m2/settings.xml` names, else Maven Central, and for Gradle its plugins and distributions,
    unless `readable_paths`, `maven_options` or `gradle_options` are set; for other bugs []."""
    maven_home: str | None = None
    """Maven's folder inside the sandbox. None: the Maven of the project's wrapper, or else a
    current one, from `repositories`; without these the `mvn` on PATH."""
    maven_options: tuple[str, ...] | None = None
    """Options of every `mvn`. None: offline, with what came from `repositories`, or else with
    Debian's repository if the sandbox has that one and no other."""
    gradle_home: str | None = None
    """Gradle's folder inside the sandbox. None: the Gradle of the project's wrapper from
    `repositories`, or else the `gradle` on PATH."""
    gradle_options: tuple[str, ...] | None = None
    """Options of every `gradle`, besides `--no-daemon`. None: offline, with what came from
    `repositories`."""
    class_path: tuple[str, ...] = ()
    """Jars and folders inside the sandbox, for programs without a build file."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The build tools' folders of programs."""
        homes = (self.maven_home, self.gradle_home)
        return tuple(f"{home}/bin" for home in homes if home is not None)


SOURCE_LIMIT = 8 * 1024 * 1024
"""Bytes of the largest source file that StepInto splits into lines in its own memory."""


class SandboxConfig(BaseModel):
    """The sandbox to open, and its limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["local", "docker"] = "local"
    """`local`: bubblewrap. `docker`: a container of `image`."""
    image: str | None = None
    """Docker image. None: the instance's own image; an error if it names none."""
    python: str | None = None
    """Python interpreter inside the sandbox that runs the bugs' tests.

    None: for `local` the version of Python that runs StepInto, with pytest and coverage.py alone;
    for `docker` the first `python3` on PATH.
    """
    python_version: PythonVersion | None = None
    """The version of CPython, such as `3.9`, of the local sandbox if `python` is not set. None:
    StepInto's own. Found for each bug."""
    own_environment: str | None = None
    """The folder of the user's virtual environment that the local sandbox has instead, if `python`
    is not set. It is read as text, and its programs run in sandboxes alone. Found for each
    repository."""
    memory_mb: int = Field(default=4096, ge=64)
    """MiB of all processes together. A local sandbox that takes more is killed within a second, and
    there one process is limited to seven eighths of it."""
    pids: int = Field(default=256, ge=8)
    """Processes and threads at the same time."""
    cpus: float = Field(default=2.0, gt=0)
    """Processor cores of a container; the local sandbox may use all."""
    open_files: int = Field(default=4096, ge=64)
    """Most files that one process may have open."""
    file_size_mb: int = Field(default=512, ge=1)
    """Largest file a process may write."""
    disk_mb: int = Field(default=16_384, ge=64)
    """MiB that all files of the sandbox may take; a sandbox that takes more is killed within
    seconds."""
    command_timeout: float = Field(default=120.0, gt=0)
    """Seconds for a command without its own time-out."""
    starts_at_once: int = Field(default=8, ge=1)
    """Containers that one process starts at the same time; an engine slows down with many."""
    engine_wait: float = Field(default=120.0, ge=0)
    """Seconds that opening a sandbox waits for a container engine that does not answer."""
    output_limit: int = Field(default=64_000, ge=1_000)
    """Bytes kept of a command's output; longer output has its middle cut, with a note."""
    readable_paths: tuple[str, ...] = ()
    """More host folders that the local sandbox may read."""
    hidden_paths: tuple[str, ...] = ()
    """Host folders that the local sandbox would see, in /usr say, and must not: other releases of
    the code under test, which `stepinto bench verify` finds."""
    packages: tuple[PackageName, ...] = ()
    """Python packages, by name and version bounds, that the local sandbox has besides those of its
    interpreter. Installed once, from wheels, before the sandbox opens; inside it there is no
    network."""
    own_modules: tuple[str, ...] = ()
    """Modules (`toolz`, `jaraco.text`) that no package brings, since they are the code under test:
    its release would show the fix. Found for each bug."""
    own_metadata: str | None = None
    """Folder of this machine with the metadata and scripts of the code under test, as installing it
    in place would leave them. Found for each bug."""
    import_paths: tuple[str, ...] = ()
    """Folders of the workspace, relative to it, that come before `packages` on Python's import
    path."""
    environment: Mapping[str, str] = {}
    """Variables for every command. They are saved with the config and visible to agents, so no
    secrets."""
    java: JavaConfig = JavaConfig()
    """The JDK and the build tools' options, for bugs in Java."""
    unsafe: bool = False
    """Run commands on the host itself if bubblewrap is missing. Model-chosen commands then have the
    rights of the user who started StepInto."""

    @model_validator(mode="after")
    def _packages_are_local(self) -> Self:
        if self.packages and self.backend != "local":
            raise ValueError(
                "packages are for the local sandbox; with docker, use an image that has "
                f"{', '.join(self.packages)}, and leave packages out"
            )
        return self


@dataclass(frozen=True)
class ImageWorkspace:
    """A workspace inside the image: the code under test, as the image's maker left it.

    Commands run as the owner of the folder, still without capabilities.
    """

    folder: str
    """Absolute path in the image."""
    programs: tuple[str, ...] = ()
    """Folders before the image's own PATH, such as a virtual environment's `bin`, if they exist."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a finished command."""

    exit_code: int
    """The process's own; 124 if killed at its time-out, 137 if killed otherwise."""
    output: str
    """Standard output and error in the order they came, decoded as UTF-8 with replacement."""
    timed_out: bool
    truncated: bool
    """Whether the middle of the output was cut to the limit."""
    seconds: float


@dataclass(frozen=True)
class Command:
    """One command to run."""

    argv: Sequence[str]
    cwd: str | None = None
    """Absolute path inside the sandbox; None: the workspace."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the sandbox's own small environment; the host's variables are not passed on."""
    stdin: bytes = b""
    timeout: float | None = None
    """Seconds; None: the sandbox's `command_timeout`."""
    output_limit: int | None = None
    """Bytes kept of the output; None: the sandbox's `output_limit`."""
    read_only: bool = False
    """Refuse every write below the workspace, enforced by the kernel; /tmp stays writable."""


class Sandbox(Protocol):
    """One isolated machine with one writable folder, the workspace.

    No network, no capabilities, no host environment, no readable home of the host; memory,
    processes and file size are limited. `close` leaves nothing behind, and is safe to call twice.
    """

    config: SandboxConfig
    workspace: str
    """Absolute path, inside the sandbox, of the writable folder with the code under test."""
    python: str
    """The interpreter, inside the sandbox, that runs the bugs' tests."""
    image_digest: str | None
    """The digest of the image; None if there is no image."""

    def run(self, command: Command) -> CommandResult:
        """Run a command to its end or its time-out; afterwards none of its processes is left."""

    def spawn(self, command: Command) -> Terminal:
        """Start an interactive process behind a pseudo-terminal (`stdin` and `timeout` unused)."""

    def read_file(self, path: str, limit: int | None = None) -> bytes:
        """The bytes of a regular file of the workspace or of /tmp, of at most `limit` bytes (None:
        `file_size_mb`).

        Here and in the methods below, a path is absolute or relative to the workspace, and must not
        leave it (here: it and /tmp) by `..` or by symbolic links. Raises SandboxFileError.
        """

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file and its parent folders. Raises SandboxFileError."""
        self.write_files({path: data})

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write many files at once, as when laying out a workspace. Raises SandboxFileError."""

    def read_tree(self, path: str = ".") -> dict[str, bytes]:
        """Every regular file below a folder of the workspace, by path relative to that folder.

        Leaves out byte-code caches (`__pycache__`), `.git` and `.pytest_cache`. Raises
        SandboxFileError.
        """

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


Answer = TypeVar("Answer")
FIRST_WAIT, LONGEST_WAIT = 1.0, 15.0
"""Seconds between requests to an engine that is down."""
_starts: dict[int, threading.BoundedSemaphore] = {}
"""One for each value of `starts_at_once` in this process."""


def open_sandbox(
    config: SandboxConfig, image: str | None = None, workspace: ImageWorkspace | None = None
) -> Sandbox:
    """Open a fresh sandbox with an empty workspace, or with the image's `workspace`.

    `image` is the instance's own image, used if the config names none. Raises SandboxUnavailable,
    ImageMissing.
    """
    if config.backend == "local":
        if workspace is not None:
            raise SandboxUnavailable(
                f"the code under test lies in {workspace.folder} of the image {image}: set "
                "sandbox.backend=docker"
            )
        from sandbox.local import LocalSandbox

        return LocalSandbox(config)
    chosen = config.image or image
    if chosen is None:
        raise SandboxUnavailable(
            "the docker sandbox needs an image: set sandbox.image, or use a benchmark whose "
            "instances name one"
        )
    from sandbox.container import ContainerSandbox

    slots = _starts.setdefault(
        config.starts_at_once, threading.BoundedSemaphore(config.starts_at_once)
    )

    def start() -> Sandbox:
        with slots:
            return ContainerSandbox(config, chosen, workspace)

    return retry_while_down(start, config.engine_wait)


def retry_while_down(request: Callable[[], Answer], patience: float) -> Answer:
    """Send a request to the container engine, and again while the engine is down. Raises EngineDown
    `patience` seconds after the first failure, and whatever else `request` raises."""
    deadline: float | None = None
    wait = FIRST_WAIT
    while True:
        try:
            return request()
        except EngineDown:
            # A slow request must not use up the patience before its first failure.
            deadline = deadline or time.monotonic() + patience
            if time.monotonic() + wait >= deadline:
                raise
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def backend_name(config: SandboxConfig) -> str:
    """The backend's name in records; `local-unsafe` if commands run on the host itself."""
    on_host = config.backend == "local" and config.unsafe and shutil.which("bwrap") is None
    return "local-unsafe" if on_host else config.backend


def clean_up(config: SandboxConfig) -> None:
    """Remove folders or containers that killed runs left behind on this machine."""
    if config.backend == "local":
        from sandbox.leftovers import remove_leftovers

        remove_leftovers()
        return
    from sandbox.engine import remove_leftover_containers

    remove_leftover_containers()
