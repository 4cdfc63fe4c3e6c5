"""Errors of sandboxes, and of finding, building and running Java tests in them.

Sandbox errors that end a rollout count as failures of the infrastructure, not of the model, except
for sandboxes that die twice (see `collect.rollouts.faults`). SandboxFileError and CommandRefused
usually end none, since an agent's tools report them to the model. Agents get each Java error as an
answer. For a verdict, a build that fails for a reason outside the sources may be the machine's
fault: see `collect.rollouts.rollout`.
"""


class SandboxError(Exception):
    """Base of the errors of sandboxes."""


class SandboxUnavailable(SandboxError):
    """The backend can't be used on this machine; the message says how to fix that."""


class EngineDown(SandboxUnavailable):
    """The container engine does not answer, or answers too late."""


class ImageMissing(SandboxError):
    """The container image is not on this machine; the message says how to get it."""


class PullLimited(ImageMissing):
    """The registry's rate limit is reached; the message quotes the registry."""


class NoRoomForImage(ImageMissing):
    """The needed images take all of `images.disk_gb`; the message says what to do."""


class BuildFailure(SandboxError):
    """A build tool reached its time-out, or fails for reasons outside the sources."""


class SandboxDead(SandboxError):
    """The sandbox no longer runs. Its last output must not be used as an observation."""


class NotStarted(SandboxDead):
    """The engine could not start a command; the message quotes its answer."""


class OutOfMemory(SandboxDead):
    """The whole sandbox was killed at its memory limit."""


class DiskExceeded(SandboxDead):
    """The whole sandbox was killed because its files took more than they may."""


class SandboxFileError(SandboxError):
    """A file in the sandbox could not be read or written; the message names the path."""


class FileTooLarge(SandboxFileError):
    """A file is larger than its reader accepts; the message gives both sizes."""


class CommandRefused(SandboxError):
    """An argument that can't be passed to a program; the message says why."""


class DebuggerError(SandboxError):
    """The debugger itself failed: the probe broke its protocol or could not be launched."""


class JavaError(Exception):
    """Base of the errors of `sandbox.java`; the message says what to do."""


class JavaUnavailable(JavaError):
    """A tool is missing in the sandbox; the message names it and how to get it."""


class BuildFailed(JavaError):
    """The build failed; the message holds the compiler's errors, cut to what matters."""

    def __init__(self, message: str, in_sources: bool = False) -> None:
        super().__init__(message)
        self.in_sources = in_sources
        """Whether the compiler found errors in the sources."""


class BuildTimedOut(BuildFailed):
    """The build did not end in time, maybe because the machine is busy."""


class NoSuchTest(JavaError):
    """Nothing has that name; the message gives the nearest names."""
