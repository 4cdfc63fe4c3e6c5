"""The small environment that every sandboxed command starts from, whatever the backend."""

from __future__ import annotations

from sandbox.base import Command

WORKSPACE = "/workspace"
HOME = "/tmp/home"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
BASE_ENVIRONMENT = {
    "USER": "sandbox",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONHASHSEED": "0",
    # Byte code is checked by size and second: one edit right after another would be missed.
    "PYTHONDONTWRITEBYTECODE": "1",
}

TIMED_OUT = 124
KILLED = 137


def command_argv(command: Command) -> list[str]:
    """The program and its arguments. Raises ValueError where there is no program."""
    if not command.argv:
        raise ValueError("a command needs at least a program: argv is empty")
    return list(command.argv)
