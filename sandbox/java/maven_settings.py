"""The Maven repositories that the user has: of the setting, or of their `~/.m2/settings.xml`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from sandbox.errors import SandboxUnavailable
from sandbox.java.artifacts import Repository

CENTRAL = "https://repo.maven.apache.org/maven2"
GRADLE_PLUGINS = "https://plugins.gradle.org/m2"
GRADLE_DISTRIBUTIONS = "https://services.gradle.org/distributions"
VARIABLE = re.compile(r"\$\{env\.(\w+)\}")
CENTRAL_IDS = ("central", "*", "external:*")
"""What a mirror of Maven Central says that it mirrors."""


@dataclass(frozen=True)
class MavenSettings:
    """What a `settings.xml` says of repositories."""

    offline: bool = False
    mirror: str | None = None
    """The address that is asked in the place of Maven Central."""
    credentials: tuple[tuple[str, tuple[str, str]], ...] = ()
    """User and password by the address that they are for."""

    def defaults(self, with_gradle: bool) -> tuple[str, ...]:
        """The addresses of repositories if StepInto has no setting."""
        if self.offline:
            return ()
        return (self.mirror or CENTRAL, *((GRADLE_PLUGINS,) if with_gradle else ()))


def user_settings() -> MavenSettings:
    """The user's own settings. Raises SandboxUnavailable if they can't be read."""
    file = Path("~/.m2/settings.xml").expanduser()
    try:
        return read_settings(file.read_bytes()) if file.exists() else MavenSettings()
    except (OSError, ElementTree.ParseError) as error:
        raise SandboxUnavailable(
            f"{file} can't be read ({error}): correct it, or set sandbox.java.repositories"
        ) from error


def read_settings(data: bytes) -> MavenSettings:
    """Raises ParseError if it is no XML."""
    root = ElementTree.fromstring(data)
    for element in root.iter():
        # Files with and without Maven's namespace mean the same.
        element.tag = element.tag.rpartition("}")[2]
    mirrors = [each for each in root.iterfind("mirrors/mirror") if _mirrors_central(each)]
    return MavenSettings(
        offline=_text(root, "offline") == "true",
        mirror=_address(mirrors[0]) if mirrors else None,
        credentials=tuple(_credentials(root)),
    )


def repositories_of(
    configured: Sequence[str] | None, with_gradle: bool = False
) -> tuple[Repository, ...]:
    """The repositories of the setting; if it is None, those that the user's own settings name, and
    `with_gradle` the one of Gradle's plugins. Raises SandboxUnavailable."""
    settings = user_settings()
    known = dict(settings.credentials)
    urls = settings.defaults(with_gradle) if configured is None else configured
    addresses = [url.rstrip("/") for url in urls]
    return tuple(Repository(address, known.get(address)) for address in addresses)


def _mirrors_central(mirror: ElementTree.Element) -> bool:
    ids = [each.strip() for each in _text(mirror, "mirrorOf").split(",")]
    return "!central" not in ids and any(each in CENTRAL_IDS for each in ids)


def _credentials(root: ElementTree.Element) -> Iterator[tuple[str, tuple[str, str]]]:
    servers = {_text(each, "id"): each for each in root.iterfind("servers/server")}
    for path in ("mirrors/mirror", "profiles/profile/repositories/repository"):
        for named in root.iterfind(path):
            server = servers.get(_text(named, "id"))
            if server is not None:
                pair = _text(server, "username"), _text(server, "password")
                yield _address(named), pair


def _address(element: ElementTree.Element) -> str:
    return _text(element, "url").rstrip("/")


def _text(element: ElementTree.Element, name: str) -> str:
    """A child's text, with the variables of the environment that it names."""
    text = (element.findtext(name) or "").strip()
    return VARIABLE.sub(lambda match: os.environ.get(match[1], ""), text)
