"""Errors of sandboxes.

SandboxError
├── SandboxUnavailable    the backend is not installed or not allowed here
│   └── EngineDown        the container engine does not answer
├── ImageMissing          the container image is not on this machine
│   ├── PullLimited       the registry's rate limit is reached
│   └── NoRoomForImage    the disk limit leaves no room for it
├── BuildFailure          a build failed for a reason outside the sources
├── SandboxDead           the sandbox went away (killed, engine gone)
│   ├── NotStarted        its engine could not start a command
│   ├── OutOfMemory       it was killed at its memory limit
│   └── DiskExceeded      it was killed at its disk limit
├── SandboxFileError      a path inside the sandbox can't be read or written
│   └── FileTooLarge      a file is larger than its reader accepts
├── CommandRefused        an argument that can't be passed to a program
└── DebuggerError         a debug session could not be driven (see sandbox.debugger)

Errors that end a rollout count as failures of the infrastructure, not of the model, except for
sandboxes that die twice (see `collect.faults`). SandboxFileError and CommandRefused usually end
none, since an agent's tools report them to the model.
"""


class SandboxError(Exception):
    """Base of all errors raised by `sandbox`."""


class SandboxUnavailable(SandboxError):
    """The backend can't be used on this machine; the message says how to fix that."""


class EngineDown(SandboxUnavailable):
    """The container engine does not answer, or answers too late."""


class ImageMissing(SandboxError):
    """The container image is not on this machine; the message says how to get it."""


class PullLimited(ImageMissing):
    """The registry's rate limit is reached; the message quotes the registry."""


class BuildFailure(SandboxError):
    """A build tool reached its time-out, or fails for reasons outside the sources."""


class NoRoomForImage(ImageMissing):
    """The needed images take all of `images.disk_gb`; the message says what to do."""


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
