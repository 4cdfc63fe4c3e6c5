"""The bubblewrap command line: what a local sandbox sees, its user, and its limits.

There are two ways to run unprivileged:

- Started by an ordinary user, the sandbox has its own user namespace, in which it is uid 1000.
- Started by root, processes in a user namespace would remain the host's root for the kernel, which
  exempts root from RLIMIT_NPROC and lets it read root's files. So before the command starts they
  switch to another user: a separate number for each sandbox, above all that systemd and
  distributions hand out, so that process counts are not shared either.

Either way the command has no capabilities, and can't gain any (no_new_privs).
"""

from __future__ import annotations

import glob
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sandbox.base import SandboxConfig
from sandbox.environment import HOME, WORKSPACE
from sandbox.errors import SandboxUnavailable

SHARED_MEMORY_BYTES = 256 * 1024 * 1024
ONE_PROCESS = 7 / 8
"""Share of the sandbox's memory that one process may have. A process is refused more while the
sandbox as a whole (`sandbox.memory`) still has enough for the shells and debuggers around
it."""
USER_NAMESPACE_UID = 1000
OWN_UIDS = range(1_879_048_192, 2_147_483_646)
"""Not allocated by systemd (systemd.io/UIDS-GIDS)."""

SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/localtime", "/etc/timezone"),
    *("/etc/mime.types", "/etc/java*", "/etc/maven", "/etc/gradle"),
)

ANSWERS = Path(__file__).parents[1] / "collect"
"""StepInto's folder of bundled bugs with their gold patches. Installed from a wheel it lies in the
interpreter's folders, which the sandbox sees."""

INSTALL_HINT = (
    "the local sandbox needs bubblewrap (bwrap): install it (apt-get install bubblewrap), set "
    "sandbox.backend: docker, or set sandbox.unsafe: true to run model-chosen commands "
    "unsandboxed, with your own rights"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter of the host and the folders that it needs."""

    executable: str
    prefixes: tuple[str, ...]


@lru_cache(maxsize=64)
def find_interpreter(python: str) -> Interpreter:
    """Ask an interpreter for its folders. Raises SandboxUnavailable if it can't be run."""
    script = "import sys; print('\\n'.join([sys.executable, sys.prefix, sys.base_prefix]))"
    found = shutil.which(python)
    if found is None:
        raise SandboxUnavailable(f"sandbox.python: there is no program {python!r} on this machine")
    answer = subprocess.run(
        [found, "-I", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if answer.returncode != 0:
        raise SandboxUnavailable(f"sandbox.python: {python!r} does not run: {answer.stderr}")
    executable, *prefixes = answer.stdout.splitlines()
    # Installations often use links; the folder of the real file is needed too.
    real = Path(executable).resolve().parent.parent
    return Interpreter(executable, tuple(dict.fromkeys([*prefixes, str(real)])))


def choose_uid() -> int:
    """The host uid of a sandbox's processes: a new one if root runs StepInto, else the user's."""
    return random.SystemRandom().choice(OWN_UIDS) if os.geteuid() == 0 else os.geteuid()


def limit_arguments(config: SandboxConfig) -> list[str]:
    """The `prlimit` command that limits the command after it.

    RLIMIT_DATA limits each process's private writable memory. RLIMIT_AS would not do, since a JVM
    reserves address space that it never touches. RLIMIT_NPROC counts threads too.
    """
    limits = {
        "data": int(config.memory_mb * 1024 * 1024 * ONE_PROCESS),
        "nproc": config.pids,
        "nofile": min(config.open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "fsize": config.file_size_mb * 1024 * 1024,
        "core": 0,
    }
    return ["prlimit", *(f"--{name}={value}" for name, value in limits.items()), "--"]


@dataclass(frozen=True)
class Bubblewrap:
    """Builds the command lines of one sandbox."""

    config: SandboxConfig
    interpreter: Interpreter
    folder: Path
    """Host folder with `workspace`, `tmp` and `etc`."""
    uid: int
    program: str
    """Absolute host path of bwrap."""

    def arguments(self, status_fd: int, filter_fd: int, read_only: bool) -> list[str]:
        """All arguments before the sandboxed command."""
        user = ["--unshare-user", "--uid", str(USER_NAMESPACE_UID)]
        user += ["--gid", str(USER_NAMESPACE_UID)]
        switch: list[str] = []
        if self._as_root:
            capabilities = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
            user = [word for name in capabilities for word in ("--cap-add", name)]
            switch = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid)]
            switch += ["--clear-groups", "--no-new-privs", "--bounding-set=-all"]
            switch += ["--inh-caps=-all", "--ambient-caps=-all", "--"]
        return [
            self.program,
            *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", "--hostname", "sandbox"),
            *("--cap-drop", "ALL", "--clearenv", *user),
            # Without it, process 1 inside keeps the terminal that StepInto was started from. An
            # ordinary user's program has the same user, so it could take over that process and type
            # into the terminal; and its signals to a group would reach bubblewrap.
            "--new-session",
            *self._system(),
            *self._mounts(read_only),
            *("--seccomp", str(filter_fd), "--json-status-fd", str(status_fd)),
            # Not the workspace, which a program may have made inaccessible (chmod 0); the command
            # should report that, not bubblewrap.
            *("--chdir", "/", "--"),
            *switch,
            *limit_arguments(self.config),
        ]

    def prepare(self) -> None:
        """Create the sandbox's folders on the host, and its own /etc."""
        group = f"sandbox:x:{self._seen_uid}:\nnogroup:x:65534:\n"
        user = f"sandbox:x:{self._seen_uid}:{self._seen_uid}:sandbox:{HOME}:/bin/bash\n"
        etc = {
            "passwd": f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n{user}",
            "group": f"root:x:0:\n{group}",
            "hosts": "127.0.0.1 localhost\n::1 localhost\n",
            "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        }
        for name in ("workspace", "tmp", "tmp/home"):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o755)
            os.chown(self.folder / name, self.uid, self.uid if self._as_root else -1)
        for path in self._readable_paths:
            if not os.path.isdir(path):
                raise SandboxUnavailable(f"the sandbox can't read {path}: there is no such folder")
            wanted = 0o005 if self._as_root else 0
            if os.stat(path).st_mode & wanted != wanted or not os.access(path, os.R_OK | os.X_OK):
                raise SandboxUnavailable(
                    f"the sandbox can't read {path}, because its commands run as another user: "
                    f"allow that with `chmod -R o+rX {path}`, or use an interpreter installed "
                    "elsewhere"
                )
        # Mount points that bubblewrap could not create in a workspace mounted read-only.
        for path in self._among_its_files():
            (self.folder / path[1:]).mkdir(parents=True, exist_ok=True)
        (self.folder / "etc").mkdir()
        for name, text in etc.items():
            (self.folder / "etc" / name).write_text(text)
            (self.folder / "etc" / name).chmod(0o644)

    @property
    def _readable_paths(self) -> list[str]:
        paths = {*self.interpreter.prefixes, *self.config.readable_paths}
        return sorted(path for path in paths if path != "/usr" and not path.startswith("/usr/"))

    def _among_its_files(self) -> list[str]:
        """The readable paths in the workspace and /tmp, each after its parent folders."""
        found: dict[str, None] = {}
        for path in self._readable_paths:
            if path.startswith((f"{WORKSPACE}/", "/tmp/")):
                outer = [str(parent) for parent in reversed(Path(path).parents[:-2])]
                found |= dict.fromkeys([*outer, path])
        return list(found)

    @property
    def _as_root(self) -> bool:
        return os.geteuid() == 0

    @property
    def _seen_uid(self) -> int:
        return self.uid if self._as_root else USER_NAMESPACE_UID

    def _system(self) -> Iterator[str]:
        yield from ("--ro-bind", "/usr", "/usr")
        for path in SYSTEM_FOLDERS:
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.isdir(path):
                yield from ("--ro-bind", path, path)
        # As root, bwrap creates folders that are not listed for root only.
        for folder in ("/etc", "/etc/ssl"):
            yield from ("--perms", "0755", "--dir", folder)
        for path in sorted(path for pattern in SYSTEM_FILES for path in glob.glob(pattern)):
            yield from ("--ro-bind", path, path)
        for name in ("passwd", "group", "hosts", "nsswitch.conf"):
            yield from ("--ro-bind", str(self.folder / "etc" / name), f"/etc/{name}")
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--size", str(SHARED_MEMORY_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm")
        yield from ("--remount-ro", "/dev")

    def _mounts(self, read_only: bool) -> Iterator[str]:
        bind = "--ro-bind" if read_only else "--bind"
        yield from (bind, str(self.folder / "workspace"), WORKSPACE)
        yield from ("--bind", str(self.folder / "tmp"), "/tmp")
        # Each parent folder of a mount is a mount too, so that no program can move it: bubblewrap
        # would follow a link in its place, with root's rights and out of the sandbox.
        for path in self._among_its_files():
            bind_here = bind if path.startswith(WORKSPACE) else "--bind"
            yield from (bind_here, str(self.folder / path[1:]), path)
        made = {"/", "/usr", "/etc", "/tmp"}
        # After /tmp, which may contain them. Outer folders first, so that none is mounted over an
        # inner one.
        for path in self._readable_paths:
            for parent in [str(p) for p in reversed(Path(path).parents) if str(p) not in made]:
                yield from ("--perms", "0755", "--dir", parent)
                made.add(parent)
            yield from ("--ro-bind", path, path)
            made.add(path)
        for path in sorted({str(ANSWERS), str(ANSWERS.resolve())}):
            if any(Path(path).is_relative_to(seen) for seen in ["/usr", *self._readable_paths]):
                yield from ("--perms", "0555", "--tmpfs", path, "--remount-ro", path)
        yield from ("--remount-ro", "/")
