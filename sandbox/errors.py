"""What can go wrong between StepInto and a sandbox.

SandboxError
├── SandboxUnavailable    the backend is not installed or not allowed here
│   └── EngineDown        the container engine does not answer
├── ImageMissing          the container image is not on this machine
│   ├── PullLimited       the registry gives out no more for now
│   └── NoRoomForImage    the limit on disk leaves no room for it
├── BuildFailure          a build came to nothing for a reason outside the sources
├── SandboxDead           the sandbox went away (killed, engine gone)
│   ├── NotStarted        its engine could not start a command
│   ├── OutOfMemory       it was killed at its memory limit
│   └── DiskExceeded      it was killed for what its files took
├── SandboxFileError      a path inside the sandbox can't be read or written
│   └── FileTooLarge      a file has more bytes than its reader takes
├── CommandRefused        an argument that no program can be given
└── DebuggerError         a debug session could not be driven (see sandbox.debugger)

What ends a rollout is a failure of the infrastructure, and not of the model but for what
`collect.faults` says of a sandbox that dies twice. SandboxFileError and CommandRefused mostly
end none: an agent's tools answer them to the model.
"""


class SandboxError(Exception):
    """Base of every error raised by `sandbox`."""


class SandboxUnavailable(SandboxError):
    """The backend can't be used on this machine; the message says how to fix that."""


class EngineDown(SandboxUnavailable):
    """The container engine does not answer, or too late."""


class ImageMissing(SandboxError):
    """The container image is not on this machine; the message names it and how to get it."""


class PullLimited(ImageMissing):
    """The registry gives out no more images for now; the message says what it said."""


class BuildFailure(SandboxError):
    """A build tool was still at it at its time-out, or fails whatever the sources are."""


class NoRoomForImage(ImageMissing):
    """Images that are needed take all of `images.disk_gb`; the message says what to do."""


class SandboxDead(SandboxError):
    """The sandbox no longer runs. What it printed last must not be read as an observation."""


class NotStarted(SandboxDead):
    """The engine could not start a command; the message says what it answered."""


class OutOfMemory(SandboxDead):
    """The whole sandbox was killed at its memory limit."""


class DiskExceeded(SandboxDead):
    """The whole sandbox was killed: its files took more than they may."""


class SandboxFileError(SandboxError):
    """A file in the sandbox could not be read or written; the message names the path."""


class FileTooLarge(SandboxFileError):
    """A file has more bytes than its reader takes; the message says how many both are."""


class CommandRefused(SandboxError):
    """An argument of a command that no program can be given; the message says why."""


class DebuggerError(SandboxError):
    """The debugger itself failed: the probe broke its protocol or could not be launched."""
