"""Extra Python packages for the local sandbox, installed once and kept.

Each set of packages lies in a folder of its own below the user's cache, which sandboxes mount
read-only. Only wheels are installed: building a package would run its code on the host.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from sandbox.environment import cache_folder
from sandbox.errors import SandboxUnavailable

INSTALL_TIMEOUT = 1800.0
"""Seconds, for all packages of a set."""
SHOWN_OUTPUT = 1500
"""Characters of pip's output in a message, its end."""
_RUNS_AS = "import sys; print(sys.version, sys.platform, sys.implementation.cache_tag)"


@lru_cache(maxsize=64)
def packages_folder(python: str, packages: tuple[str, ...]) -> Path:
    """The folder with the packages, to be put on PYTHONPATH of this interpreter.

    Installs them where no run has before; of two processes that want the same one, one installs
    and the other waits. Raises SandboxUnavailable.
    """
    root = cache_folder() / "environments"
    folder = root / _key(python, packages)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f"{folder.name}.lock"):
            if not folder.is_dir():
                _install(python, packages, folder)
    except OSError as error:
        raise SandboxUnavailable(
            f"sandbox.packages: {root} can't be written ({error}); set XDG_CACHE_HOME to a folder "
            "that can"
        ) from error
    return folder


def _key(python: str, packages: Sequence[str]) -> str:
    facts = json.dumps([_output([python, "-I", "-c", _RUNS_AS]), sorted(packages)])
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(python: str, packages: Sequence[str], folder: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".tmp-{folder.name}-", dir=folder.parent))
    try:
        options = ["--quiet", "--only-binary", ":all:", "--target", str(unfinished)]
        _output([python, "-m", "pip", "install", *options, "--", *packages])
        # The sandbox's commands may run as another user.
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _output(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT,
            umask=0o022,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxUnavailable(
            f"sandbox.packages: `{' '.join(argv)}` did not end in {INSTALL_TIMEOUT:.0f} s"
        ) from error
    if done.returncode != 0:
        raise SandboxUnavailable(
            f"sandbox.packages: `{' '.join(argv)}` failed: {done.stdout.strip()[-SHOWN_OUTPUT:]}\n"
            "Name packages that pip finds as wheels for this interpreter, or use the docker "
            "sandbox with an image that has them"
        )
    return done.stdout
