"""Ways through a program by the names in its source, as a reader follows them."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import PurePath

from collect.code.source import NOTHING, Place, function_at, read_source
from sandbox.text import source_lines

WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"(?:#|//).*")
MAX_FOUND = 300
"""Functions that are found from the goal backwards."""


@dataclass(frozen=True)
class Code:
    """A function, or a statement outside all functions."""

    path: str
    name: str
    """Qualified."""
    first: int
    last: int

    @property
    def word(self) -> str:
        """What code that uses it calls it: a constructor by its class, a lambda by its function."""
        *around, own = self.name.split(".")
        return around[-1] if around and self.is_special else own

    @property
    def is_special(self) -> bool:
        """Whether it is called by another name than its own."""
        return self.name.rpartition(".")[2].startswith(("__", "<"))


class Leads:
    """Which code names which other code."""

    def __init__(self, files: Mapping[str, bytes], path: str) -> None:
        """Of the files in the language of this one."""
        suffix = PurePath(path).suffix
        self._files = {path: data for path, data in files.items() if path.endswith(suffix)}
        self._functions = cache(self._functions_in)

    def code_at(self, place: Place) -> Code:
        """The function around a place, or else the statement there, by what it assigns."""
        source = read_source(place.path, self._files.get(place.path, b"")) or NOTHING
        found = function_at(source, place.line)
        if found is not None:
            return Code(place.path, found.name, found.first, found.last)
        name = next(iter(source.assigned(place.line)), "")
        return Code(place.path, name, place.line, place.line)

    def named(self, word: str) -> list[Code]:
        """The functions that a word can mean."""
        paths = self._paths.get(word, ())
        return [code for path in paths for code in self._functions(path) if code.word == word]

    def inside(self, path: str, first: int, last: int) -> list[Code]:
        """The functions that are whole between two lines."""
        return [code for code in self._functions(path) if first <= code.first and code.last <= last]

    def frequency(self, word: str) -> int:
        """How many functions have a word."""
        return sum(1 for _ in self._mentioning(word))

    def others(self, code: Code) -> list[Code]:
        """The functions that this code names, each by a name that nothing else has."""
        found = [self.named(word) for word in sorted(self.words(code))]
        return [named[0] for named in found if len(named) == 1 and named[0] != code]

    def way(
        self, starts: Collection[Code], goal: Code, without: Collection[Code]
    ) -> Sequence[Code]:
        """A shortest way in which each names the next, from one of the starts to the goal; empty if
        there is none."""
        onward: dict[Code, Code] = {}
        pending = deque([goal])
        while pending and len(onward) < MAX_FOUND:
            code = pending.popleft()
            if code in starts:
                way = [code]
                while way[-1] != goal:
                    way.append(onward[way[-1]])
                return way
            for user in self._mentioning(code.word):
                if user != goal and user not in onward and user not in without:
                    onward[user] = code
                    pending.append(user)
        return []

    def _mentioning(self, word: str) -> Iterator[Code]:
        """The functions whose source has a word."""
        for path in self._paths.get(word, ()):
            yield from (code for code in self._functions(path) if word in self.words(code))

    @cached_property
    def _paths(self) -> Mapping[str, Sequence[str]]:
        """The files that have a word."""
        found = defaultdict[str, list[str]](list)
        for path, data in self._files.items():
            for word in set(WORD.findall(data.decode("utf-8", "replace"))):
                found[word].append(path)
        return found

    def _functions_in(self, path: str) -> list[Code]:
        source = read_source(path, self._files[path]) or NOTHING
        return [Code(path, each.name, each.first, each.last) for each in source.functions]

    def words(self, code: Code) -> frozenset[str]:
        """The words of its source, without comments."""
        return _words(self._files[code.path], code.first, code.last)


@lru_cache(4096)
def _words(data: bytes, first: int, last: int) -> frozenset[str]:
    lines = source_lines(data.decode("utf-8", "replace"))[first - 1 : last]
    return frozenset(word for line in lines for word in WORD.findall(COMMENT.sub("", line)))
