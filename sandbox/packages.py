"""The Python environment of the local sandbox, and extra packages for it, made once and cached.

The environment has pytest and coverage.py, and nothing else of StepInto's own environment, which
has correct versions of many projects in which bugs are made.

Each set of packages has a folder below the user's cache, which sandboxes mount read-only. Only
wheels are installed, since building a package would run its code on the host. pip runs in an empty
folder, with the user's pip settings but not the rest of their environment, and writes nothing
outside its own folders.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser, MissingSectionHeaderError
from configparser import Error as ConfigParserError
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.metadata import distributions as distributions_of
from pathlib import Path
from venv import EnvBuilder

from packaging.requirements import Requirement

from sandbox.base import SandboxConfig, require_package_name
from sandbox.bubblewrap import Interpreter, find_interpreter
from sandbox.environment import cache_folder, host_environment
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.interpreters import find_version, installed_interpreters, own_version
from sandbox.languages.python.own_environment import read_environment, read_text

INSTALL_TIMEOUT = 1800.0
"""Seconds to install all packages of a set."""
SHOWN_OUTPUT = 1500
"""Characters of the end of pip's output that a message shows."""
PIP_SETTINGS = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_PROXY"),
    *("PIP_CONFIG_FILE", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_TRUSTED_HOST", "PIP_CACHE_DIR"),
    *("PIP_NO_CACHE_DIR", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES", "PIP_DISABLE_PIP_VERSION_CHECK"),
)
"""The user's variables that pip gets: where packages come from, and how to get there."""
COMPILED = re.compile(r"\w+__mypyc\.[\w.-]+")
PLUGINS = "pytest11"
"""The entry point group of pytest plugins."""
_RUNS_AS = "import sys; print(sys.version, sys.platform, sys.implementation.cache_tag)"
# A wheel may require `name @ URL` of a source tree, which pip builds despite --only-binary. And
# many releases of pip write a wheel's scripts wherever their names lead (`/home/me/.bashrc`).
_PIP = """
import os, runpy, sys
own = os.environ["TMPDIR"], os.environ["PIP_CACHE_DIR"], sys.argv[sys.argv.index("--target") + 1]
OWN = tuple(os.path.realpath(folder) + os.sep for folder in own)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn"}
def refuse(event, arguments):
    if event in STARTS:
        raise PermissionError(f"only wheels are installed, and this starts {arguments[:1]}")
    if event == "open" and arguments[2] & WRITES and not isinstance(arguments[0], int):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path != os.devnull and not (path + os.sep).startswith(OWN):
            raise PermissionError(f"a package would be written to {path}")
sys.addaudithook(refuse)
sys.path.append(os.environ.pop("STEPINTO_PIP", ""))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


RUNNER = ("pytest", "coverage")
"""The distributions of the sandbox's environment, which also has all that they require."""


def runner_python(version: str | None = None) -> str:
    """The interpreter of an environment that has the test runner alone, in a version of CPython
    such as `3.9`; None: the one that runs StepInto. Makes it on first use, and again if the cache
    was emptied: for StepInto's version of copies of its own runner, for others from the index.
    Raises SandboxUnavailable."""
    make = _runner_python if version in (None, own_version()) else partial(_other_runner, version)
    if not os.path.exists(make()):
        _runner_python.cache_clear()
        _other_runner.cache_clear()
    return make()


def _base_executable() -> str:
    base: str = getattr(sys, "_base_executable", sys.executable)
    return base


@lru_cache(maxsize=8)
def _runner_python() -> str:
    base = _base_executable()
    distributions = _required(RUNNER)
    versions = [[name, distributions[name].version] for name in sorted(distributions)]
    folder = _made("runner", [base, sys.version, versions], lambda to: _copy(distributions, to))
    return str(folder / "bin" / "python")


@lru_cache(maxsize=8)
def _other_runner(version: str) -> str:
    base = find_version(version)
    if base is None:
        raise SandboxUnavailable(
            f"this machine has no CPython {version}, only {', '.join(installed_interpreters())}: "
            f"install it (`pyenv install {version}`, `uv python install {version}`), or name "
            "another version, or an interpreter in sandbox.python"
        )

    def make(folder: Path) -> None:
        _output([base, "-I", "-m", "venv", "--without-pip", str(folder)])
        (site_packages,) = folder.glob("lib/python3*/site-packages")
        _install(base, RUNNER, site_packages)
        # A .pth file is code that runs whenever the interpreter starts.
        for path in site_packages.glob("*.pth"):
            path.unlink()
        for found in distributions_of(path=[str(site_packages)]):
            _write_scripts(found, folder / "bin")

    folder = _made("runner", [base, _output([base, "-I", "-S", "-c", _RUNS_AS]), RUNNER], make)
    return str(folder / "bin" / "python")


def interpreter_of(config: SandboxConfig) -> Interpreter:
    """The interpreter of a local sandbox. Raises SandboxUnavailable."""
    if config.python is not None:
        return find_interpreter(config.python)
    if config.own_environment is not None:
        return read_environment(Path(config.own_environment)).interpreter
    found = find_interpreter(runner_python(config.python_version))
    # The environment of the test runner has no pip.
    if config.python_version in (None, own_version()):
        return replace(found, installer=sys.executable)
    return replace(found, installer=find_version(str(config.python_version)) or found.installer)


def runner_modules(version: str | None = None) -> frozenset[str]:
    """The top-level modules of the test runner's environment. Raises SandboxUnavailable."""
    (site_packages,) = Path(runner_python(version)).parents[1].glob("lib/python3*/site-packages")
    return frozenset(path.name.partition(".")[0] for path in site_packages.iterdir())


@lru_cache(maxsize=64)
def packages_folder(
    python: str, packages: tuple[str, ...], own_modules: tuple[str, ...] = ()
) -> Path:
    """The folder with the packages, for PYTHONPATH in the version of this interpreter, which runs
    pip (`Interpreter.installer`), without any copy of
    `own_modules`: dotted names of the code under test, whose release would show the fix.

    Installs them on first use; of two processes that want the same set, one installs and the other
    waits. Raises SandboxUnavailable, also for an invalid package name.
    """
    try:
        for package in packages:
            require_package_name(package)
    except ValueError as error:
        raise SandboxUnavailable(f"sandbox.packages: {error}") from error
    facts = [_output([python, "-I", "-c", _RUNS_AS]), sorted(packages)]
    folder = _made("", facts, lambda to: _install(python, packages, to))
    present = {path.name.partition(".")[0] for path in folder.iterdir()}
    shared = (module for module in own_modules if module.partition(".")[0] in present)
    copied = [module for module in shared if any(_files_of(module, folder))]
    if not copied:
        return folder
    facts = ["without their hashes", *copied]
    return _made(f"{folder.name}-without", facts, lambda to: _leave_out(folder, copied, to))


def _made(prefix: str, facts: Sequence[object], make: Callable[[Path], None]) -> Path:
    """The cached folder of these facts; `make` fills a new one. Raises SandboxUnavailable."""
    root = cache_folder() / "environments"
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    folder = root / "-".join(filter(None, [prefix, digest]))
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                unfinished = Path(tempfile.mkdtemp(prefix=f".tmp-{folder.name}-", dir=root))
                try:
                    make(unfinished)
                    # The sandbox's commands may run as another user.
                    unfinished.chmod(0o755)
                    unfinished.rename(folder)
                finally:
                    shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise SandboxUnavailable(
            f"{root}, where the sandboxes' Python packages are kept, can't be written ({error}); "
            "set XDG_CACHE_HOME to a folder that can"
        ) from error
    return folder


def pytest_plugins(folder: Path) -> tuple[str, ...]:
    """The pytest plugin modules of a folder's packages, as PYTEST_PLUGINS lists them."""
    found = []
    for entry_points in sorted(folder.glob("*.dist-info/entry_points.txt")):
        parser = ConfigParser(delimiters=("=",), strict=False, interpolation=None)
        try:
            parser.read_string(read_text(entry_points) or "")
        except (MissingSectionHeaderError, ConfigParserError):
            continue
        if parser.has_section(PLUGINS):
            found += [module.partition(":")[0].strip() for _, module in parser.items(PLUGINS)]
    return tuple(found)


def _required(names: Iterable[str]) -> dict[str, Distribution]:
    """Installed distributions with all that they require, by name. Raises SandboxUnavailable."""
    required: dict[str, Distribution] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        if name in required:
            continue
        try:
            required[name] = distribution(name)
        except PackageNotFoundError as error:
            raise SandboxUnavailable(
                f"{sys.executable} has no {name}, which sandboxes need: install StepInto with all "
                "that it requires"
            ) from error
        for requirement in map(Requirement, required[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
    return required


_SCRIPT = """#!/usr/bin/env python
import sys
from {module} import {function}
sys.exit({function}())
"""


def _copy(distributions: Mapping[str, Distribution], folder: Path) -> None:
    """Make a virtual environment with copies of installed distributions."""
    EnvBuilder(symlinks=True).create(folder)
    (site_packages,) = folder.glob("lib/python3*/site-packages")
    for copied in distributions.values():
        _copy_files(copied, site_packages)
        _write_scripts(copied, folder / "bin")
    _output([str(folder / "bin" / "python"), "-I", "-m", "compileall", "-q", str(site_packages)])


def _write_scripts(found: Distribution, folder: Path) -> None:
    for command in found.entry_points:
        if command.group == "console_scripts":
            script = folder / command.name
            script.write_text(_SCRIPT.format(module=command.module, function=command.attr))
            script.chmod(0o755)


def _install(python: str, packages: Sequence[str], folder: Path) -> None:
    """Install packages with the interpreter's pip, or StepInto's own if it has none."""
    cache = os.environ.get("PIP_CACHE_DIR") or cache_folder().parent / "pip"
    with tempfile.TemporaryDirectory() as temporary:
        options = ["--quiet", "--only-binary", ":all:", "--target", str(folder.resolve())]
        argv = [python, "-c", _PIP, "install", *options, "--", *packages]
        folders = {"TMPDIR": temporary, "PIP_CACHE_DIR": os.path.expanduser(cache)}
        _output(argv, {**folders, "STEPINTO_PIP": _own_pip()})


@lru_cache(maxsize=1)
def _own_pip() -> str:
    """A folder with StepInto's pip alone, for interpreters without one; empty if it has none."""
    try:
        pip = distribution("pip")
    except PackageNotFoundError:
        return ""
    return str(_made("pip", [pip.version], lambda to: _copy_files(pip, to)))


def _copy_files(copied: Distribution, folder: Path) -> None:
    for file in copied.files or ():
        # A .pth file is code that runs whenever the interpreter starts.
        if ".." in file.parts or file.suffix in (".pyc", ".pth"):
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(file.locate()), target)


def _leave_out(installed: Path, modules: Iterable[str], folder: Path) -> None:
    """Copy a folder of packages without these modules."""
    shutil.copytree(installed, folder, copy_function=os.link, dirs_exist_ok=True)
    for module in modules:
        for path in list(_files_of(module, folder)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for record in folder.glob("*.dist-info/RECORD"):
        _forget(installed, folder, record)


def copies_in(folder: Path, modules: Iterable[str]) -> tuple[str, ...]:
    """Files and folders of installed packages that a sandbox must not see: the copies of modules of
    the code under test, and the lists with their hashes and sizes."""
    present = {path.name.partition(".")[0] for path in folder.iterdir()}
    found: set[Path] = set()
    for module in modules:
        if module.partition(".")[0] in present:
            found.update(path.resolve() for path in _files_of(module, folder))
    # What a link leads to elsewhere is not there in the sandbox.
    found = {path for path in found if path.is_relative_to(folder)}
    names = {path.relative_to(folder).parts[0] for path in found}
    for record in folder.glob("*.dist-info/RECORD") if found else ():
        listed = {line.partition("/")[0].partition(",")[0] for line in _lines(record)}
        if names & listed:
            found.add(record)
    return tuple(sorted(map(str, found)))


def _lines(path: Path) -> list[str]:
    return (read_text(path) or "").splitlines()


def _forget(installed: Path, folder: Path, record: Path) -> None:
    """Remove from a distribution's list what was left out of it: hashes and sizes tell which file
    has a bug, and when it is fixed. Remove what mypyc has compiled its modules into, too."""
    rows = [row for row in csv.reader(record.read_text("utf-8").splitlines()) if row]
    kept = []
    for row in rows:
        was_there, is_there = ((each / row[0]).exists() for each in (installed, folder))
        if is_there or not was_there:
            kept.append(row)
    if len(kept) == len(rows):
        return
    for row in rows:
        if COMPILED.fullmatch(row[0]):
            (folder / row[0]).unlink(missing_ok=True)
    # A link to the file that lists everything.
    record.unlink()
    with record.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(kept)


def _files_of(module: str, folder: Path) -> Iterator[Path]:
    """What a folder has of a module: its package, file, stub, extension and byte code. Nothing if
    a package there has the module inside: it does not share its name with the code under test."""
    *parents, name = module.split(".")
    inside = folder
    for parent in parents:
        inside /= parent
        if (inside / "__init__.py").exists():
            return
    if (inside / name).is_dir():
        yield inside / name
    for pattern in (f"{name}.py", f"{name}.pyi", f"{name}.so", f"{name}.*.so"):
        yield from inside.glob(pattern)
    yield from inside.glob(f"__pycache__/{name}.*.pyc")


def _output(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    shown = "sandbox.packages: `" + " ".join(argv).replace(f"-c {_PIP}", "-m pip") + "`"
    with tempfile.TemporaryDirectory() as empty:
        try:
            done = subprocess.run(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=INSTALL_TIMEOUT,
                umask=0o022,
                check=False,
                cwd=empty,
                env={**host_environment(PIP_SETTINGS), **(variables or {})},
            )
        except subprocess.TimeoutExpired as error:
            raise SandboxUnavailable(f"{shown} did not end in {INSTALL_TIMEOUT:.0f} s") from error
    if done.returncode != 0:
        raise SandboxUnavailable(
            f"{shown} failed: {done.stdout.strip()[-SHOWN_OUTPUT:]}\n"
            "Name packages that pip finds as wheels for this interpreter, or use the docker "
            "sandbox with an image that has them"
        )
    return done.stdout
