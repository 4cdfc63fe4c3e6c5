"""What can go wrong between a Java test's name and its running.

JavaError
├── JavaUnavailable    the sandbox has no JDK, or not the build tool that the project needs
├── BuildFailed        the program does not compile, or its build tool gives up
│   └── BuildTimedOut  the build tool was still at it when its time was up
└── NoSuchTest         the name is no test's and no main class's

To an agent, each is an answer. For a verdict, a build that fails for another reason than the
sources may be the machine's fault: see `collect.scoring`.
"""


class JavaError(Exception):
    """Base of the errors raised by `sandbox.java`; the message says what to do."""


class JavaUnavailable(JavaError):
    """A tool is missing in the sandbox; the message names it and how to get it."""


class BuildFailed(JavaError):
    """The build failed; the message holds the compiler's errors, cut to what matters."""

    def __init__(self, message: str, in_sources: bool = False) -> None:
        super().__init__(message)
        self.in_sources = in_sources
        """Whether the compiler found errors in the sources."""


class BuildTimedOut(BuildFailed):
    """The build did not end in its time, which a busy machine's may not either."""


class NoSuchTest(JavaError):
    """Nothing of that name; the message gives the nearest names."""
