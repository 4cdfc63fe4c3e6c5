"""The user's own virtual environment of a project: found and read, never run on this machine.

A repository can bring a `.venv` of its own making, so nothing in it is believed. Its files are read
as text. Its interpreter must be a link to a CPython that StepInto itself finds on this machine,
whose folders the sandbox then sees besides the environment's own. In the sandbox the environment
lies at its own path, read-only.

An editable install there leads to the user's folder, which the sandbox does not have: such paths
become import paths of the copy. Other copies of the code under test are masked.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from sandbox.base import require_package_name
from sandbox.bubblewrap import Interpreter, find_interpreter
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.interpreters import (
    SUPPORTED,
    find_version,
    known_executables,
    minor_of,
    version_of,
)
from sandbox.languages.python.project_files import parse_code

FOLDERS = (".venv", "venv", "env")
"""Names of environments in a repository."""
VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")
OLDEST_PYTEST = Version("6.2")
RUNNER_NEEDS = frozenset(
    {"attr", "exceptiongroup", "iniconfig", "packaging", "pluggy", "py", "pygments", "tomli"}
    | {"pytest", "_pytest", "typing_extensions"}
)
"""Modules that some release of pytest imports: an environment in which they are the code under test
has no other copy of them."""
LARGEST_TEXT = 4 * 1024 * 1024
"""Bytes of a file of the environment that are read."""
LARGEST_TEXTS = 2 * 1024 * 1024
"""Characters of all files of a kind that are read."""
MOST_PATHS = 1_000
"""Paths that the environment imports from, and modules of one finder."""
LONGEST_PATH = 4_096
MOST_LINKS = 10
STEERING = ("pyvenv.cfg", "pybuilddir.txt", "*._pth")
"""Files beside an interpreter that say where it finds its standard library."""


class EnvironmentUnusable(SandboxUnavailable):
    """An environment can't run the tests; the message says why."""


@dataclass(frozen=True)
class OwnEnvironment:
    folder: Path
    version: str
    """Of its CPython, such as `3.9.18`."""
    site_packages: Path
    interpreter: Interpreter
    """As a sandbox starts it. The environment's own program is never run elsewhere."""

    @property
    def digest(self) -> str:
        """Changes with what is installed."""
        facts = [str(self.folder), self.version, sorted(self.distributions.items())]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def distributions(self) -> Mapping[str, str]:
        """The versions of what is installed, by canonical name."""
        return dict(_distribution(path) for path in self.site_packages.glob("*.*-info"))

    @property
    def released(self) -> tuple[str, ...]:
        """What is installed in releases of an index, as pip's requirements."""
        elsewhere = {
            _distribution(path.parent)[0] for path in self.site_packages.glob("*/direct_url.json")
        }
        found = []
        for name, version in sorted(self.distributions.items()):
            with suppress(ValueError):
                if name not in elsewhere | {"pip", "setuptools", "wheel"}:
                    found.append(require_package_name(f"{name}=={version}"))
        return tuple(found)


def _distribution(folder: Path) -> tuple[str, str]:
    """The canonical name and the version of a folder such as `PyYAML-6.0.dist-info`."""
    name, _, version = folder.name.rpartition(".")[0].partition("-")
    return str(canonicalize_name(name)), version


def find_own_environment(
    repository: Path, reason_against: Callable[[OwnEnvironment], str | None]
) -> tuple[OwnEnvironment | None, tuple[str, ...]]:
    """The first environment of a repository that can run its tests, and why earlier ones can't.
    `reason_against` says what the project has against one."""
    refusals: list[str] = []
    for folder in _environments(repository):
        try:
            environment = read_environment(folder)
            _require_pytest(environment)
            if (reason := reason_against(environment)) is not None:
                raise EnvironmentUnusable(reason)
            return environment, tuple(refusals)
        except SandboxUnavailable as error:
            refusals.append(f"{folder} is not used: {error}")
    return None, tuple(refusals)


def _environments(repository: Path) -> Iterator[Path]:
    for name in FOLDERS:
        folder = repository.resolve() / name
        if (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir():
            yield folder
    own = Path(sys.prefix).resolve()
    for variable in VARIABLES:
        named = os.environ.get(variable)
        # The environment of StepInto itself is active, not one of the project.
        if named and Path(named).is_absolute() and Path(named).resolve() != own:
            yield Path(named).resolve()


def _require_pytest(environment: OwnEnvironment) -> None:
    version = environment.distributions.get("pytest")
    if version is None:
        raise EnvironmentUnusable("it has no pytest")
    with suppress(InvalidVersion):
        if Version(version) < OLDEST_PYTEST:
            raise EnvironmentUnusable(f"its pytest {version} is older than {OLDEST_PYTEST}")


def read_environment(folder: Path) -> OwnEnvironment:
    """A virtual environment, or a conda environment. Raises EnvironmentUnusable."""
    try:
        return _read(folder)
    # Such as links that lead to themselves.
    except (OSError, RuntimeError) as error:
        raise EnvironmentUnusable(f"it can't be read: {error}") from error


def _read(folder: Path) -> OwnEnvironment:
    if folder.resolve() != folder or not folder.is_dir():
        raise EnvironmentUnusable("it is no folder, or lies behind a link")
    if os.geteuid() == 0 and folder.stat().st_mode & 0o005 != 0o005:
        raise EnvironmentUnusable(
            f"the sandbox runs as another user, who can't read it: `chmod -R o+rX {folder}`"
        )
    is_conda = (folder / "conda-meta").is_dir()
    base = _conda(folder) if is_conda else _base(folder)
    version = version_of(base.executable) or ""
    if minor_of(version) not in SUPPORTED:
        raise EnvironmentUnusable(
            f"it has Python {version}, and CPython {SUPPORTED[0]} to {SUPPORTED[-1]} is supported"
        )
    site_packages = folder / "lib" / f"python{minor_of(version)}" / "site-packages"
    if site_packages.resolve() != site_packages or not site_packages.is_dir():
        raise EnvironmentUnusable(f"it has no folder {site_packages}, or a link in its place")
    interpreter = Interpreter(
        executable=base.executable if is_conda else str(folder / "bin" / "python"),
        prefixes=tuple(dict.fromkeys([str(folder), *base.prefixes])),
        path=(str(site_packages),),
        installer=base.installer,
    )
    return OwnEnvironment(folder, version, site_packages, interpreter)


# The interpreter of an environment.


def _base(folder: Path) -> Interpreter:
    """The interpreter of this machine that a virtual environment was made with. Raises
    EnvironmentUnusable if it is not certain that the sandbox would run that one."""
    programs = folder / "bin"
    if programs.resolve() != programs:
        raise EnvironmentUnusable(f"{programs} is a link")
    if any(next(programs.glob(pattern), None) for pattern in STEERING):
        raise EnvironmentUnusable(f"{programs} has files that say where Python's library is")
    program = _first_outside(programs / "python")
    executable = str(program.resolve())
    if executable not in known_executables():
        raise EnvironmentUnusable(
            f"its interpreter {program} is none that StepInto finds on this machine (pyenv, uv, "
            "conda, PATH, /usr/bin)"
        )
    base = find_interpreter(executable)
    settings = _settings(folder / "pyvenv.cfg")
    if settings.get("include-system-site-packages", "").lower() == "true":
        raise EnvironmentUnusable("it includes the packages of the system's Python")
    for place in (program, Path(settings.get("home", "")) / "python"):
        if not _is_seen(place.parent, base) or place.parent.resolve() != Path(executable).parent:
            raise EnvironmentUnusable(
                f"it names {place.parent} as the place of its interpreter, which is {executable}"
            )
    return base


def _conda(folder: Path) -> Interpreter:
    """The interpreter that a conda environment has itself. Raises EnvironmentUnusable."""
    executable = str((folder / "bin" / "python").resolve())
    if executable not in known_executables() or not executable.startswith(f"{folder}/bin/"):
        raise EnvironmentUnusable("its interpreter is none that PATH or conda names")
    # What the environment has installed would run along with its own pip.
    installer = find_version(minor_of(version_of(executable) or "")) or executable
    return Interpreter(executable, (str(folder),), (), installer)


def _first_outside(path: Path) -> Path:
    """Where the links of an interpreter lead from the environment's folder of programs."""
    programs = path.parent
    for _ in range(MOST_LINKS):
        if not path.is_symlink() or path.parent != programs:
            return path
        target = Path(os.readlink(path))
        if ".." in target.parts:
            break
        path = programs / target
    raise EnvironmentUnusable(f"{path} is a link that can't be followed for certain")


def _is_seen(folder: Path, base: Interpreter) -> bool:
    """Whether the sandbox has a folder as this machine has it."""
    is_below = any(folder.is_relative_to(each) for each in (*base.prefixes, "/usr", "/bin"))
    return is_below and ".." not in folder.parts


def _settings(path: Path) -> Mapping[str, str]:
    """The settings of a `pyvenv.cfg`, by name. Raises EnvironmentUnusable."""
    text = read_text(path)
    if text is None:
        raise EnvironmentUnusable("its pyvenv.cfg can't be read")
    settings: dict[str, str] = {}
    for line in re.split(r"[\r\n]+", text):
        name, equals, value = line.partition("=")
        key = name.strip().lower()
        if equals and key in settings:
            raise EnvironmentUnusable(f"its pyvenv.cfg sets {key} twice")
        if equals:
            settings[key] = value.strip()
    return settings


def read_text(path: Path) -> str | None:
    """The text of a file of the environment; None if it is no regular file, a link, or too large.
    Nothing that the environment has in its place can block."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_TEXT:
            return None
        return file.read(LARGEST_TEXT).decode("utf-8", "surrogateescape").replace("\0", "")


def read_texts(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """The texts of some files of the environment, up to a size of all together."""
    left = LARGEST_TEXTS
    for path in paths:
        text = read_text(path) or ""
        left -= len(text)
        if left < 0:
            return
        yield path, text


PROGRAMS = ("python", "python3", "pytest", "py.test", "coverage")
"""The commands of an environment that come before those of the system."""


def write_programs(environment: Path, folder: Path) -> None:
    """Write a new folder of commands that start those of an environment's `bin`. Its other commands
    must not hide the system's, such as `sh`, which StepInto itself runs in the sandbox."""
    folder.mkdir(mode=0o755)
    for name in PROGRAMS:
        if (environment / name).is_file():
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(environment / name))} "$@"\n')
            script.chmod(0o755)


# Editable installs, which lead to the user's folder.

FINDERS = "__editable__*_finder.py"
MAPPINGS = ("MAPPING", "NAMESPACES")


def editable_paths(environment: OwnEnvironment, repository: Path) -> tuple[str, ...]:
    """The repository's folders, relative to it, from which the environment imports."""
    root = repository.resolve()
    found: dict[str, None] = {}
    for path in islice(_imported_from(environment.site_packages), MOST_PATHS):
        # Also a name that is too long, and links that lead to themselves.
        with suppress(OSError, RuntimeError):
            folder = path.resolve()
            if folder.is_relative_to(root) and not folder.is_relative_to(environment.folder):
                found[str(folder.relative_to(root))] = None
    return tuple(found)


def _imported_from(site_packages: Path) -> Iterator[Path]:
    for _, text in read_texts(sorted(site_packages.glob("*.pth"))):
        for line in text.splitlines():
            # Python runs lines that begin with `import`.
            is_path = line.strip() and not line.startswith(("#", "import ", "import\t"))
            if is_path and len(line) < LONGEST_PATH:
                yield site_packages / line.strip()
    for _, text in read_texts(sorted(site_packages.glob(FINDERS))):
        for module, folder in _mapped(text):
            *parents, name = module.split(".")
            # What lies in a folder of another name can't be imported from a copy of it.
            if folder.name in (name, f"{name}.py") and len(parents) < len(folder.parents):
                yield folder.parents[len(parents)]


def _mapped(source: str) -> Iterator[tuple[str, Path]]:
    """The modules that a finder of setuptools has, with their folders or files."""
    tree = parse_code(source.encode("utf-8", "surrogateescape"))
    for node in tree.body if tree is not None else ():
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        named = [each.id for each in targets if isinstance(each, ast.Name)]
        value = getattr(node, "value", None)
        if not set(named) & set(MAPPINGS) or not isinstance(value, ast.Dict):
            continue
        for key, places in zip(value.keys, value.values, strict=True):
            for place in places.elts if isinstance(places, ast.List) else [places]:
                if isinstance(key, ast.Constant) and isinstance(place, ast.Constant):
                    text = str(place.value).replace("\0", "")
                    if len(text) < LONGEST_PATH:
                        yield str(key.value), Path(text)
