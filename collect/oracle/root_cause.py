"""The oracle's search for a root cause: from the failure back to the code at fault.

It knows where that is, and follows the names that lead there; but it stops and reads only where
something shown before has sent it, and says only what it saw.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import PurePath

from collect.benchmarks.base import Instance
from collect.code.source import Place, function_at, read_source
from collect.oracle.session import MAX_SHOWN, Moves, Session, shortened
from collect.questions.observations import NUMBERED
from collect.questions.program import is_test_file
from sandbox.text import source_lines

# Ways through a program by the names in its source, as a reader follows them.

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
        source = read_source(place.path, self._files.get(place.path, b""))
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
            for user in self.mentioning(code.word):
                if user != goal and user not in onward and user not in without:
                    onward[user] = code
                    pending.append(user)
        return []

    def mentioning(self, word: str) -> Iterator[Code]:
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
        source = read_source(path, self._files[path])
        return [Code(path, each.name, each.first, each.last) for each in source.functions]

    def words(self, code: Code) -> frozenset[str]:
        """The words of its source, without comments."""
        return _words(self._files[code.path], code.first, code.last)


@lru_cache(4096)
def _words(data: bytes, first: int, last: int) -> frozenset[str]:
    lines = source_lines(data.decode("utf-8", "replace"))[first - 1 : last]
    return frozenset(word for line in lines for word in WORD.findall(COMMENT.sub("", line)))


# The search.

RETURNED = re.compile(
    r"^Returned from (?P<name>.+?): (?P<text>.*?)(?P<type>  \([^()]+\))?$", re.MULTILINE
)
"""The type is at the value's end, which may be some lines further."""
MAX_STEPS = 11
"""After so many it searches for the code by a word instead of following calls."""
LONG_WAY = 3
"""From so many functions on it reads whole files, which may name one further on."""
MAX_LINES = 160
"""Lines of a file that is read as a whole."""


class RootCauseSearch:
    """One search."""

    def __init__(self, instance: Instance, session: Session, place: Place) -> None:
        self._instance, self._session, self._place = instance, session, place
        self._rng = session.habits.rng
        self._leads = Leads(instance.files, place.path)
        self._goal = self._leads.code_at(place)
        self._known: set[Code] = set()
        """Code that a stop or an answer has shown the place of."""
        self._read: set[Code] = set()
        self._refuted: set[Code] = set()
        """Code that is not entered before the failure."""
        self._strays = session.habits.detour(0.4)
        """Whether it is still to follow another lead."""
        self._wrong = ""
        """The value that the test got, if known."""
        self._finding = ""
        """What the last call has shown, in a sentence."""

    def back(self, frames: Sequence[Mapping[str, str]], wrong: str) -> Moves[str]:
        """From the failure to the code at fault. `frames` are the program's and the test's,
        innermost first; `wrong` is the value that the test got, if known. Returns why to stop at
        the place."""
        self._wrong = wrong
        for frame in frames:
            self._known.add(self._leads.code_at(Place(frame["file"], int(frame["line"]), "")))
        tests = self._leads.named(re.split(r"\W+", self._session.test.partition("[")[0])[-1])
        if len(tests) == 1:
            self._known.add(tests[0])
        while self._goal not in self._read and self._session.steps < MAX_STEPS:
            way = self._leads.way(self._known, self._goal, self._refuted)
            if not way:
                break
            if way[0] not in self._read:
                yield from self._read_code(way[0], len(way) > LONG_WAY)
            else:
                yield from self._follow(way)
        if self._goal not in self._read:
            yield from self._jump()
        text = self._instance.files[self._place.path].decode("utf-8", "replace")
        line = source_lines(text)[self._place.line - 1].strip()
        return self._say("search_suspect", line=line)

    def _say(self, phrases: str, **values: object) -> str:
        """The last finding, if there is one, and what comes next."""
        finding, self._finding = self._finding, ""
        return f"{finding} {self._session.pick(phrases, **values)}".lstrip()

    def _read_code(self, code: Code, whole: bool = False) -> Moves[None]:
        lines = len(source_lines(self._instance.files[code.path].decode("utf-8", "replace")))
        whole = whole and lines <= MAX_LINES and not is_test_file(self._instance, code.path)
        first, last = (1, lines) if whole else (code.first, code.last)
        phrases = "search_file" if whole else "search_read"
        why = self._say(phrases, code=code.word, path=code.path)
        yield from self._session.read(why, code.path, first, last)
        self._read |= {code, *self._leads.inside(code.path, first, last)}
        self._known |= self._read

    def _follow(self, way: Sequence[Code]) -> Moves[None]:
        """Follow a name from code that was read to the code that it means."""
        at, to = way[:2]
        if self._strays:
            self._strays = False
            yield from self._stray(at, way)
        names = {"at": at.word, "to": to.word}
        if len(self._leads.named(to.word)) != 1 or self._rng.random() < 0.3:
            if (yield from self._find(to, self._say("search_define", **names))):
                self._known.add(to)
            else:
                self._refuted.add(to)
        elif (yield from self._enter(to, self._say("search_enter", **names))):
            self._known.add(to)
            if len(way) <= LONG_WAY:
                yield from self._observe(to)

    def _stray(self, at: Code, way: Sequence[Code]) -> Moves[None]:
        """Follow another lead, back to where it was found."""
        others = [
            code
            for code in self._leads.others(at)
            if code not in way and code not in self._known
            if not is_test_file(self._instance, code.path)
        ]
        if not others:
            return
        other = self._rng.choice(others)
        why = self._say("search_stray", at=at.word, to=other.word)
        if (yield from self._enter(other, why)) and not (yield from self._returned(other)):
            self._finding += " That tells me little, and I leave it."

    def _enter(self, code: Code, why: str) -> Moves[bool]:
        """Whether the test stops in a function."""
        session = self._session
        name = ".".join(code.name.split(".")[-2:]) if code.is_special else code.word
        yield from session.start(why, [name], False)
        here = session.paused
        if here is not None and (here.file, here.function) == (code.path, code.name):
            lines = {int(each["line"]) for each in NUMBERED.finditer(here.text)}
            if lines.issuperset(range(code.first, code.last + 1)):
                self._read.add(code)
            return True
        self._refuted.add(code)
        self._finding = f"The test does not get to `{code.word}`." if here is None else ""
        return False

    def _observe(self, code: Code) -> Moves[None]:
        if self._rng.random() < 0.5 and not code.is_special:
            yield from self._returned(code)
            return
        given = yield from self._session.locals(self._session.pick("search_given", code=code.word))
        if self._wrong and self._wrong in given.values():
            self._finding = f"It is given {shortened(self._wrong, MAX_SHOWN)} already."

    def _returned(self, code: Code) -> Moves[bool]:
        """Whether a function returns the value that the test got."""
        why = self._session.pick("search_returned", code=code.word)
        stopped = yield from self._session.control(why, "step_out")
        found = RETURNED.search(stopped.text) if stopped is not None else None
        if found is None:
            self._finding = f"I don't see what `{code.word}` returns."
            return False
        same = self._wrong == found["text"]
        told = ", which is what the test got" if same else ""
        self._finding = f"`{code.word}` returns {shortened(found['text'], MAX_SHOWN)}{told}."
        return same

    def _find(self, code: Code, why: str) -> Moves[bool]:
        """Whether a search for where a name is defined shows the code."""
        word = re.escape(code.word)
        pattern = rf"\b{word}\b *[(=]"
        if code.path.endswith(".py"):
            pattern = rf"(def|class) +{word}\b|^ *{word} *[:=]"
        seen = yield from self._session.do(why, "grep", pattern=pattern)
        return f"{code.path}:" in seen

    def _jump(self) -> Moves[None]:
        """Find the code at fault by another word that was shown."""
        goal = self._goal
        if goal in self._known:
            yield from self._read_code(goal)
            return
        shown = {word for code in self._read for word in self._leads.words(code)}
        common = (
            (sum(1 for _ in self._leads.mentioning(word)), word)
            for word in shown & self._leads.words(goal)
            if len(word) > 3 and not keyword.iskeyword(word) and not hasattr(builtins, word)
        )
        for _, word in sorted(common)[:1]:
            why = self._say("search_word", word=word)
            seen = yield from self._session.do(why, "grep", pattern=rf"\b{word}\b")
            if f"{goal.path}:" in seen:
                yield from self._read_code(goal)
                return
        why = self._say("search_function", code=goal.word)
        yield from self._session.start(why, [goal.name], False)
        yield from self._read_code(goal)
