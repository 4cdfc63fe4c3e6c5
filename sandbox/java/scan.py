"""What lies in a Java workspace, and what has changed there: one quick look inside the sandbox."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandbox.base import Sandbox
from sandbox.java.errors import JavaError
from sandbox.shell import capture

BUILD_FILES = (
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
)
GRADLE_FILES = BUILD_FILES[1:5]
SETTINGS_FILES = ("settings.gradle", "settings.gradle.kts")
OUTPUT_FOLDERS = ("target", "build", "out", "bin")
SCAN_TIMEOUT = 60.0

# The folders that build tools write to are left out, but not packages of those names. A file's
# change of status (%z) can't be set back, as the time of its content can.
_SCAN = r"""
list=$0/scan-$$
built=$(find . -maxdepth 3 \( -name pom.xml -o -name "*.gradle" -o -name "*.gradle.kts" \) |
    head -n 1)
find . -type d \( -name .git -o -name .gradle -o -name .idea -o -name node_modules \
        -o -name __pycache__ \) -prune -o \
    -type d ${built:+\( -name target -o -name build -o -name out -o -name bin \)
        ! -path "*/src/*" -prune -o -type d} -o \
    -type f ! -name "*.class" ! -name "*.pyc" -exec stat -c "%n|%s|%y|%z" {} + >"$list"
known=$1; shift
digest() { found=$(sha256sum); echo "${found%% *}"; }
IFS="
"
set -f
for roots; do
    find $roots -name "*.class" -exec stat -c "%n|%s|%z" {} + 2>/dev/null | sort | digest
done
found=$(digest <"$list")
echo "$found"
[ "$found" = "$known" ] || cat "$list"
rm -f "$list"
"""


@dataclass(frozen=True)
class Scan:
    """The files of a workspace, build outputs left out, by path relative to it."""

    stamps: Mapping[str, str] = field(default_factory=dict)
    """Size and times of each."""
    digest: str = ""
    """Of all stamps."""
    outputs: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """A digest of the classes, by the folders that were asked for."""

    @property
    def sources(self) -> list[str]:
        """The Java sources."""
        return [path for path in self.stamps if path.endswith(".java")]

    def has(self, path: str) -> bool:
        return path in self.stamps

    def changed(self, earlier: Scan) -> set[str]:
        """What was added, removed or changed since."""
        return {
            path
            for path in {*self.stamps, *earlier.stamps}
            if self.stamps.get(path) != earlier.stamps.get(path)
        }


def scan_workspace(
    sandbox: Sandbox, last: Scan | None = None, outputs: Sequence[tuple[str, ...]] = ()
) -> Scan:
    """Look at all files, and at the classes in some output folders.

    Where nothing has changed since the `last` look its list is spared. Raises JavaError where it
    takes too long, SandboxError.
    """
    known = last.digest if last is not None else ""
    arguments = [known, *("\n".join(roots) for roots in outputs)]
    found = capture(sandbox, _SCAN, *arguments, cwd=sandbox.workspace, timeout=SCAN_TIMEOUT)
    if found.timed_out:
        raise JavaError(f"listing the workspace's files took more than {SCAN_TIMEOUT:g} s")
    lines = found.output.splitlines()
    if len(lines) <= len(outputs):
        raise JavaError(f"can't list the workspace's files: {found.output.strip()}")
    classes = dict(zip(outputs, lines, strict=False))
    digest = lines[len(outputs)]
    if last is not None and digest == known:
        return replace(last, outputs=classes)
    return Scan(_stamps(lines[len(outputs) + 1 :]), digest, classes)


def _stamps(lines: Sequence[str]) -> dict[str, str]:
    stamps = {}
    for line in lines:
        path, bar, stamp = line.removeprefix("./").partition("|")
        if bar:
            stamps[posixpath.normpath(path)] = stamp
    return dict(sorted(stamps.items()))


def is_build_file(path: str) -> bool:
    """Whether a file tells a build tool what to do."""
    name = posixpath.basename(path)
    folder = posixpath.dirname(path)
    return (
        name in BUILD_FILES
        or name.endswith((".gradle", ".gradle.kts", ".jar", ".versions.toml"))
        or ".mvn" in folder.split("/")
        or folder.split("/")[0] == "buildSrc"
    )
