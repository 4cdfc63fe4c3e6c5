"""No pattern takes time that grows faster than the text it meets.

Models, programs and servers write those texts, and `re` holds the interpreter's lock. Each pattern
is measured at two sizes with texts made of its own parts: each beginning, and each beginning before
a long run of what the pattern repeats, with and without an end.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import pytest

from tests.test_structure import MODULES, ROOMS, ROOT

PARSER: Any = importlib.import_module("re._parser")
METHODS = {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
ANCHORED = {"match", "fullmatch"}
BOUNDED = {
    "collect.questions.claims:CONTEXT": "is read in the 80 characters before a place",
    "collect.benchmarks.swe_bench.log_parsers:DJANGO_INTERRUPTED": "parse_django cuts the log",
    "sandbox.languages.python.targets:PARAMETRISED": "reads at most 4,000 characters",
    "sandbox.languages.python.targets:SPACED": "reads at most 4,000 characters",
    "sandbox.languages.python.targets:WORD_OF_COMMAND": "reads at most 4,000 characters",
    "sandbox.java.lookup:_METHOD": "is searched for only where its end matches",
    "sandbox.java.build:_ENGINE": "reads a file's name",
    "collect.questions.observations:PRINTING": "matches whole texts",
    "collect.agents.inspectcoder.inspector:PRINTS": "reads a prompt of ours",
    "configs.command_line.stages": "reads a table of ours",
}
"""Patterns that are slow only in texts that they never meet, and why."""

Found = tuple[str, "re.Pattern[str] | re.Pattern[bytes]", frozenset[str]]
"""The name of a pattern, the pattern, and the methods by which it is used."""


def probe_modules() -> Iterator[str]:
    for path in sorted((ROOT / "sandbox/debugger/probe").rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def patterns() -> list[Found]:
    """Every pattern of a module, and every one that is written in a call of `re`."""
    files = [*MODULES.values(), *sorted((ROOT / "sandbox/debugger/probe").rglob("*.py"))]
    sources = {path: path.read_text() for path in files}
    trees = {path: ast.parse(text) for path, text in sources.items() if "re." in text}
    uses = uses_of_names(map(ast.parse, sources.values()))
    own_uses = {path: uses_of_names([tree]) for path, tree in trees.items()}
    found: list[Found] = []
    for path, tree in trees.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found += in_calls(module, tree)
        if "re.compile" in sources[path]:
            for name, value in vars(importlib.import_module(module)).items():
                if f"\n{name} = " in sources[path] or f"\n{name}: " in sources[path]:
                    own = own_uses[path][name] & METHODS
                    methods = frozenset(own or uses[name] & METHODS or {"search"})
                    found += [(f"{module}:{name}", each, methods) for each in patterns_in(value)]
    return found


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(each)
    elif type(value).__module__.partition(".")[0] in ROOMS and hasattr(value, "__dict__"):
        yield from patterns_in([each for each in vars(value).values() if each is not value])


def uses_of_names(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """How all files use a name: `NAME.match(...)`, `claims.NAME.sub(...)`."""
    uses = defaultdict[str, set[str]](set)
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method):
                    uses[name].add(method)
    return uses


def in_calls(module: str, tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str() | bytes() as text), *_],
            ) if method in METHODS:
                flags = re.MULTILINE if re.search(r"\bre\.M", ast.unparse(node)) else 0
                name = f"{module}:{node.lineno}"
                yield name, re.compile(text, flags), frozenset({method})


# Hostile texts.

ENDS = ("", "\n", "\0")
ANY_CHARACTERS = "a1_ A.-\n\t\"'`([{<>)]}:;,/\\=#*@$%&|~^+?!0xé\r"
RUNS = (*"a1_ .-\n\"'`([{<\t", "a ", "a.", "a,", "a:", "a\n", "a(", "1.", "''", "`a", "/a", "\\'")
VARIANTS = 4
"""Of each part: other branches, and other characters of a set."""


def hostile(pattern: re.Pattern[Any]) -> set[tuple[str, str]]:
    """Pairs of a beginning and what is repeated after it."""
    text = pattern.pattern
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    tree = PARSER.parse(text, pattern.flags & ~re.UNICODE)
    texts = {("", run) for run in RUNS}
    for variant in range(VARIANTS):
        texts |= set(beginnings(tree, "", variant))
    return texts


def beginnings(tree: Iterable[Any], before: str, variant: int) -> Iterator[tuple[str, str]]:
    for operator, value in tree:
        name = str(operator)
        for part in parts_of(name, value):
            yield from beginnings(part, before, variant)
        if name.endswith("REPEAT") and value[1] > 20:
            for one in range(VARIANTS):
                repeated = example(value[2], one)
                yield before, repeated
                yield before, repeated + example(value[2], variant)
        before += example([(operator, value)], variant)
        yield "", before[:200]


def parts_of(name: str, value: Any) -> list[Any]:
    """The trees inside an operator."""
    if name == "BRANCH":
        return list(value[1])
    if name == "SUBPATTERN":
        return [value[3]]
    if name.endswith("REPEAT"):
        return [value[2]]
    if name.startswith("ASSERT"):
        return [value[1]]
    return [value] if name == "ATOMIC_GROUP" else []


def example(tree: Iterable[Any], variant: int) -> str:
    """A text that such a pattern matches, but for back references and conditions."""
    return "".join(one_example(str(operator), value, variant) for operator, value in tree)


def one_example(name: str, value: Any, variant: int) -> str:
    if name == "LITERAL":
        return chr(value)
    if name in ("ANY", "NOT_LITERAL"):
        return "a "[variant % 2]
    if name == "IN":
        members = characters(value)
        return members[variant % len(members)]
    if name.startswith("ASSERT"):
        return example(value[1], variant) if name == "ASSERT" and value[0] > 0 else ""
    parts = parts_of(name, value)
    inner = example(parts[variant % len(parts)], variant) if parts else ""
    return inner * min(max(value[0], variant % 3), 50) if name.endswith("REPEAT") else inner


def characters(members: Any) -> str:
    """Some characters of a set."""
    own = [
        chr(value if str(operator) == "LITERAL" else value[0])
        for operator, value in members
        if str(operator) in ("LITERAL", "RANGE")
    ]
    return "".join(each for each in (*ANY_CHARACTERS, *own) if is_in(each, members))[:6] or "\u1234"


def is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


KINDS: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdigit,
    "SPACE": str.isspace,
    "WORD": is_word,
}


def is_in(character: str, members: Any) -> bool:
    inside, negated = False, False
    for operator, value in members:
        match str(operator):
            case "NEGATE":
                negated = True
            case "LITERAL":
                inside |= ord(character) == value
            case "RANGE":
                inside |= value[0] <= ord(character) <= value[1]
            case "CATEGORY":
                *_, no, kind = str(value).split("_")
                inside |= KINDS[kind](character) != (no == "NOT")
    return inside != negated


# Measurements.

SIZES = (40, 1_000, 16_000)
SUSPICIOUS = 0.003
"""Seconds for a text of one of `SIZES` from which larger ones are measured."""
ENDLESS = 5.0
GROWTH = 8.0
"""More for four times the text is more than linear: 4 is, 16 is quadratic."""


class Endless(BaseException):
    """A measurement is given up."""


def seconds_of(run: Callable[[Any], object], text: str | bytes) -> float:
    """At most `ENDLESS`."""

    def give_up(signum: int, frame: FrameType | None) -> None:
        raise Endless

    previous = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS)
    started = time.thread_time()
    try:
        run(text)
    except Endless:
        return ENDLESS
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
    return time.thread_time() - started


def grows(run: Callable[[Any], object], text_of: Callable[[int], str | bytes]) -> bool:
    """Whether a run takes more than its share of a larger text, each time that it is tried."""
    for size in SIZES:
        seconds = seconds_of(run, text_of(size))
        if seconds >= SUSPICIOUS:
            return seconds >= ENDLESS or all(
                seconds_of(run, text_of(4 * size)) > GROWTH * seconds_of(run, text_of(size))
                for _ in range(3)
            )
    return False


def slow_texts(pattern: re.Pattern[Any], methods: Iterable[str]) -> Iterator[str]:
    """The hostile texts on which a pattern's time grows more than linearly."""
    kinds = {method if method in ANCHORED else "finditer" for method in methods}
    for kind in sorted(kinds):

        def run(text: Any, kind: str = kind) -> object:
            if kind == "finditer":
                return deque(pattern.finditer(text), maxlen=0)
            return getattr(pattern, kind)(text)

        for before, repeated in sorted(hostile(pattern)):
            for end in ENDS:

                def text_of(
                    size: int, parts: tuple[str, str, str] = (before, repeated, end)
                ) -> Any:
                    first, middle, last = parts
                    text = first + middle * (size // len(middle)) + last if middle else first
                    return text.encode() if isinstance(pattern.pattern, bytes) else text

                if grows(run, text_of):
                    yield f"{kind}: {before[:40]!r}, {repeated[:40]!r} repeated, {end!r}"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_pattern() -> None:
    slow = {}
    for name, pattern, methods in patterns():
        if not name.startswith(tuple(BOUNDED)) and (
            text := next(slow_texts(pattern, methods), None)
        ):
            slow[name] = text
    assert not slow


@pytest.mark.parametrize(
    "pattern", [r"__(?:eq|ne)__\([^)]*\):", r"(?:\\.|[^'])+'", r"\s+at", r"(a|b)*c"]
)
def test_slow_patterns_are_found(pattern: str) -> None:
    assert any(slow_texts(re.compile(pattern), {"search"}))


@pytest.mark.parametrize("pattern", [r"(?<!\s)\s++at", r"'(?:\\.|[^'\\])*+'?", r"[\w.]{0,20}x"])
def test_linear_patterns_are_not(pattern: str) -> None:
    assert not any(slow_texts(re.compile(pattern), {"search"}))
