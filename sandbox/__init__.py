"""Where untrusted code runs: sandboxes, and the debuggers inside them."""

from sandbox.base import (
    Command,
    CommandResult,
    ImageWorkspace,
    Sandbox,
    SandboxConfig,
    Terminal,
)
from sandbox.opening import clean_up, open_sandbox

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
