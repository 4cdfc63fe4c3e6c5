"""The CPythons of this machine, and which of them a project asks for.

What a project says is read as text. Only interpreters that the user has installed are run, without
their packages: none of a virtual environment, and none that PATH names below the current folder.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from functools import lru_cache
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from sandbox.base import Command, Sandbox
from sandbox.languages.python.project_files import (
    LONGEST_TEXT,
    MAX_BYTES,
    parse_code,
    read_pyproject,
    read_setup_cfg,
    table_of,
    texts_of,
)

SUPPORTED = tuple(f"3.{minor}" for minor in range(8, 15))
"""The versions that the debugger and the test runner support."""
MOST_NAMED = 30
"""Versions in a project's classifiers."""
CONDA_FOLDERS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
_NAME = re.compile(r"python3(\.\d+)?")
_VERSION = "import sys; print(sys.implementation.name, *sys.version_info[:3])"


def own_version() -> str:
    """The version that runs StepInto, such as `3.11`."""
    return minor_of(platform.python_version())


def minor_of(version: str) -> str:
    """`3.9` of `3.9.18`."""
    return ".".join(version.split(".")[:2])


# The machine.


@lru_cache(maxsize=1)
def installed_interpreters() -> Mapping[str, str]:
    """The newest CPython of each supported version: its executable by its version (`3.9.18`)."""
    newest: dict[str, tuple[Version, str]] = {}
    for executable in sorted(known_executables()):
        version = version_of(executable)
        minor = minor_of(version or "")
        if version is None or minor not in SUPPORTED:
            continue
        if minor not in newest or Version(version) > newest[minor][0]:
            newest[minor] = Version(version), executable
    return {str(version): executable for version, executable in newest.values()}


def find_version(version: str) -> str | None:
    """The executable of a version such as `3.9`; None if this machine has none."""
    for found, executable in installed_interpreters().items():
        if minor_of(found) == version:
            return executable
    return None


@lru_cache(maxsize=256)
def version_of(executable: str) -> str | None:
    """The version of a trusted interpreter; None if it is no CPython, or does not run."""
    command = [executable, "-I", "-S", "-c", _VERSION]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    implementation, _, version = answer.stdout.strip().partition(" ")
    return version.replace(" ", ".") if implementation == "cpython" else None


@lru_cache(maxsize=1)
def known_executables() -> frozenset[str]:
    """The interpreters that pyenv, uv, conda, PATH and the system have, with links resolved."""
    found = set()
    for folder in _program_folders():
        # The programs of a virtual environment are those of a project.
        if (folder.parent / "pyvenv.cfg").exists():
            continue
        with suppress(OSError):
            found |= {str(path.resolve()) for path in folder.iterdir() if _is_interpreter(path)}
    return frozenset(found)


def _program_folders() -> Iterator[Path]:
    variables, home = os.environ, Path.home()
    pyenv = Path(variables.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    data = Path(variables.get("XDG_DATA_HOME") or home / ".local/share")
    uv = Path(variables.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    for root in (pyenv, uv):
        yield from sorted(root.glob("*/bin"))
    conda = [home / name for name in (".conda", *CONDA_FOLDERS)]
    if program := variables.get("CONDA_EXE"):
        conda.append(Path(program).parents[1])
    for root in conda:
        yield from (root / "bin", *sorted(root.glob("envs/*/bin")))
    current, active = Path.cwd(), variables.get("VIRTUAL_ENV")
    for name in variables.get("PATH", "").split(os.pathsep):
        folder = Path(name)
        is_active = active is not None and folder.is_relative_to(active)
        # An environment that conda made in a project's folder is the project's.
        is_conda = (folder.parent / "conda-meta").exists()
        is_here = folder.resolve().is_relative_to(current)
        if folder.is_absolute() and not (is_here or is_active or is_conda):
            yield folder
    yield from (Path("/usr/local/bin"), Path("/usr/bin"))


def _is_interpreter(path: Path) -> bool:
    """Whether it is a program of that name, and no script: pyenv's `shims` are scripts, which run
    whatever the current folder names."""
    if not _NAME.fullmatch(path.name) or not path.is_file() or not os.access(path, os.X_OK):
        return False
    with suppress(OSError), path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
    return False


def is_too_old(version: str) -> bool:
    """Whether `3.7.16` is older than all `SUPPORTED`."""
    return [int(part) for part in version.split(".")[:2]] < [3, 8]


def too_old(sandbox: Sandbox) -> str:
    """Why nothing can be debugged in a sandbox, if its Python is too old for that; else empty.
    Raises SandboxDead."""
    code = "import sys; sys.stdout.write('%d.%d.%d' % sys.version_info[:3])"
    # Python 2 refuses -I.
    version = sandbox.run(Command((sandbox.python, "-E", "-S", "-c", code))).output
    if not re.fullmatch(r"[23]\.\d{1,3}\.\d{1,3}", version) or not is_too_old(version):
        return ""
    return f"the debugger needs CPython {SUPPORTED[0]} or later, and {sandbox.python} is {version}"


# The project.


@dataclass(frozen=True)
class RequiredPython:
    """The versions that a project runs with."""

    text: str
    """As the project says it."""
    specifier: SpecifierSet | None = None
    listed: frozenset[str] = frozenset()
    """Versions such as `3.9`, if it has no `specifier`."""

    def allows(self, version: str) -> bool:
        """Whether a full version (`3.9.18`) is one of them."""
        if self.specifier is not None:
            return self.specifier.contains(version, prereleases=True)
        return minor_of(version) in self.listed


def required_python(files: Mapping[str, bytes]) -> RequiredPython | None:
    """What a project's files say of its version of Python; None if nothing."""
    pyproject = read_pyproject(files)
    project = table_of(pyproject, "project")
    setup_cfg = read_setup_cfg(files)
    headers = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b"")[:MAX_BYTES])
    told = [
        project.get("requires-python"),
        _from_poetry(table_of(pyproject, "tool", "poetry", "dependencies").get("python")),
        setup_cfg.get("options", "python_requires", fallback=None),
        _from_setup(files.get("setup.py", b"")),
        headers.get("Requires-Python"),
    ]
    for text in told:
        if isinstance(text, str) and len(text) <= LONGEST_TEXT:
            with suppress(InvalidSpecifier):
                return RequiredPython(text, SpecifierSet(text))
    texts = texts_of(project.get("classifiers"))
    texts.append(setup_cfg.get("metadata", "classifiers", fallback=""))
    texts.append(files.get("setup.py", b"")[:MAX_BYTES].decode("utf-8", "replace"))
    every = re.findall(r"Programming Language :: Python :: (3\.\d{1,3})", "\n".join(texts))
    named = list(dict.fromkeys(every))[:MOST_NAMED]
    listed = frozenset(named)
    return RequiredPython(f"its classifiers {', '.join(named)}", None, listed) if named else None


def _from_poetry(constraint: object) -> str | None:
    """Poetry's constraint in the form of other tools: `^3.8` allows 3.8 up to 4, `~3.8` only
    3.8."""
    if not isinstance(constraint, str) or len(constraint) > LONGEST_TEXT:
        return None
    parts = []
    for part in constraint.split(","):
        operator, number = part.strip()[:1], part.strip()[1:].strip()
        try:
            release = (*Version(number).release, 0)
        except InvalidVersion:
            parts.append(part.strip())
            continue
        if operator == "^":
            parts.append(f">={number},<{release[0] + 1}")
        elif operator == "~":
            parts.append(f">={number},<{release[0]}.{release[1] + 1}")
        else:
            parts.append(part.strip())
    return ",".join(parts)


def _from_setup(source: bytes) -> str | None:
    """The text that setup.py gives as `python_requires`, also by the name of a constant."""
    tree = parse_code(source)
    if tree is None:
        return None
    constants: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            constants |= dict.fromkeys(names, str(node.value.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "python_requires":
            if isinstance(node.value, ast.Constant):
                return str(node.value.value)
            if isinstance(node.value, ast.Name):
                return constants.get(node.value.id)
    return None


@dataclass(frozen=True)
class ChosenPython:
    version: str | None = None
    """Such as `3.9`; None: the version that runs StepInto."""
    note: str = ""
    """Why, in a few words; empty if nothing is worth telling."""


def choose_python(files: Mapping[str, bytes]) -> ChosenPython:
    """The version for a project: StepInto's own if the project allows it, else the nearest one of
    this machine."""
    required = required_python(files)
    if required is None or required.allows(platform.python_version()):
        return ChosenPython(None, "")
    installed = installed_interpreters()
    own = Version(own_version()).minor
    allowed = sorted(
        (version for version in installed if required.allows(version)),
        key=lambda version: abs(Version(version).minor - own),
    )
    if allowed:
        return ChosenPython(minor_of(allowed[0]), f"the project requires Python {required.text}")
    there = ", ".join(sorted(installed, key=Version))
    return ChosenPython(
        None,
        f"the project requires Python {required.text}, and this machine has only {there}: install "
        "one that it allows (`pyenv install`, `uv python install`)",
    )


def marker_environment(version: str | None) -> dict[str, str]:
    """What markers of requirements (PEP 508) see in another version of CPython than StepInto's."""
    if version is None or version == own_version():
        return {}
    full = next((each for each in installed_interpreters() if minor_of(each) == version), version)
    return {
        "python_version": version,
        "python_full_version": full,
        "implementation_version": full,
    }
