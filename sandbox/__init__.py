"""Where untrusted code runs: sandboxes, and the debuggers inside them."""

from sandbox.base import Command, CommandResult, Sandbox, SandboxConfig, Terminal
from sandbox.opening import open_sandbox

__all__ = ["Command", "CommandResult", "Sandbox", "SandboxConfig", "Terminal", "open_sandbox"]
