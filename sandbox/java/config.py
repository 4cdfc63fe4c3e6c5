"""How Java programs are built and run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class JavaConfig(BaseModel):
    """Settings of a sandbox for Java; all are optional."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    java_home: str | None = None
    """The JDK's folder inside the sandbox. None: $JAVA_HOME there, else the JDK of `javac`."""
    maven_options: tuple[str, ...] | None = None
    """Options of every `mvn`. None: offline, and with Debian's repository where the sandbox has
    that one and no other."""
    gradle_options: tuple[str, ...] | None = None
    """Options of every `gradle`, besides `--no-daemon`. None: offline."""
    class_path: tuple[str, ...] = ()
    """Jars and folders, inside the sandbox, for programs without a build file."""
