"""The small environment of every sandboxed command, in all backends."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from sandbox.base import Command, SandboxConfig
from sandbox.errors import CommandRefused

WORKSPACE = "/workspace"
HOME = "/tmp/home"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
BASE_ENVIRONMENT = {
    "USER": "sandbox",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONHASHSEED": "0",
    # Byte code is invalidated by size and second, so it would miss a second edit within one second.
    "PYTHONDONTWRITEBYTECODE": "1",
}

TIMED_OUT = 124
KILLED = 137

KEPT_ON_HOST = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TMPDIR", "XDG_*", "LD_LIBRARY_PATH"),
    *("*_proxy", "*_PROXY", "SSL_CERT_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"),
)
"""Variables that a program needs to run on this machine as its user, and to reach the network."""
MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""The limit for one argument, set by Linux (execve(2), MAX_ARG_STRLEN)."""


def cache_folder() -> Path:
    """StepInto's cache: `$XDG_CACHE_HOME`, else `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser().absolute() / "stepinto"


def host_environment(more: Sequence[str] = ()) -> dict[str, str]:
    """The environment for a program outside the sandbox that processes untrusted files: only this
    process's variables with these names (globs) and those of KEPT_ON_HOST, so no API keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in (*KEPT_ON_HOST, *more))
    }


def configured_environment(
    config: SandboxConfig, workspace: str, packages: str | None = None
) -> dict[str, str]:
    """The variables that a sandbox's config sets; `packages` is the folder of its packages."""
    paths = [posixpath.join(workspace, path) for path in config.import_paths]
    paths += [folder for folder in (config.own_metadata, packages) if folder]
    return {**({"PYTHONPATH": ":".join(paths)} if paths else {}), **config.environment}


def command_argv(command: Command) -> list[str]:
    """The program and its arguments. Raises CommandRefused; ValueError without a program."""
    if not command.argv:
        raise ValueError("a command needs at least a program: argv is empty")
    require_arguments(command.argv)
    return list(command.argv)


def variable_arguments(variables: Mapping[str, str]) -> list[str]:
    """Variables as `env` takes them. Raises CommandRefused."""
    arguments = [f"{name}={value}" for name, value in variables.items()]
    require_arguments(arguments, "a variable")
    return arguments


def require_arguments(arguments: Iterable[str], kind: str = "an argument") -> None:
    """Raises CommandRefused."""
    for argument in arguments:
        try:
            size = len(os.fsencode(argument))
        except UnicodeEncodeError as error:
            raise CommandRefused(f"{kind} of a command is no text: {error}") from error
        if "\0" in argument:
            raise CommandRefused(f"{kind} of a command holds a NUL character: leave it out")
        if size > MAX_ARGUMENT_BYTES:
            raise CommandRefused(
                f"{kind} of a command has {size} bytes, more than the {MAX_ARGUMENT_BYTES} "
                "that a program can be given: write long text to a file first"
            )


def install_command(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, from a checkout or beside the installed
    package, whose own metadata names what the extra needs: no index has StepInto."""
    if not (Path(__file__).parents[1] / "pyproject.toml").is_file():
        return f"pip install 'stepinto[{extra}]'"
    # vLLM and verifiers require other versions than those StepInto is tested with.
    constraints = "" if extra in ("serve", "grpo", "verifiers") else "-c constraints.txt "
    return f"pip install {constraints}-e '.[{extra}]' in StepInto's checkout"
