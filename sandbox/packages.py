"""The Python environment of the local sandbox, and extra packages for it, made once and cached.

The environment has pytest and coverage.py, and nothing else of StepInto's own environment, which
has correct versions of many projects in which bugs are made.

Each set of packages has a folder below the user's cache, which sandboxes mount read-only. Only
wheels are installed, since building a package would run its code on the host; of packages that
have none, wheels are built in a sandbox (`sandbox.languages.python.sdists`). pip runs in an empty
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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from venv import EnvBuilder

from packaging.requirements import Requirement

from sandbox.base import SandboxConfig, require_package_name
from sandbox.bubblewrap import Interpreter, find_interpreter
from sandbox.environment import cache_folder, host_environment
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.interpreters import find_version, installed_interpreters, own_version
from sandbox.languages.python.own_environment import read_environment, read_text, read_texts
from sandbox.languages.python.project_files import without_gaps

INSTALL_TIMEOUT = 900.0
"""Seconds to install all packages of a set."""
RESOLVE_TIMEOUT = 180.0
"""Seconds to find out whether a set can be installed."""
SHOWN_OUTPUT = 1500
"""Characters of the end of pip's output that a message shows."""
PIP_SETTINGS = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_PROXY"),
    *("PIP_CONFIG_FILE", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_TRUSTED_HOST", "PIP_CACHE_DIR"),
    *("PIP_NO_CACHE_DIR", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES", "PIP_DISABLE_PIP_VERSION_CHECK"),
)
"""The user's variables that pip gets: where packages come from, and how to get there."""
COMPILED = re.compile(r"\w+__mypyc\.[\w.-]+")
LARGEST_LISTS = 64 * 1024 * 1024
"""Characters of all lists of installed files that are read."""
USUAL_MODULES = frozenset(
    {"setup", "conftest", "noxfile", "tasks", "fabfile", "manage", "versioneer", "conf", "test"}
    | {"tests", "testing", "docs", "doc", "examples", "example", "benchmarks", "bench", "scripts"}
    | {"tools", "src", "build", "utils"}
)
"""Modules beside the code of many projects."""
PLUGINS = "pytest11"
"""The entry point group of pytest plugins."""
ENTRY_POINTS = "entry_points.txt"
SCRIPTS = ("console_scripts", "gui_scripts")
"""The entry point groups of commands."""
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
    is_own = version is None or version == own_version()
    make = _runner_python if is_own else partial(_other_runner, version)
    if not os.path.exists(make()):
        _runner_python.cache_clear()
        _other_runner.cache_clear()
    return make()


@lru_cache(maxsize=8)
def _runner_python() -> str:
    base: str = getattr(sys, "_base_executable", sys.executable)
    distributions = _required(RUNNER)
    versions = [[name, distributions[name].version] for name in sorted(distributions)]
    folder = made_folder(
        "runner", [base, sys.version, versions], lambda to: _copy(distributions, to)
    )
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
        run_pip(base, ["--target", str(site_packages)], RUNNER)
        # A .pth file is code that runs whenever the interpreter starts.
        for path in site_packages.glob("*.pth"):
            path.unlink()
        write_scripts(site_packages, folder / "bin")

    folder = made_folder("runner", [base, runs_as(base), RUNNER], make)
    return str(folder / "bin" / "python")


def interpreter_of(config: SandboxConfig) -> Interpreter:
    """The interpreter of a local sandbox. Raises SandboxUnavailable."""
    if config.python is not None:
        return find_interpreter(config.python)
    if config.own_environment is not None:
        return read_environment(Path(config.own_environment)).interpreter
    found = find_interpreter(runner_python(config.python_version))
    # The environment of the test runner has no pip.
    if config.python_version is None or config.python_version == own_version():
        return replace(found, installer=sys.executable)
    return replace(found, installer=find_version(config.python_version) or found.installer)


def builder_of(config: SandboxConfig) -> str | None:
    """The interpreter in which a project's build backend runs in a sandbox, as in SandboxConfig:
    the one of its tests, without the packages of the user's own environment."""
    is_own = config.python_version is None or config.python_version == own_version()
    if config.python is not None or (is_own and config.own_environment is None):
        return config.python
    return interpreter_of(config).installer


def runner_modules(version: str | None = None) -> frozenset[str]:
    """The top-level modules of the test runner's environment. Raises SandboxUnavailable."""
    (site_packages,) = Path(runner_python(version)).parents[1].glob("lib/python3*/site-packages")
    return frozenset(path.name.partition(".")[0] for path in site_packages.iterdir())


@lru_cache(maxsize=64)
def packages_folder(
    python: str, packages: tuple[str, ...], own_modules: tuple[str, ...] = ()
) -> Path:
    """The folder with the packages, for PYTHONPATH in the version of this interpreter, which may
    run pip on this machine (`Interpreter.installer`), without any copy of
    `own_modules`: dotted names of the code under test, whose release would show the fix.

    Installs them on first use; of two processes that want the same set, one installs and the other
    waits. Raises SandboxUnavailable, also for an invalid package name.
    """
    try:
        for package in packages:
            require_package_name(package)
    except ValueError as error:
        raise SandboxUnavailable(f"sandbox.packages: {error}") from error
    facts = ["with scripts", runs_as(python), sorted(packages)]
    folder = made_folder("", facts, lambda to: _install(python, packages, to))
    present = {path.name.partition(".")[0] for path in folder.iterdir()}
    shared = (module for module in own_modules if module.partition(".")[0] in present)
    inside = _Inside(folder)
    copied = [module for module in shared if any(inside.files_of(module))]
    if not copied:
        return folder
    facts = ["without their hashes", *copied]
    return made_folder(f"{folder.name}-without", facts, lambda to: _leave_out(folder, copied, to))


@lru_cache(maxsize=64)
def runs_as(python: str) -> str:
    """An interpreter's version and machine, for which packages are chosen. Raises
    SandboxUnavailable."""
    return _output([python, "-I", "-c", _RUNS_AS])


def made_folder(
    prefix: str,
    facts: Sequence[object],
    make: Callable[[Path], None],
    lasts: Callable[[Path], bool] = lambda _: True,
) -> Path:
    """The cached folder of these facts; `make` fills a new one. One that does not last, since an
    index or a build failed, say, is made again the next day. Raises SandboxUnavailable."""
    root = cache_folder() / "environments"
    folder, of_today = (
        root / "-".join(filter(None, [prefix, _digest(known)]))
        for known in (facts, [*facts, date.today().isoformat()])
    )
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for known in (folder, of_today):
                if known.is_dir():
                    return known
            unfinished = Path(tempfile.mkdtemp(prefix=f".tmp-{folder.name}-", dir=root))
            try:
                make(unfinished)
                # The sandbox's commands may run as another user.
                unfinished.chmod(0o755)
                return unfinished.rename(folder if lasts(unfinished) else of_today)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise SandboxUnavailable(
            f"{root}, where the sandboxes' Python packages are kept, can't be written ({error}); "
            "set XDG_CACHE_HOME to a folder that can"
        ) from error


def _digest(facts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def pytest_plugins(folder: Path) -> dict[str, str]:
    """The pytest plugins of a folder's packages: their names, as in `-p NAME`, and their modules,
    as PYTEST_PLUGINS lists them."""
    entries = _entry_points(folder, [PLUGINS])
    return {name: module.partition(":")[0].strip() for name, module in entries}


def _entry_points(folder: Path, groups: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names of entry points of a folder's packages, and what they lead to."""
    for _, text in read_texts(sorted(folder.glob(f"*.dist-info/{ENTRY_POINTS}"))):
        parser = ConfigParser(delimiters=("=",), strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string(without_gaps(text))
        except ConfigParserError:
            continue
        for group in filter(parser.has_section, groups):
            yield from parser.items(group)


def write_scripts(packages: Path, folder: Path | None = None) -> None:
    """Write the commands of a folder's packages to its `bin`, or to another folder, for the
    sandbox's interpreter: pip writes them for the one that it runs in."""
    scripts = packages / "bin" if folder is None else folder
    for name, place in _entry_points(packages, SCRIPTS):
        led = _PLACE.fullmatch(place.partition("[")[0].strip())
        if led is None or not _COMMAND.fullmatch(name):
            continue
        script = scripts / name
        scripts.mkdir(exist_ok=True)
        scripts.chmod(0o755)
        script.unlink(missing_ok=True)
        first = led[2].partition(".")[0]
        script.write_text(_SCRIPT.format(module=led[1], name=first, function=led[2]))
        script.chmod(0o755)


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


_PLACE = re.compile(r"([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)", re.ASCII)
_COMMAND = re.compile(r"\w[\w.-]{0,99}", re.ASCII)
_SCRIPT = """#!/usr/bin/env python
import sys
from {module} import {name}
sys.exit({function}())
"""


def _copy(distributions: Mapping[str, Distribution], folder: Path) -> None:
    """Make a virtual environment with copies of installed distributions."""
    EnvBuilder(symlinks=True).create(folder)
    (site_packages,) = folder.glob("lib/python3*/site-packages")
    for copied in distributions.values():
        _copy_files(copied, site_packages)
    write_scripts(site_packages, folder / "bin")
    _output([str(folder / "bin" / "python"), "-I", "-m", "compileall", "-q", str(site_packages)])


def _copy_files(copied: Distribution, folder: Path) -> None:
    for file in copied.files or ():
        # A .pth file is code that runs whenever the interpreter starts.
        if ".." in file.parts or file.suffix in (".pyc", ".pth"):
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(file.locate()), target)


@lru_cache(maxsize=1)
def _own_pip() -> str:
    """A folder with StepInto's pip alone, for interpreters without one; empty if it has none."""
    try:
        pip = distribution("pip")
    except PackageNotFoundError:
        return ""
    return str(made_folder("pip", [pip.version], lambda to: _copy_files(pip, to)))


def _install(python: str, packages: Sequence[str], folder: Path) -> None:
    try:
        run_pip(python, ["--target", str(folder.resolve())], packages)
    except PipFailed:
        from sandbox.languages.python.choosing import build_wheels  # opens sandboxes with packages

        # A bug's record names what was built on the machine that wrote it.
        if not build_wheels(python, packages):
            raise
        run_pip(python, ["--target", str(folder.resolve())], packages)
    write_scripts(folder)


class PipFailed(SandboxUnavailable):
    """pip can't install a set of packages."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """The last line of what pip says."""


@dataclass(frozen=True)
class Resolved:
    """A package that pip would install."""

    name: str
    version: str
    requires: tuple[str, ...]


def resolve(
    python: str, packages: Sequence[str], constraints: Sequence[str] = (), *options: str
) -> list[Resolved]:
    """What pip would install for these packages, as wheels. Raises PipFailed."""
    with tempfile.TemporaryDirectory() as temporary:
        report, fixed = Path(temporary, "report.json"), Path(temporary, "constraints.txt")
        fixed.write_text("\n".join(map(require_package_name, constraints)))
        options = ("--dry-run", "--report", str(report), "--constraint", str(fixed), *options)
        target = ["--target", str(Path(temporary, "none"))]
        run_pip(python, [*options, *target], packages, temporary, RESOLVE_TIMEOUT)
        items = json.loads(report.read_bytes())["install"]
    return [
        Resolved(about["name"], about["version"], tuple(about.get("requires_dist", ())))
        for about in (item["metadata"] for item in items)
    ]


def wheels_folder(python: str) -> Path:
    """The folder of the wheels that were built for an interpreter."""
    return cache_folder() / "wheels" / _digest([runs_as(python)])


def run_pip(
    python: str,
    options: Sequence[str],
    packages: Sequence[str],
    temporary: str | None = None,
    timeout: float = INSTALL_TIMEOUT,
) -> None:
    """`pip install` of wheels alone; `options` name its `--target`, `timeout` is in seconds. Raises
    PipFailed."""
    # The environment of the test runner has no pip.
    installer = sys.executable if python == runner_python() else python
    cache = os.environ.get("PIP_CACHE_DIR") or cache_folder().parent / "pip"
    built = wheels_folder(python)
    options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", *options]
    options += ["--find-links", str(built)] if built.is_dir() else []
    with tempfile.TemporaryDirectory() as own:
        argv = [installer, "-c", _PIP, "install", *options, "--", *packages]
        variables = {"TMPDIR": temporary or own, "PIP_CACHE_DIR": os.path.expanduser(cache)}
        _output(argv, {**variables, "STEPINTO_PIP": _own_pip()}, timeout)


def _leave_out(installed: Path, modules: Iterable[str], folder: Path) -> None:
    """Copy a folder of packages without these modules."""
    shutil.copytree(installed, folder, copy_function=os.link, dirs_exist_ok=True)
    inside = _Inside(folder)
    for module in modules:
        for path in list(inside.files_of(module)):
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
    inside = _Inside(folder)
    found: set[Path] = set()
    for module in modules:
        if module.partition(".")[0] in present:
            found.update(path.resolve() for path in inside.files_of(module))
    found.update(path.resolve() for path in _older_copies(folder, _telling(modules)))
    # What a link leads to elsewhere is not there in the sandbox.
    found = {path for path in found if path.is_relative_to(folder)}
    names = {path.relative_to(folder).parts[0] for path in found}
    left = LARGEST_LISTS
    for record in folder.glob("*.dist-info/RECORD") if found else ():
        text = (read_text(record) or "") if left > 0 else ""
        left -= len(text)
        lines = text.splitlines()
        # What is not read for its size may tell of them, too.
        if not text or names & {line.partition("/")[0].partition(",")[0] for line in lines}:
            found.add(record)
    return tuple(sorted(map(str, found)))


def _older_copies(folder: Path, modules: Collection[str]) -> Iterator[Path]:
    """What an egg, or an update by pip that was cut short, has of these modules."""
    # pip replaces the first character while it removes a package.
    endings = {module[1:] for module in modules}
    for path in folder.iterdir():
        if path.suffix == ".egg":
            is_own = path.name.partition("-")[0] in modules
            is_own = is_own or any(each.name.partition(".")[0] in modules for each in _in(path))
        else:
            is_own = path.name.startswith("~") and path.name[1:].partition(".")[0] in endings
        if is_own:
            yield path


def clones_in(environment: Path, modules: Collection[str]) -> tuple[str, ...]:
    """The clones that `pip install -e git+URL` leaves in an environment, of the code under test:
    with their history."""
    names = _telling(modules)
    clones = (path.resolve() for path in _in(environment / "src") if path.is_dir())
    return tuple(
        str(clone)
        for clone in clones
        if clone.is_relative_to(environment)
        and any(each.name.partition(".")[0] in names for each in (*_in(clone), *_in(clone / "src")))
    )


def _telling(modules: Iterable[str]) -> set[str]:
    """The top-level modules that only this project has."""
    return {module.partition(".")[0] for module in modules} - USUAL_MODULES


def _in(folder: Path) -> list[Path]:
    """What a folder has; nothing if it is none."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


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


class _Inside:
    """What a folder of packages has of modules. Each folder is listed once: there may be thousands
    of modules."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listed: dict[Path, dict[str, list[str]]] = {}

    def files_of(self, module: str) -> Iterator[Path]:
        """A module's package, file, stub, extension and byte code. Nothing if a package here has
        the module inside: it does not share its name with the code under test."""
        *parents, name = module.split(".")
        inside = self._folder
        for parent in parents:
            inside /= parent
            if (inside / "__init__.py").exists():
                return
        if (inside / name).is_dir():
            yield inside / name
        for found in self._named(inside, name):
            if found.endswith(".so") or found in (f"{name}.py", f"{name}.pyi"):
                yield inside / found
        for found in self._named(inside / "__pycache__", name):
            if found.endswith(".pyc"):
                yield inside / "__pycache__" / found

    def _named(self, folder: Path, name: str) -> Sequence[str]:
        """The names in a folder that begin with this one and a dot."""
        if folder not in self._listed:
            names: dict[str, list[str]] = {}
            with suppress(OSError):
                for found in os.listdir(folder):
                    names.setdefault(found.partition(".")[0], []).append(found)
            self._listed[folder] = names
        return self._listed[folder].get(name, ())


def _output(
    argv: Sequence[str],
    variables: Mapping[str, str] | None = None,
    timeout: float = INSTALL_TIMEOUT,
) -> str:
    shown = "sandbox.packages: `" + " ".join(argv).replace(f"-c {_PIP}", "-m pip") + "`"
    with tempfile.TemporaryDirectory() as empty:
        try:
            done = subprocess.run(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=timeout,
                umask=0o022,
                check=False,
                cwd=empty,
                env={**host_environment(PIP_SETTINGS), **(variables or {})},
            )
        except subprocess.TimeoutExpired as error:
            late = f"pip did not end in {timeout:.0f} s"
            raise PipFailed(f"{shown}: {late}", late) from error
    if done.returncode != 0:
        output = done.stdout.strip()
        raise PipFailed(
            f"{shown} failed: {output[-SHOWN_OUTPUT:]}\n"
            "Name packages that pip can install for this interpreter, or use the docker sandbox "
            "with an image that has them",
            output.rpartition("\n")[2].removeprefix("ERROR: ")[-SHOWN_OUTPUT:],
        )
    return done.stdout
