"""Extra Python packages for the local sandbox, installed once and cached.

Each set of packages has a folder below the user's cache, which sandboxes mount read-only. Only
wheels are installed, since building a package would run its code on the host. pip runs in an empty
folder, with the user's pip settings but not the rest of their environment, and writes nothing
outside its own folders.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from configparser import ConfigParser, MissingSectionHeaderError
from configparser import Error as ConfigParserError
from functools import lru_cache
from pathlib import Path

from sandbox.base import require_package_name
from sandbox.environment import cache_folder, host_environment
from sandbox.errors import SandboxUnavailable

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
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@lru_cache(maxsize=64)
def packages_folder(python: str, packages: tuple[str, ...]) -> Path:
    """The folder with the packages, for this interpreter's PYTHONPATH.

    Installs them on first use; of two processes that want the same set, one installs and the other
    waits. Raises SandboxUnavailable, also for an invalid package name.
    """
    try:
        for package in packages:
            require_package_name(package)
    except ValueError as error:
        raise SandboxUnavailable(f"sandbox.packages: {error}") from error
    root = cache_folder() / "environments"
    facts = json.dumps([_output([python, "-I", "-c", _RUNS_AS]), sorted(packages)])
    folder = root / hashlib.sha256(facts.encode()).hexdigest()[:16]
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _install(python, packages, folder)
    except OSError as error:
        raise SandboxUnavailable(
            f"sandbox.packages: {root} can't be written ({error}); set XDG_CACHE_HOME to a folder "
            "that can"
        ) from error
    return folder


def pytest_plugins(folder: Path) -> tuple[str, ...]:
    """The pytest plugin modules of a folder's packages, as PYTEST_PLUGINS lists them."""
    found = []
    for entry_points in sorted(folder.glob("*.dist-info/entry_points.txt")):
        parser = ConfigParser(delimiters=("=",), strict=False, interpolation=None)
        try:
            parser.read_string(entry_points.read_text("utf-8"))
        except (MissingSectionHeaderError, ConfigParserError, UnicodeDecodeError):
            continue
        if parser.has_section(PLUGINS):
            found += [module.partition(":")[0].strip() for _, module in parser.items(PLUGINS)]
    return tuple(found)


def _install(python: str, packages: Sequence[str], folder: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".tmp-{folder.name}-", dir=folder.parent))
    cache = os.environ.get("PIP_CACHE_DIR") or cache_folder().parent / "pip"
    try:
        with tempfile.TemporaryDirectory() as temporary:
            options = ["--quiet", "--only-binary", ":all:", "--target", str(unfinished.resolve())]
            argv = [python, "-c", _PIP, "install", *options, "--", *packages]
            _output(argv, {"TMPDIR": temporary, "PIP_CACHE_DIR": os.path.expanduser(cache)})
        # The sandbox's commands may run as another user.
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


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
