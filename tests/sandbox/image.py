"""The container images of the tests, made from this machine's own files: no registry is asked.

`python -m tests.sandbox.image` makes the one with Python where it is missing, and prints its tag;
with `java` the one that has a JDK and JUnit too.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

TAG = "stepinto-test-python:3.11-2"
JAVA_TAG = "stepinto-test-java:17-1"
GIT_TAG = "stepinto-test-git:1"
"""Change their ends with the images' content: an image of such a tag is used as it is."""
PACKAGES = [
    "bash",
    "dash",
    "coreutils",
    "findutils",
    "grep",
    "sed",
    "mawk",
    "tar",
    "gzip",
    "diffutils",
    "patch",
    "procps",
    "util-linux",
    "debianutils",
    "base-files",
    "hostname",
    "libc-bin",
    "python3",
    "python3-minimal",
    "python3.11",
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "media-types",
    "tzdata",
]
JAVA_PACKAGES = [
    "openjdk-17-jre-headless",
    "openjdk-17-jdk-headless",
    "junit4",
    "junit5",
    "libhamcrest-java",
    "libopentest4j-java",
    "libapiguardian-java",
    "libunivocity-parsers-java",
    "libpicocli-java",
]
JAVA_PROGRAMS = ("java", "javac", "jdb")
DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
DIST_PACKAGES = "usr/lib/python3/dist-packages"
MERGED_FOLDERS = ("bin", "sbin", "lib", "lib64")


def ensure_image() -> str:
    """The tag of the test image, made if the engine does not have it."""
    return _ensure(TAG, PACKAGES)


def ensure_java_image() -> str:
    """The tag of the image with a JDK as well."""
    return _ensure(JAVA_TAG, [*PACKAGES, *JAVA_PACKAGES])


def ensure_git_image() -> str:
    """The tag of the image with git as well."""
    return _ensure(GIT_TAG, [*PACKAGES, "git"])


def _ensure(tag: str, packages: list[str]) -> str:
    import docker

    client = docker.from_env(timeout=300)
    try:
        if not client.images.list(name=tag):
            repository, _, version = tag.partition(":")
            data = _filesystem(packages)
            client.api.import_image_from_data(data, repository=repository, tag=version)
        return tag
    finally:
        client.close()


def _filesystem(packages: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        _add_skeleton(archive)
        sources = {_merged(path): path for path in sorted(_package_files(packages))}
        for path, source in sources.items():
            archive.add(source, arcname=path, recursive=False)
        for name in DISTRIBUTIONS:
            _add_distribution(archive, name)
        for program in JAVA_PROGRAMS if "openjdk-17-jdk-headless" in packages else ():
            _add_link(archive, f"usr/bin/{program}", os.path.realpath(f"/usr/bin/{program}"))
    return buffer.getvalue()


def _add_skeleton(archive: tarfile.TarFile) -> None:
    for name in ("usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "var", "run", "proc"):
        _add_folder(archive, name, 0o755)
    for name in ("sys", "dev", "root"):
        _add_folder(archive, name, 0o755)
    _add_folder(archive, "tmp", 0o1777)
    links = {name: f"usr/{name}" for name in MERGED_FOLDERS} | {"usr/bin/python": "python3"}
    for name, target in links.items():
        _add_link(archive, name, target)
    _add_file(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n")
    _add_file(archive, "etc/group", b"root:x:0:\n")


def _package_files(packages: list[str]) -> set[str]:
    """Files of the packages, and the shared libraries that their programs load."""
    listed = subprocess.run(
        ["dpkg", "-L", *_installed(packages)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    unwanted = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale")
    files = {
        path
        for path in listed
        if (os.path.islink(path) or os.path.isfile(path))
        and path.lstrip("/") not in MERGED_FOLDERS
        and not path.startswith(unwanted)
    }
    programs = [path for path in files if "/bin/" in path or ".so" in path]
    libraries: set[str] = set()
    for line in _ldd(programs).splitlines():
        libraries |= {word for word in line.split() if word.startswith("/") and ".so" in word}
    for library in {path.rstrip(":") for path in libraries}:
        files.add(os.path.normpath(library))
        files.add(os.path.realpath(library))
    return {path for path in files if os.path.lexists(path)}


def _installed(packages: list[str]) -> list[str]:
    query = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return [line.split()[0] for line in query.splitlines() if line.endswith(" installed")]


def _ldd(programs: list[str]) -> str:
    return subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout


def _merged(path: str) -> str:
    """The path in the image, with /bin, /lib and so on under /usr as Debian merged them."""
    first = path.split("/")[1]
    return f"usr{path}" if first in MERGED_FOLDERS else path.lstrip("/")


def _add_distribution(archive: tarfile.TarFile, name: str) -> None:
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and source.suffix != ".pyc" and source.is_file():
            archive.add(source, arcname=f"{DIST_PACKAGES}/{file}", filter=_readable)


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode |= 0o444
    return entry


def _add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, mode
    archive.addfile(folder)


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    archive.addfile(link)


def _add_file(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    file = tarfile.TarInfo(name)
    file.size = len(data)
    archive.addfile(file, io.BytesIO(data))


def engine_error() -> str | None:
    """Why no container engine can be used here; None where one answers."""
    from sandbox.engine import connect
    from sandbox.errors import SandboxUnavailable

    try:
        client: Any = connect()
    except SandboxUnavailable as error:
        return str(error)
    client.close()
    return None


if __name__ == "__main__":
    print(ensure_java_image() if sys.argv[1:] == ["java"] else ensure_image())
