"""Find the test or the main class that a launch names, in the workspace's sources."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import dropwhile

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.errors import NoSuchTest, SandboxFileError
from sandbox.java.project import Scan
from sandbox.shell import capture, split_words

_NOISE = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*+"?|\'(?:\\.|[^\'\\\n])*+\'?'
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
"""Literals and comments, even without their end."""
_PACKAGE = re.compile(r"^[ \t]*package\s+([\w.]+)\s*;", re.MULTILINE)
_TYPE = re.compile(
    r"\b(?P<kind>class|interface|enum|record|@interface)\s+(?P<name>\w+)"
    r"(?:\s*<[^{]*?>)?(?:\s*\([^{]*\))?(?:[^{;]*?\bextends\s+(?P<parent>[\w.]+))?[^{;]*$",
    re.DOTALL,
)
_METHOD = re.compile(
    r"(?:^|[\s>\]])(?P<name>\w+)\s*+\((?P<parameters>[^{}]*)\)\s*(?:throws[\w\s.,@<>]+)?$",
    re.DOTALL,
)
_METHOD_END = re.compile(r"\)\s*+(?:throws[\w\s.,@<>]+)?$")
"""Without it, each name with a bracket would search for the end of the text."""
_TEST = re.compile(
    r"@(?:[\w.]+\.)?(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate|Theory|Property)\b"
)
_KEYWORDS = frozenset(
    ["if", "for", "while", "switch", "catch", "synchronized", "try", "new", "return", "do", "else"]
)


@dataclass(frozen=True)
class Method:
    name: str
    test: bool
    """Whether a test framework's annotation marks it."""
    entry: bool
    """Whether it is a `main` that a program can start at."""


@dataclass
class JavaClass:
    name: str
    """The JVM's name for it, with its package and its outer classes: `demo.Outer$Inner`."""
    parent: str | None
    """The class that it extends, as written in the source."""
    concrete: bool
    methods: list[Method] = field(default_factory=list)

    def method(self, name: str) -> Method | None:
        return next((method for method in self.methods if method.name == name), None)

    @property
    def simple_name(self) -> str:
        return re.split(r"[.$]", self.name)[-1]


@dataclass(frozen=True)
class Outline:
    package: str
    classes: tuple[JavaClass, ...]
    """Outer classes before their inner ones."""
    imports: tuple[str, ...] = ()


def outline(text: str) -> Outline:
    """Read a file. Text that is not Java gives few classes or none, never an error."""
    # Blank out literals and comments, so that nothing in them is taken for code.
    plain = _NOISE.sub(lambda match: '""' if match[0][0] == '"' else " ", text)
    match = _PACKAGE.search(plain)
    package = match[1] if match else ""
    imports = re.findall(r"^[ \t]*import\s+(?:static\s+)?([\w.]+)", plain, re.MULTILINE)
    return Outline(package, tuple(_classes(plain, package)), tuple(imports))


def _classes(text: str, package: str) -> Iterator[JavaClass]:
    """Walk the blocks; the text before a block's brace says what it is. Skips what is in
    parentheses: an annotation's array, a lambda's body."""
    open_blocks: list[JavaClass | None] = []
    """The class whose body each block is; None for any other block."""
    start = depth = 0
    for match in re.finditer(r"[{}();]", text):
        if match[0] in "()":
            depth = max(0, depth + (1 if match[0] == "(" else -1))
            continue
        if depth:
            continue
        if match[0] == "{":
            head = text[start : match.start()]
            outer = open_blocks[-1] if open_blocks else None
            # Classes in methods can't be named, so they don't count.
            found = _TYPE.search(head) if not open_blocks or outer is not None else None
            declared = None
            if found is not None:
                prefix = f"{outer.name}$" if outer is not None else f"{package}." * bool(package)
                concrete = found["kind"] in ("class", "record") and "abstract" not in head.split()
                declared = JavaClass(prefix + found["name"], found["parent"], concrete)
                yield declared
            elif outer is not None:
                outer.methods += _method(head)
            open_blocks.append(declared)
        elif match[0] == "}" and open_blocks:
            open_blocks.pop()
        start = match.end()


def _method(head: str) -> list[Method]:
    found = _METHOD.search(head) if _METHOD_END.search(head) else None
    if found is None or found["name"] in _KEYWORDS:
        return []
    entry = found["name"] == "main" and "static" in head.split() and "String" in found["parameters"]
    return [Method(found["name"], _TEST.search(head) is not None, entry)]


MAX_PARENTS = 10
MAX_CANDIDATES = 20
SEARCH_TIMEOUT = 30.0
TEST_CASES = ("TestCase", "junit.framework.TestCase")

_SEARCH = """
find . -name "*.java" -type f ! -path "*/target/*" -exec grep -lE -e "$1" {} + | head -n "$2"
"""


class Sources:
    """The sources of one workspace, each read at most once."""

    def __init__(self, sandbox: Sandbox, scan: Scan) -> None:
        self._sandbox = sandbox
        self.paths = scan.sources
        """The paths of all sources, relative to the workspace."""
        self._outlines: dict[str, Outline] = {}

    def files(self, path: str) -> Iterator[str]:
        """Sources whose path ends like this; a `*` stands for any text."""
        wanted = posixpath.normpath(path.removeprefix(f"{self._sandbox.workspace}/")).lstrip("/")
        return (s for s in self.paths if s == wanted or fnmatchcase(f"/{s}", f"*/{wanted}"))

    def grep(self, pattern: str) -> list[str]:
        """Some sources with a line that matches an extended regular expression."""
        box, most = self._sandbox, str(MAX_CANDIDATES)
        found = capture(box, _SEARCH, pattern, most, cwd=box.workspace, timeout=SEARCH_TIMEOUT)
        files = [posixpath.normpath(line) for line in found.output.splitlines()]
        return [file for file in files if file in self.paths]

    def outline(self, file: str) -> Outline:
        if file not in self._outlines:
            self._outlines[file] = outline(self.text(file))
        return self._outlines[file]

    def text(self, file: str) -> str:
        """A source, decoded as UTF-8 with replacement; empty if it can't be read."""
        # It may be a link, or deleted since the scan.
        with suppress(SandboxFileError):
            return self._sandbox.read_file(file, SOURCE_LIMIT).decode("utf-8", "replace")
        return ""

    def tests(self, file: str, chosen: JavaClass) -> Iterator[Method]:
        """The test methods of a class, inherited ones included."""
        family = list(self.family(file, chosen))
        old = family[-1][1].parent in TEST_CASES
        methods = (method for _, each in family for method in each.methods)
        return (each for each in methods if each.test or (old and each.name.startswith("test")))

    def family(self, file: str, chosen: JavaClass) -> Iterator[tuple[str, JavaClass]]:
        """A class and those of its parents whose sources are in the workspace."""
        for _ in range(MAX_PARENTS):
            yield file, chosen
            simple = (chosen.parent or "").rpartition(".")[2]
            if not simple:
                return
            parents = (
                (path, each)
                for path in [file, *self.files(f"{simple}.java")]
                for each in self.outline(path).classes
                if each.simple_name == simple and each is not chosen
            )
            following = next(parents, None)
            if following is None:
                return
            file, chosen = following


ACCEPTED = (
    "give a test (demo.CartTest#testTotal, CartTest, src/test/java/demo/CartTest.java::testTotal), "
    "the command that runs it (mvn test -Dtest=..., gradle test --tests ...), or a main class or "
    "its file with its arguments (demo.Main 1 2)"
)
MAX_CHARACTERS = 4_000
NAME = re.compile(r"[\w.$/*-]+")
INVOCATION = re.compile(r"[\w.$/#:-]++\s*+(?:\([^()]*+\)\s*+)?\[([^\[\]\n]{1,200}+)\]$")
"""A test with its invocation."""


@dataclass(frozen=True)
class Named:
    """A parsed launch text, not looked up yet."""

    name: str
    """A class, a class and a method joined by a dot, a method, or a file's path."""
    method: str | None = None
    """Set if the text separates it from the class."""
    arguments: tuple[str, ...] = ()
    """Arguments for a main class."""
    main: bool = False
    """Whether it can only be a main class."""
    module: str | None = None
    """A build tool's module: its folder, or its path with colons as slashes."""
    invocation: str | None = None
    """What is in the brackets behind a test that runs several times: `3` of `CartTest#adds[3]`."""


def parse_name(text: str) -> Named:
    """Parse a launch's `test`. Raises NoSuchTest if it names nothing."""
    if len(text) > MAX_CHARACTERS:
        raise NoSuchTest(f"a test of {len(text)} characters names no test: {ACCEPTED}")
    if (invocation := INVOCATION.match(text.strip())) is not None:
        return _split_method(invocation[0])
    # Keeps a test's parameter list in one word.
    joined = re.sub(r"\([^()]*\)\s*$", "", text.strip())
    words = split_words(joined)
    words = list(dropwhile(re.compile(r"\w+=").match, words))
    if not words:
        raise NoSuchTest(f"{text!r} names no test: {ACCEPTED}")
    program = posixpath.basename(words[0])
    if program in ("mvn", "mvnw", "gradle", "gradlew"):
        return _build_command(words[1:], maven=program.startswith("mvn"))
    if program != "java" or len(words) == 1:
        return replace(_split_method(words[0]), arguments=tuple(words[1:]), main=len(words) > 1)
    rest = iter(words[1:])
    for word in rest:
        if word in ("-cp", "-classpath", "--class-path"):
            next(rest, None)
        elif word == "-jar":
            raise NoSuchTest(f"a jar can't be debugged from its sources: {ACCEPTED}")
        elif not word.startswith("-"):
            return replace(_split_method(word), arguments=tuple(rest), main=True)
    raise NoSuchTest(f"the command names no main class: {ACCEPTED}")


def _split_method(text: str) -> Named:
    """Parse `Class#method` or `Class::method`, with an optional parameter list, invocation or
    line."""
    plain = text.strip()
    invocation = INVOCATION.match(plain)
    if plain.endswith((")", "]")):
        plain = re.split(r"[(\[]", plain, maxsplit=1)[0].rstrip()
    plain = re.sub(r"(?<=\.java):\d+$", "", plain)
    name, _, method = plain.replace("::", "#").partition("#")
    if not NAME.fullmatch(name) or (method and not re.fullmatch(r"[\w$*]+", method)):
        raise NoSuchTest(f"{text!r} names no test: {ACCEPTED}")
    return Named(name, method or None, invocation=invocation[1].strip() if invocation else None)


def _build_command(words: list[str], maven: bool) -> Named:
    """Parse the options of a `mvn` or `gradle` that runs one test."""
    test = module = ""
    rest = iter(words)
    for word in rest:
        option, _, value = word.partition("=")
        if maven and option in ("-Dtest", "-Dit.test"):
            test = re.split(r"[,+]", value)[0]
        elif maven and word in ("-pl", "--projects"):
            module = next(rest, "").split(",")[0]
        elif maven and word in ("-f", "--file"):
            module = posixpath.dirname(next(rest, ""))
        elif maven:
            continue
        elif option == "--tests":
            test = value or next(rest, "")
        elif word in ("-p", "--project-dir"):
            module = next(rest, "")
        elif ":" in word and not word.startswith("-"):
            module = word.rpartition(":")[0]
    if not test:
        option = "-Dtest=Class#method" if maven else "--tests Class.method"
        raise NoSuchTest(f"the command names no test: add {option}, or {ACCEPTED}")
    folder = module.strip(":./").replace(":", "/")
    return replace(_split_method(test), module=folder or None)


Candidate = tuple[str, JavaClass, str | None]
"""A source file, a class in it, and the method that the name gives."""
NEAREST = 6
"""Number of similar names shown if a name does not exist."""
FRAMEWORKS = ("org.junit", "junit.framework", "org.testng", "spock.", "net.jqwik")


@dataclass(frozen=True)
class Found:
    """A test or a main class."""

    file: str
    """Its source file, relative to the workspace."""
    class_name: str
    """The JVM's name for it: `demo.Outer$Inner`."""
    method: str | None
    """The test method; None for a whole class or a main class."""
    methods: tuple[str, ...]
    """The test methods that will run; `main` for a main class."""
    test: bool
    arguments: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    invocation: str | None = None
    """The one invocation to debug of a test that runs several times; scoring runs all."""

    @property
    def selector(self) -> str:
        return f"{self.class_name}#{self.method}" if self.method else self.class_name


class Lookup(Sources):
    """Finds what a launch names."""

    def find(self, named: Named) -> Found:
        """Raises NoSuchTest with the nearest names, or SandboxDead."""
        candidates = list(self._candidates(named)) or list(self._searched(named))
        if not candidates:
            if not self.paths:
                raise NoSuchTest("the workspace holds no Java sources")
            what = "main class" if named.main else "test"
            shown = named.name + (f"#{named.method}" if named.method else "")
            simple = re.split(r"[./$]", named.name.removesuffix(".java"))
            nearest = self._nearest_classes(*simple[-2:], main=named.main)
            raise NoSuchTest(f"there is no {what} {shown}{nearest}; {ACCEPTED}")

        def rank(candidate: Candidate) -> tuple[bool, bool, int]:
            """The named module first, then tests, then short paths."""
            file = candidate[0]
            elsewhere = named.module is not None and f"/{named.module}/" not in f"/{file}"
            return elsewhere, "test" not in file.lower(), len(file)

        return self._found(*min(candidates, key=rank), named)

    def _candidates(self, named: Named) -> Iterator[Candidate]:
        """Classes in files named after them, with the method at the end of the name, if any."""
        method = named.method
        if named.name.endswith(".java") or "/" in named.name:
            path = named.name if named.name.endswith(".java") else f"{named.name}.java"
            for file in self.files(path):
                # The class that has the method, is named like the file, or has a `main`.
                classes = self.outline(file).classes
                stem = posixpath.basename(file).removesuffix(".java")
                chosen = [
                    *(each for each in classes if method and each.method(method)),
                    *(each for each in classes if each.simple_name == stem),
                    *(each for each in classes if any(m.entry for m in each.methods)),
                    *classes,
                ]
                for each in chosen[:1]:
                    yield file, each, method
            return
        parts = [part for part in re.split(r"[.$]", named.name) if part]
        for length in range(len(parts), 0, -1):
            if matches := list(self.files("/".join(parts[:length]) + ".java")):
                for file in matches:
                    yield from self._of_parts(file, parts[length - 1 :], method)
                return

    def _of_parts(self, file: str, parts: list[str], method: str | None) -> Iterator[Candidate]:
        """Resolve `Outer`, `Outer.Inner` or `Outer.method` in the file of `Outer`."""
        outer, *inner = parts
        classes = self.outline(file).classes
        for each in classes:
            names = each.name.rpartition(".")[2].split("$")
            if names[0] != outer and not fnmatchcase(names[0], outer):
                continue
            if names[1:] == inner:
                yield file, each, method
            elif method is None and names[1:] == inner[:-1]:
                nested = f"{each.name}${inner[-1]}"
                if all(other.name != nested for other in classes):
                    yield file, each, inner[-1]

    def _searched(self, named: Named) -> Iterator[Candidate]:
        """Classes in files with another name, and test methods named without a class."""
        parts = [part for part in re.split(r"[.$/]", named.name.removesuffix(".java")) if part]
        tail = [part for part in parts if re.fullmatch(r"\w+", part)][-2:]
        if not tail:
            return
        pattern = rf"(class|enum|record)[[:space:]]+({'|'.join(tail)})\b"
        for file, each in self._grep(pattern):
            if each.simple_name == tail[-1]:
                yield file, each, named.method
            elif len(tail) > 1 and each.simple_name == tail[-2] and each.method(tail[-1]):
                yield file, each, tail[-1]
        if len(parts) == 1 and named.method is None:
            for file, each in self._grep(rf"\b{parts[0]}[[:space:]]*\("):
                method = each.method(parts[0])
                if method is not None and method.test:
                    yield file, each, parts[0]

    def _grep(self, pattern: str) -> Iterator[tuple[str, JavaClass]]:
        """The classes of some sources with a line that matches."""
        return ((file, each) for file in self.grep(pattern) for each in self.outline(file).classes)

    def _found(self, file: str, chosen: JavaClass, method: str | None, named: Named) -> Found:
        shown = f"{chosen.name} ({file})"
        if named.invocation is not None and method is None:
            raise NoSuchTest(
                f"{shown}: an invocation is one of a test method, as in "
                f"{chosen.simple_name}#total[{named.invocation}]"
            )
        imports = self.outline(file).imports
        entry = any(each.entry for each in chosen.methods)
        main = Found(file, chosen.name, None, ("main",), False, (), imports)
        if named.main or (method == "main" and entry):
            if not entry:
                raise NoSuchTest(f"{shown} has no `public static void main(String[])`")
            return replace(main, arguments=named.arguments)
        if not chosen.concrete and not entry:
            # Its tests run in its subclasses.
            name = chosen.simple_name
            heirs = [
                each.name
                for _, each in self._grep(rf"extends[[:space:]]+[A-Za-z0-9_.]*{name}\b")
                if each.concrete and (each.parent or "").rpartition(".")[2] == name
            ]
            known = f"; name one of its subclasses: {', '.join(heirs[:NEAREST])}" if heirs else ""
            raise NoSuchTest(f"{shown} is abstract, so that no test of it can run{known}")
        tests = tuple(dict.fromkeys(m.name for m in self.tests(file, chosen)))
        if method is None and not tests and entry:
            return main
        if method is None:
            if not tests and not any(name.startswith(FRAMEWORKS) for name in imports):
                nearest = self._nearest_classes(chosen.simple_name)
                raise NoSuchTest(f"{shown} holds no test and no main method{nearest}")
            return Found(file, chosen.name, None, tests, True, (), imports)
        family = list(self.family(file, chosen))
        last_file, last = family[-1]
        nested = self._nested_tests(file, chosen)
        same = [test for test in nested if test.endswith(f"#{method}")]
        # A class without its source, of a library, may have it.
        may_have = (
            any(each.method(method) for _, each in family)
            or last.parent not in (None, *TEST_CASES)
            or (not same and re.search(rf"\b{method}\s*\(", self.text(last_file)))
        )
        if not may_have:
            by_name = {test.rpartition("#")[2]: test for test in (*nested, *tests)}
            alike = difflib.get_close_matches(method, by_name, NEAREST, 0.4)
            close = same or [by_name[each] for each in alike] or [*tests, *nested][:NEAREST]
            nearest = f"its nearest tests: {', '.join(close)}" if close else "it holds no tests"
            raise NoSuchTest(f"{shown} has no method {method}; {nearest}")
        return Found(
            file, chosen.name, method, (method,), True, (), imports, invocation=named.invocation
        )

    def _nested_tests(self, file: str, outer: JavaClass) -> list[str]:
        """The tests of the classes nested in one, as `demo.Outer$Inner#test`."""
        nested = (
            each for each in self.outline(file).classes if each.name.startswith(f"{outer.name}$")
        )
        return [
            f"{each.name}#{method.name}"
            for each in nested
            for method in each.methods
            if method.test
        ]

    def _nearest_classes(self, *names: str, main: bool = False) -> str:
        """Sources with similar names, or if none is similar the first; of tests, if there are any
        and no main class was asked for."""
        stems = {posixpath.basename(path).removesuffix(".java"): path for path in self.paths}
        tests = {stem: path for stem, path in stems.items() if "test" in path.lower()}
        stems = stems if main else tests or stems
        close = [
            match
            for name in reversed(names)
            for match in difflib.get_close_matches(name, stems, NEAREST, 0.6)
        ]
        shown = list(dict.fromkeys(close or stems))[:NEAREST]
        return f"; the nearest: {', '.join(stems[stem] for stem in shown)}" if shown else ""
