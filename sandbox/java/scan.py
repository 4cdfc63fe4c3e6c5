"""Scan a Java workspace for files and changes, in one command inside the sandbox."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandbox.base import Sandbox
from sandbox.errors import JavaError
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

# Leaves out the folders that build tools write to, but not packages of those names. Unlike the
# modification time, a file's change time (%z) can't be set back.
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
    """The files of a workspace without build outputs, by path relative to it."""

    stamps: Mapping[str, str] = field(default_factory=dict)
    """Size and times of each file."""
    digest: str = ""
    """Digest of all stamps."""
    outputs: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """A digest of the classes for each requested tuple of folders."""

    @property
    def sources(self) -> list[str]:
        return [path for path in self.stamps if path.endswith(".java")]

    def has(self, path: str) -> bool:
        return path in self.stamps

    def changed(self, earlier: Scan) -> set[str]:
        """Files added, removed or changed since an earlier scan."""
        return {
            path
            for path in {*self.stamps, *earlier.stamps}
            if self.stamps.get(path) != earlier.stamps.get(path)
        }


def scan_workspace(
    sandbox: Sandbox, last: Scan | None = None, outputs: Sequence[tuple[str, ...]] = ()
) -> Scan:
    """Scan all files, and the classes in some output folders.

    If nothing has changed since the `last` scan, its list is reused. Raises JavaError if it takes
    too long, or SandboxError.
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
    stamps = {}
    for line in lines[len(outputs) + 1 :]:
        path, bar, stamp = line.removeprefix("./").partition("|")
        if bar:
            stamps[posixpath.normpath(path)] = stamp
    return Scan(dict(sorted(stamps.items())), digest, classes)


def is_build_file(path: str) -> bool:
    name = posixpath.basename(path)
    folder = posixpath.dirname(path)
    return (
        name in BUILD_FILES
        or name.endswith((".gradle", ".gradle.kts", ".jar", ".versions.toml"))
        or ".mvn" in folder.split("/")
        or folder.split("/")[0] == "buildSrc"
    )
