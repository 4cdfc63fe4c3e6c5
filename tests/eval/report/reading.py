"""What is needed to check pages without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


@dataclass
class Page(HTMLParser):
    """The tags, links, ids and text of a page."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def count(self, tag: str) -> int:
        """How many tags of a name there are."""
        return sum(name == tag for name, _ in self.tags)

    @property
    def attributes(self) -> set[str]:
        """The names of all attributes."""
        return {name for _, found in self.tags for name in found}

    @property
    def links(self) -> list[str]:
        return [found["href"] or "" for tag, found in self.tags if tag == "a"]

    @property
    def ids(self) -> list[str]:
        return [found["id"] or "" for _, found in self.tags if "id" in found]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(path: Path) -> Page:
    """A page of a report."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def pages_of(folder: Path) -> dict[Path, Page]:
    """Every page of a report."""
    return {path: read(path) for path in sorted(folder.rglob("*.html"))}


def broken_links(folder: Path) -> list[str]:
    """Links of a report's pages that lead nowhere, or out of the disk."""
    pages = {path.resolve(): page for path, page in pages_of(folder).items()}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            file, fragment = urldefrag(link)
            target = (path.parent / unquote(file)).resolve() if file else path
            known = pages.get(target)
            is_filter = "=" in fragment
            if not target.is_file() or (
                fragment and not is_filter and (known is None or fragment not in known.ids)
            ):
                broken.append(f"{path.name}: {link}")
    return broken
