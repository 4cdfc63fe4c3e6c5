"""Errors of finding, building and running a Java test.

JavaError
├── JavaUnavailable    the sandbox has no JDK, or not the build tool that the project needs
├── BuildFailed        the program does not compile, or its build tool fails
│   └── BuildTimedOut  the build tool reached its time-out
└── NoSuchTest         nothing has that name

Agents get each of them as an answer. For a verdict, a build that fails for a reason outside the
sources may be the machine's fault: see `collect.scoring`.
"""


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
