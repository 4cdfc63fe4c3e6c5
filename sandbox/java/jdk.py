"""Find the JDK inside a sandbox."""

from __future__ import annotations

import re
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from sandbox.base import Command, Sandbox
from sandbox.errors import JavaUnavailable

OLDEST = 8
HINT = (
    "install one (Debian: apt-get install default-jdk-headless) where the sandbox sees it, or "
    "set sandbox.java.java_home to its folder"
)

# Follows links itself, since some readlink has no -f. JDK 8 has a second `java` in `jre/`.
_FIND = r"""
home_of() { p=$(command -v "$1") && p=$(readlink -f "$p") && p=${p%/bin/*} && echo "${p%/jre}"; }
tell() {
    [ -x "$1/bin/java" ] || return 1
    echo "home=$1"
    [ -x "$1/bin/javac" ] && echo "javac=yes"
    [ -f "$1/lib/tools.jar" ] && echo "tools=$1/lib/tools.jar"
    version=$(sed -n 's/^JAVA_VERSION=//p' "$1/release" 2>/dev/null)
    [ -n "$version" ] || version=$("$1/bin/java" -version 2>&1 | sed -n 's/.*version //p')
    echo "version=$version"
}
if [ -n "$1" ]; then tell "$1"; exit; fi
for home in "$JAVA_HOME" "$(home_of javac)" /usr/lib/jvm/default-java /usr/lib/jvm/*; do
    [ -n "$home" ] && [ -x "$home/bin/javac" ] && { tell "$(readlink -f "$home")"; exit; }
done
tell "$(home_of java)"
"""


@dataclass(frozen=True)
class Jdk:
    """One JDK; all paths are absolute and inside the sandbox."""

    home: str
    version: str
    """`17.0.15`, `1.8.0_402`."""
    tools_jar: str | None = None
    """JDK 8 has a separate jar with the debugger interface."""

    @property
    def feature(self) -> int:
        """The 17 of `17.0.15`, the 8 of `1.8.0_402`; 0 if there is none."""
        match = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(match[1]) if match else 0

    @property
    def java(self) -> str:
        return f"{self.home}/bin/java"

    @property
    def javac(self) -> str:
        return f"{self.home}/bin/javac"


_found: WeakKeyDictionary[Sandbox, Jdk] = WeakKeyDictionary()


def find_jdk(sandbox: Sandbox) -> Jdk:
    """The sandbox's JDK, cached. Raises JavaUnavailable, SandboxDead."""
    if sandbox in _found:
        return _found[sandbox]
    wanted = sandbox.config.java.java_home
    result = sandbox.run(Command(["sh", "-c", _FIND, "sh", wanted or ""]))
    told = dict(line.split("=", 1) for line in result.output.splitlines() if "=" in line)
    if "home" not in told:
        place = f"in sandbox.java.java_home ({wanted})" if wanted else "in the sandbox"
        raise JavaUnavailable(f"there is no Java {place}: {HINT}")
    version = next(iter(told.get("version", "").split()), "").strip('"')
    if "javac" not in told:
        raise JavaUnavailable(
            f"{told['home']} is only a Java runtime ({version}), without javac and the debugger's "
            f"interface; a JDK is needed: {HINT}"
        )
    jdk = Jdk(told["home"], version, told.get("tools"))
    if jdk.feature < OLDEST:
        raise JavaUnavailable(f"{jdk.home} is Java {version}; {OLDEST} is the oldest: {HINT}")
    _found[sandbox] = jdk
    return jdk
