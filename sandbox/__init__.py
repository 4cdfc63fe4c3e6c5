"""Where untrusted code runs: sandboxes, and the debuggers inside them."""

from sandbox.base import (
    Command,
    CommandResult,
    ImageWorkspace,
    Sandbox,
    SandboxConfig,
    clean_up,
    open_sandbox,
)
from sandbox.terminal import Terminal

__all__ = [
    "Command",
    "CommandResult",
    "ImageWorkspace",
    "Sandbox",
    "SandboxConfig",
    "Terminal",
    "clean_up",
    "open_sandbox",
]
