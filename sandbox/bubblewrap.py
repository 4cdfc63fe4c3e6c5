"""The bubblewrap command line: what a local sandbox sees, its user, limits and seccomp filter.

There are two ways to run unprivileged:

- Started by an ordinary user, the sandbox has its own user namespace, in which it is uid 1000.
- Started by root, processes in a user namespace would remain the host's root for the kernel, which
  exempts root from RLIMIT_NPROC and lets it read root's files. So before the command starts they
  switch to another user: a separate number for each sandbox, above all that systemd and
  distributions hand out, so that process counts are not shared either.

Either way the command has no capabilities, and can't gain any (no_new_privs).

The seccomp filter allows what a Python or Java program, a build or a test needs. It refuses what
has led out of sandboxes: new namespaces and mounts, the host's keyrings, other processes' memory,
typing into terminals, and the large interfaces io_uring, bpf and perf. Containers have their
engine's own filter. It is a program of the classic BPF machine (seccomp(2)), which needs no
library to write.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import random
import resource
import shutil
import socket
import struct
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from sandbox.base import SandboxConfig
from sandbox.environment import HOME, WORKSPACE
from sandbox.errors import SandboxUnavailable

SHARED_MEMORY_BYTES = 256 * 1024 * 1024
ONE_PROCESS = 7 / 8
"""Share of the sandbox's memory that one process may have. A process is refused more while the
sandbox as a whole (`sandbox.guard`) still has enough for the shells and debuggers around
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


OTHER_COPIES = (
    *("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "lib/pypy3*/*-packages"),
    *("local/lib/python3*/site-packages", "local/lib/python3*/dist-packages"),
    *("lib*/python3*/ensurepip/_bundled", "share/python-wheels", "pkgs", "envs"),
)
"""Where an installation of Python keeps packages for others than this interpreter, by glob. One of
them may be the correct version of the code under test."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter of the host and the folders that it needs."""

    executable: str
    prefixes: tuple[str, ...]
    path: tuple[str, ...]
    """The folders from which it imports."""
    installer: str
    """An interpreter of the same version that may run pip on this machine."""


@lru_cache(maxsize=64)
def find_interpreter(python: str) -> Interpreter:
    """Ask an interpreter for its folders. Raises SandboxUnavailable if it can't be run."""
    script = (
        "import sys; print('\\n'.join([sys.executable, sys.prefix, sys.base_prefix, *sys.path]))"
    )
    found = shutil.which(python)
    if found is None:
        raise SandboxUnavailable(f"sandbox.python: there is no program {python!r} on this machine")
    answer = subprocess.run(
        [found, "-I", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if answer.returncode != 0:
        raise SandboxUnavailable(f"sandbox.python: {python!r} does not run: {answer.stderr}")
    executable, prefix, base_prefix, *path = answer.stdout.splitlines()
    # Installations often use links; the folder of the real file is needed too.
    real = Path(executable).resolve().parent.parent
    prefixes = dict.fromkeys([prefix, base_prefix, str(real)])
    return Interpreter(executable, tuple(prefixes), tuple(path), executable)


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
    copies: tuple[str, ...] = ()
    """Files and folders that the sandbox would see and must not: copies of the code under test."""

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
            # Not the workspace, maybe inaccessible (chmod 0): the command should report that.
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
        (self.folder / "empty").touch(0o444)
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
        # After /tmp, which may contain them. Outer folders first, as they would hide inner ones.
        for path in self._readable_paths:
            for parent in [str(p) for p in reversed(Path(path).parents) if str(p) not in made]:
                yield from ("--perms", "0755", "--dir", parent)
                made.add(parent)
            yield from ("--ro-bind", path, path)
            made.add(path)
        for path in [*self._hidden, *filter(os.path.isdir, self.copies)]:
            yield from ("--perms", "0555", "--tmpfs", path, "--remount-ro", path)
        for path in filter(os.path.isfile, self.copies):
            yield from ("--ro-bind", str(self.folder / "empty"), path)
        yield from ("--remount-ro", "/")

    @cached_property
    def _hidden(self) -> list[str]:
        """The outermost folders that the sandbox would see and must not: they may hold a fix."""
        visible = ["/usr", *self._readable_paths]
        places = {str(ANSWERS), str(ANSWERS.resolve())}
        for prefix in ("/usr", *self.interpreter.prefixes):
            for pattern in OTHER_COPIES:
                places.update(glob.glob(f"{prefix}/{pattern}"))
        # `lib64` is often a link to `lib`, and a mount point must not be one.
        places = {place for place in places if os.path.realpath(place) == place}
        places -= {os.path.realpath(folder) for folder in self.interpreter.path}
        places -= set(self.config.readable_paths)
        places.update(filter(os.path.isdir, map(os.path.realpath, self.config.hidden_paths)))
        hidden: list[str] = []
        for place in sorted(places):
            is_visible = any(Path(place).is_relative_to(folder) for folder in visible)
            if is_visible and not any(Path(place).is_relative_to(outer) for outer in hidden):
                hidden.append(place)
        return hidden


DENIED = {
    # New namespaces, in which a program has all capabilities; clone is checked below.
    **{"unshare": (272, 97), "setns": (308, 268)},
    # Mounts.
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41)},
    **{"open_tree": (428, 428), "open_tree_attr": (467, 467), "move_mount": (429, 429)},
    **{"fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432)},
    **{"fspick": (433, 433), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265)},
    # Keyrings belong to a user or a session of the host, not to a namespace.
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    # Other processes.
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271)},
    **{"kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440)},
    # Large kernel interfaces, in which most sandbox escapes were found.
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426)},
    **{"io_uring_register": (427, 427), "bpf": (321, 280), "perf_event_open": (298, 241)},
    **{"userfaultfd": (323, 282)},
    # The whole machine. These need capabilities as well.
    **{"acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "syslog": (103, 116)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105)},
    **{"finit_module": (313, 273), "delete_module": (176, 106), "lookup_dcookie": (212, 18)},
}
"""Refused with EPERM: the system calls' numbers on x86_64 and on aarch64."""
CLONE, CLONE3, IOCTL, SOCKET = (56, 220), (435, 435), (16, 29), (41, 198)

NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET (clone(2))."""
SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Some of the others, such as vsock, reach the host from a separate network namespace."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions (linux/bpf_common.h)."""
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
"""Answers (linux/seccomp.h); REFUSE is added to an errno."""
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
"""Byte offsets in struct seccomp_data."""
X32_BIT = 0x40000000

PR_SET_SECCOMP, FILTER_MODE = 22, 2

Instruction = tuple[int, int, int, int]
"""Code, numbers of instructions to skip if a condition is true and if false, operand."""


MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH_* (linux/audit.h), and the index into the pairs of system call numbers."""


def require_filters() -> None:
    """Raises SandboxUnavailable if there is no filter for this machine or its kernel."""
    filter_program()
    libc = ctypes.CDLL(None, use_errno=True)
    # A kernel with filters answers "bad address" to a missing filter (seccomp(2)).
    libc.prctl(PR_SET_SECCOMP, FILTER_MODE, None)
    if ctypes.get_errno() != errno.EFAULT:
        raise SandboxUnavailable(
            "the local sandbox needs a kernel with seccomp filters (CONFIG_SECCOMP_FILTER), and "
            "this one has none: set sandbox.backend: docker, or use another machine"
        )


@lru_cache
def filter_program(machine: str = os.uname().machine) -> bytes:
    """The filter in the format of bubblewrap's `--seccomp`. Raises SandboxUnavailable."""
    known = MACHINES.get(machine)
    if known is None:
        raise SandboxUnavailable(
            f"the local sandbox knows no system calls of {machine} machines, only those of "
            f"{' and '.join(MACHINES)}: set sandbox.backend: docker"
        )
    audit_name, column = known
    program = [
        # The numbers below are of this machine only; in 32-bit programs they mean other calls.
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, audit_name),
        _answer(KILL),
        (LOAD, 0, 0, NUMBER_AT),
        # x32 programs use other numbers for the same calls, higher than any regular one.
        (AT_LEAST, 0, 1, X32_BIT),
        _answer(REFUSE + errno.ENOSYS),
        # Its flags are in memory, which a filter can't read; ENOSYS makes the C library use clone.
        *_case(CLONE3[column], [_answer(REFUSE + errno.ENOSYS)]),
    ]
    for numbers in DENIED.values():
        program += _case(numbers[column], [_answer(REFUSE + errno.EPERM)])
    clone = [
        _load_argument(0),
        (ANY_BIT, 0, 1, NEW_NAMESPACES),
        _answer(REFUSE + errno.EPERM),
        _answer(ALLOW),
    ]
    typing = [
        _load_argument(1),
        *_case(termios.TIOCSTI, [_answer(REFUSE + errno.EPERM)]),
        *_case(termios.TIOCLINUX, [_answer(REFUSE + errno.EPERM)]),
        _answer(ALLOW),
    ]
    sockets = [_load_argument(0)]
    for family in SOCKET_FAMILIES:
        sockets += _case(family, [_answer(ALLOW)])
    sockets.append(_answer(REFUSE + errno.EAFNOSUPPORT))
    program += _case(CLONE[column], clone)
    program += _case(IOCTL[column], typing)
    program += _case(SOCKET[column], sockets)
    program.append(_answer(ALLOW))
    # Both machines are little-endian.
    return b"".join(struct.pack("<HBBI", *each) for each in program)


def _case(value: int, body: list[Instruction]) -> list[Instruction]:
    """Run the body if the loaded value equals `value`; it must end with an answer."""
    return [(EQUAL, 0, len(body), value), *body]


def _load_argument(index: int) -> Instruction:
    """Load its lower half, all that the kernel reads of flags, families and ioctl numbers."""
    return (LOAD, 0, 0, ARGUMENTS_AT + 8 * index)


def _answer(answer: int) -> Instruction:
    return (RETURN, 0, 0, answer)
