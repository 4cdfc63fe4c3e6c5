"""Find the JDK inside a sandbox, of the release that a project is written for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
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
    [ -n "$home" ] && [ -x "$home/bin/javac" ] && tell "$(readlink -f "$home")"
done
tell "$(home_of java)"
"""
NEWEST_FOR = {5: 8, 6: 11, 7: 19}
"""The last JDKs that compile for old releases."""
RUNS_GRADLE = {
    **{11: (5, 0), 12: (5, 4), 13: (6, 0), 14: (6, 3), 15: (6, 7), 16: (7, 0), 17: (7, 3)},
    **{18: (7, 5), 19: (7, 6), 20: (8, 3), 21: (8, 5), 22: (8, 8), 23: (8, 10), 24: (8, 14)},
    25: (9, 1),
}
"""The first Gradle that each JDK runs."""


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
    """The sandbox's JDK, cached: the first one, or if that does not compile for the config's
    release the oldest that does. Raises JavaUnavailable, SandboxDead."""
    if sandbox in _found:
        return _found[sandbox]
    wanted = sandbox.config.java.java_home
    result = sandbox.run(Command(["sh", "-c", _FIND, "sh", wanted or ""]))
    found = [dict(line.split("=", 1) for line in part) for part in _parts(result.output)]
    if not found:
        place = f"in sandbox.java.java_home ({wanted})" if wanted else "in the sandbox"
        raise JavaUnavailable(f"there is no Java {place}: {HINT}")
    if "javac" not in found[0]:
        raise JavaUnavailable(
            f"{found[0]['home']} is only a Java runtime ({_version(found[0])}), without javac and "
            f"the debugger's interface; a JDK is needed: {HINT}"
        )
    jdks = [
        Jdk(told["home"], _version(told), told.get("tools")) for told in found if "javac" in told
    ]
    java = sandbox.config.java
    jdk = choose_jdk(jdks, java.release, java.gradle_home or "")
    if jdk.feature < OLDEST:
        raise JavaUnavailable(f"{jdk.home} is Java {jdk.version}; {OLDEST} is the oldest: {HINT}")
    _found[sandbox] = jdk
    return jdk


def choose_jdk(jdks: Sequence[Jdk], release: int | None, gradle: str = "") -> Jdk:
    """The first JDK if it compiles for a release, else the oldest that does, else the first. Those
    that run the Gradle in a folder named after its version come before the others."""
    newest = newest_for_gradle(gradle)
    running = [jdk for jdk in jdks if jdk.feature <= newest]
    for among in (running, jdks):
        fitting = [jdk for jdk in among if _compiles(jdk, release)]
        if fitting:
            first = fitting[0]
            return first if first is among[0] else min(fitting, key=lambda jdk: jdk.feature)
    return (running or jdks)[0]


def newest_for_gradle(folder: str) -> float:
    """The newest JDK that runs the Gradle in a folder such as `gradle-8.5`; no limit if unknown."""
    match = re.search(r"gradle-(\d{1,4})\.(\d{1,4})[^/]*/*$", folder)
    if match is None:
        return math.inf
    version = int(match[1]), int(match[2])
    if version >= max(RUNS_GRADLE.values()):
        return math.inf
    return max((jdk for jdk, first in RUNS_GRADLE.items() if first <= version), default=10)


def why_not_compiled(jdk: Jdk, release: int | None) -> str:
    """Why a project of a release does not compile; empty if it is not for its JDK."""
    if release is None or _compiles(jdk, release):
        return ""
    newest = NEWEST_FOR.get(release)
    wanted = f"{release} or later" if newest is None else f"{newest} or earlier"
    return (
        f"the project is written for Java {release}, and the JDK here, {jdk.home} "
        f"({jdk.version}), does not compile for it: install JDK {wanted} where the sandbox sees "
        "it, or set sandbox.java.java_home to its folder"
    )


def _compiles(jdk: Jdk, release: int | None) -> bool:
    return release is None or release <= jdk.feature <= NEWEST_FOR.get(release, jdk.feature)


def _parts(output: str) -> Iterator[list[str]]:
    """The lines about each Java."""
    part: list[str] = []
    for line in output.splitlines():
        if line.startswith("home=") and part:
            yield part
            part = []
        if "=" in line:
            part.append(line)
    if part:
        yield part


def _version(told: Mapping[str, str]) -> str:
    return next(iter(told.get("version", "").split()), "").strip('"')


_MAVEN = re.compile(
    r"<(?:maven\.compiler\.(?:release|source|target)|release|source|target"
    r"|[\w.-]{0,40}(?:[jJ]ava|[jJ]dk)[\w.-]{0,40})>\s*+"
    r"(?:1\.)?(\d{1,2})\s*+</"
)
_GRADLE = re.compile(
    r"(?:JavaLanguageVersion\.of\(|VERSION_(?:1_)?|\brelease(?:\.set\(|\s*+=\s*+)"
    r"|(?:source|target)Compatibility\s*+=?\s*+['\"]?(?:1\.)?)(\d{1,2})\b"
)


def release_of(files: Mapping[str, bytes]) -> int | None:
    """The Java release that a project's build files name, the newest of its modules'; None if they
    name none. Profiles of Maven do not count: most are for other JDKs."""
    releases: list[str] = []
    for path, data in files.items():
        *folders, name = path.split("/")
        if "src" in folders:
            continue
        text = data.decode("utf-8", "replace")
        if name == "pom.xml":
            before, _, rest = text.partition("<profiles>")
            releases += _MAVEN.findall(before + rest.rpartition("</profiles>")[2])
        elif name.endswith((".gradle", ".gradle.kts")):
            releases += _GRADLE.findall(text)
    return max(map(int, releases), default=None)
