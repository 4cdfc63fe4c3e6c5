"""Find the test or the main class that a launch names, in the workspace's sources."""

from __future__ import annotations

import difflib
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.errors import NoSuchTest, SandboxFileError
from sandbox.java.scan import Scan
from sandbox.shell import capture

# Reads the classes and methods of a Java source file, as far as finding a test needs them.


_NOISE = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/',
    re.DOTALL,
)
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_TYPE = re.compile(
    r"\b(?P<kind>class|interface|enum|record|@interface)\s+(?P<name>\w+)"
    r"(?:\s*<[^{]*?>)?(?:\s*\([^{]*\))?(?:[^{;]*?\bextends\s+(?P<parent>[\w.]+))?[^{;]*$",
    re.DOTALL,
)
_METHOD = re.compile(
    r"(?:^|[\s>\]])(?P<name>\w+)\s*\((?P<parameters>[^{}]*)\)\s*(?:throws[\w\s.,@<>]+)?$",
    re.DOTALL,
)
_ANNOTATION = re.compile(r"@(?:[\w.]+\.)?(\w+)")
_KEYWORDS = frozenset(
    ["if", "for", "while", "switch", "catch", "synchronized", "try", "new", "return", "do", "else"]
)
TEST_ANNOTATIONS = frozenset(
    [
        "Test",
        "ParameterizedTest",
        "RepeatedTest",
        "TestFactory",
        "TestTemplate",
        "Theory",
        "Property",
    ]
)


@dataclass(frozen=True)
class Method:
    """A method that has a body."""

    name: str
    test: bool
    """Whether a test framework's annotation marks it."""
    entry: bool
    """Whether it is a `main` that a program can start at."""


@dataclass
class JavaClass:
    """One class of a file."""

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
    """The package and classes of one source file."""

    package: str
    classes: tuple[JavaClass, ...]
    """Outer classes before their inner ones."""
    imports: tuple[str, ...] = ()


def outline(text: str) -> Outline:
    """Read a file. Text that is not Java gives few classes or none, never an error."""
    plain = _NOISE.sub(_blank, text)
    match = _PACKAGE.search(plain)
    package = match[1] if match else ""
    imports = re.findall(r"^\s*import\s+(?:static\s+)?([\w.]+)", plain, re.MULTILINE)
    return Outline(package, tuple(_classes(plain, package)), tuple(imports))


def _blank(match: re.Match[str]) -> str:
    """Blank out a literal or a comment, so that nothing in it is taken for code."""
    return '""' if match[0][0] == '"' else " "


def _classes(text: str, package: str) -> Iterator[JavaClass]:
    """Walk the blocks; the text before a block's brace says what it is.

    Skips what is in parentheses: an annotation's array, a lambda's body.
    """
    open_blocks: list[JavaClass | Literal["other"]] = []
    start = depth = 0
    for match in re.finditer(r"[{}();]", text):
        if match[0] in "()":
            depth = max(0, depth + (1 if match[0] == "(" else -1))
            continue
        if depth:
            continue
        if match[0] == "{":
            block = _block(text[start : match.start()], open_blocks, package)
            open_blocks.append(block or "other")
            if block is not None:
                yield block
        elif match[0] == "}" and open_blocks:
            open_blocks.pop()
        start = match.end()


def _block(head: str, around: list[JavaClass | Literal["other"]], package: str) -> JavaClass | None:
    """The class whose body the block is; a method is added to its class."""
    outer = around[-1] if around else None
    if outer == "other":
        return None
    if (declared := _TYPE.search(head)) is not None:
        prefix = f"{outer.name}$" if isinstance(outer, JavaClass) else f"{package}." * bool(package)
        concrete = declared["kind"] in ("class", "record") and "abstract" not in head.split()
        return JavaClass(prefix + declared["name"], declared["parent"], concrete)
    found = _METHOD.search(head)
    if isinstance(outer, JavaClass) and found is not None and found["name"] not in _KEYWORDS:
        outer.methods.append(_method(found["name"], found["parameters"], head))
    return None


def _method(name: str, parameters: str, head: str) -> Method:
    annotations = set(_ANNOTATION.findall(head))
    entry = name == "main" and "static" in head.split() and "String" in parameters
    return Method(name, bool(annotations & TEST_ANNOTATIONS), entry)


# Finds a workspace's Java sources by path or by text, and reads each with its parents.


MAX_PARENTS = 10
MAX_CANDIDATES = 20
SEARCH_TIMEOUT = 30.0
TEST_CASES = ("TestCase", "junit.framework.TestCase")

_SEARCH = 'find . -name "*.java" ! -path "*/target/*" -exec grep -lE -e "$1" {} + | head -n "$2"'


class Sources:
    """The sources of one workspace, each read at most once."""

    def __init__(self, sandbox: Sandbox, scan: Scan) -> None:
        self._sandbox = sandbox
        self._scan = scan
        self._outlines: dict[str, Outline] = {}

    @property
    def paths(self) -> list[str]:
        """The paths of all sources, relative to the workspace."""
        return self._scan.sources

    def files(self, path: str) -> Iterator[str]:
        """Sources whose path ends like this; a `*` stands for any text."""
        wanted = posixpath.normpath(path.removeprefix(f"{self._sandbox.workspace}/")).lstrip("/")
        for source in self._scan.sources:
            if source == wanted or fnmatchcase(f"/{source}", f"*/{wanted}"):
                yield source

    def grep(self, pattern: str) -> list[str]:
        """Some sources with a line that matches an extended regular expression."""
        found = capture(
            self._sandbox,
            _SEARCH,
            pattern,
            str(MAX_CANDIDATES),
            cwd=self._sandbox.workspace,
            timeout=SEARCH_TIMEOUT,
        )
        files = [posixpath.normpath(line) for line in found.output.splitlines()]
        return [file for file in files if self._scan.has(file)]

    def outline(self, file: str) -> Outline:
        """The classes and methods of a source."""
        if file not in self._outlines:
            self._outlines[file] = outline(self.text(file))
        return self._outlines[file]

    def text(self, file: str) -> str:
        """A source, decoded as UTF-8 with replacement; empty if it can't be read."""
        try:
            return self._sandbox.read_file(file, SOURCE_LIMIT).decode("utf-8", "replace")
        except SandboxFileError:
            # A link, or a file deleted since the scan.
            return ""

    def tests(self, file: str, chosen: JavaClass) -> Iterator[Method]:
        """The test methods of a class, inherited ones included."""
        family = list(self.family(file, chosen))
        old = family[-1][1].parent in TEST_CASES
        for _, each in family:
            for method in each.methods:
                if method.test or (old and method.name.startswith("test")):
                    yield method

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


# Parses what a launch names: a test, a main class, or a build tool's command for a test.


ACCEPTED = (
    "give a test (demo.CartTest#testTotal, CartTest, src/test/java/demo/CartTest.java::testTotal), "
    "the command that runs it (mvn test -Dtest=..., gradle test --tests ...), or a main class or "
    "its file with its arguments (demo.Main 1 2)"
)
MAX_CHARACTERS = 4_000
NAME = re.compile(r"[\w.$/*-]+")


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


def parse_name(text: str) -> Named:
    """Parse a launch's `test`. Raises NoSuchTest if it names nothing."""
    if len(text) > MAX_CHARACTERS:
        raise NoSuchTest(f"a test of {len(text)} characters names no test: {ACCEPTED}")
    words = _words(text)
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if not words:
        raise NoSuchTest(f"{text!r} names no test: {ACCEPTED}")
    program = posixpath.basename(words[0])
    if program in ("mvn", "mvnw"):
        return _maven(words[1:])
    if program in ("gradle", "gradlew"):
        return _gradle(words[1:])
    if program == "java" and len(words) > 1:
        return _java(words[1:])
    named = _split_method(words[0])
    arguments = tuple(words[1:])
    return Named(named.name, named.method, arguments, main=bool(arguments))


def _words(text: str) -> list[str]:
    """Split into words as a shell does, but keep a test's parameter list in one word."""
    joined = re.sub(r"\([^()]*\)\s*$", "", text.strip())
    try:
        return shlex.split(joined)
    except ValueError:
        return joined.split()


def _split_method(text: str) -> Named:
    """Parse `Class#method` or `Class::method`, with an optional parameter list, index or line."""
    plain = re.sub(r"(\(.*\)|\[.*\]|(?<=\.java):\d+)+$", "", text.strip())
    name, _, method = plain.replace("::", "#").partition("#")
    if not NAME.fullmatch(name) or (method and not re.fullmatch(r"[\w$*]+", method)):
        raise NoSuchTest(f"{text!r} names no test: {ACCEPTED}")
    return Named(name, method or None)


def _maven(words: list[str]) -> Named:
    test = module = None
    rest = iter(words)
    for word in rest:
        if match := re.match(r"-D(?:it\.)?test=(.+)", word):
            test = re.split(r"[,+]", match[1])[0]
        elif word in ("-pl", "--projects"):
            module = next(rest, "").split(",")[0]
        elif word in ("-f", "--file"):
            module = posixpath.dirname(next(rest, ""))
    if not test:
        raise NoSuchTest(f"the command names no test: add -Dtest=Class#method, or {ACCEPTED}")
    return _in_module(test, module)


def _gradle(words: list[str]) -> Named:
    test = module = None
    rest = iter(words)
    for word in rest:
        if word == "--tests":
            test = next(rest, "")
        elif word.startswith("--tests="):
            test = word.removeprefix("--tests=")
        elif word in ("-p", "--project-dir"):
            module = next(rest, "")
        elif ":" in word and not word.startswith("-"):
            module = word.rpartition(":")[0]
    if not test:
        raise NoSuchTest(f"the command names no test: add --tests Class.method, or {ACCEPTED}")
    return _in_module(test, module)


def _in_module(test: str, module: str | None) -> Named:
    named = _split_method(test)
    folder = module.strip(":./").replace(":", "/") if module else None
    return Named(named.name, named.method, module=folder or None)


def _java(words: list[str]) -> Named:
    rest = iter(words)
    for word in rest:
        if word in ("-cp", "-classpath", "--class-path"):
            next(rest, None)
        elif word == "-jar":
            raise NoSuchTest(f"a jar can't be debugged from its sources: {ACCEPTED}")
        elif not word.startswith("-"):
            named = _split_method(word)
            return Named(named.name, named.method, tuple(rest), main=True)
    raise NoSuchTest(f"the command names no main class: {ACCEPTED}")


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

    @property
    def selector(self) -> str:
        """The selector that the test runner takes."""
        return f"{self.class_name}#{self.method}" if self.method else self.class_name


class Lookup:
    """Looks up names in one workspace."""

    def __init__(self, sandbox: Sandbox, scan: Scan) -> None:
        self._sources = Sources(sandbox, scan)

    def find(self, named: Named) -> Found:
        """Raises NoSuchTest with the nearest names, or SandboxDead."""
        candidates = list(self._candidates(named)) or list(self._searched(named))
        if not candidates:
            raise NoSuchTest(self._nothing(named))
        chosen = _preferred(candidates, named.module)
        return self._found(*chosen, named)

    def _candidates(self, named: Named) -> Iterator[tuple[str, JavaClass, str | None]]:
        """Classes in files named after them, with the method at the end of the name, if any."""
        if named.name.endswith(".java") or "/" in named.name:
            path = named.name if named.name.endswith(".java") else f"{named.name}.java"
            for file in self._sources.files(path):
                yield from self._of_file(file, named.method)
            return
        parts = [part for part in re.split(r"[.$]", named.name) if part]
        for length in range(len(parts), 0, -1):
            matches = list(self._sources.files("/".join(parts[:length]) + ".java"))
            for file in matches:
                yield from self._of_parts(file, parts[length - 1 :], named.method)
            if matches:
                return

    def _of_file(
        self, file: str, method: str | None
    ) -> Iterator[tuple[str, JavaClass, str | None]]:
        """The file's first class, or the class in it that has the method."""
        classes = self._sources.outline(file).classes
        with_method = [each for each in classes if method and each.method(method)]
        stem = posixpath.basename(file).removesuffix(".java")
        named = [each for each in classes if each.simple_name == stem]
        entries = [each for each in classes if any(m.entry for m in each.methods)]
        for each in [*with_method, *named, *entries, *classes][:1]:
            yield file, each, method

    def _of_parts(
        self, file: str, parts: list[str], method: str | None
    ) -> Iterator[tuple[str, JavaClass, str | None]]:
        """Resolve `Outer`, `Outer.Inner` or `Outer.method` in the file of `Outer`."""
        outer, *inner = parts
        for each in self._sources.outline(file).classes:
            names = each.name.rpartition(".")[2].split("$")
            if names[0] != outer and not fnmatchcase(names[0], outer):
                continue
            if names[1:] == inner:
                yield file, each, method
            elif method is None and names[1:] == inner[:-1] and not self._nested(file, each, inner):
                yield file, each, inner[-1]

    def _nested(self, file: str, outer: JavaClass, inner: list[str]) -> bool:
        nested = f"{outer.name}${inner[-1]}"
        return any(each.name == nested for each in self._sources.outline(file).classes)

    def _searched(self, named: Named) -> Iterator[tuple[str, JavaClass, str | None]]:
        """Classes in files with another name, and test methods named without a class."""
        parts = [part for part in re.split(r"[.$/]", named.name.removesuffix(".java")) if part]
        tail = [part for part in parts if re.fullmatch(r"\w+", part)][-2:]
        if not tail:
            return
        pattern = rf"(class|enum|record)[[:space:]]+({'|'.join(tail)})\b"
        for file in self._sources.grep(pattern):
            for each in self._sources.outline(file).classes:
                if each.simple_name == tail[-1]:
                    yield file, each, named.method
                elif len(tail) > 1 and each.simple_name == tail[-2] and each.method(tail[-1]):
                    yield file, each, tail[-1]
        if len(parts) == 1 and named.method is None:
            for file in self._sources.grep(rf"\b{parts[0]}[[:space:]]*\("):
                for each in self._sources.outline(file).classes:
                    method = each.method(parts[0])
                    if method is not None and method.test:
                        yield file, each, parts[0]

    def _found(self, file: str, chosen: JavaClass, method: str | None, named: Named) -> Found:
        imports = self._sources.outline(file).imports
        entry = any(each.entry for each in chosen.methods)
        if named.main or (method == "main" and entry):
            if not entry:
                raise NoSuchTest(
                    f"{chosen.name} ({file}) has no `public static void main(String[])`"
                )
            return Found(file, chosen.name, None, ("main",), False, named.arguments, imports)
        if not chosen.concrete and not entry:
            raise NoSuchTest(self._abstract(file, chosen))
        if method is not None:
            self._require_method(file, chosen, method)
            return Found(file, chosen.name, method, (method,), True, (), imports)
        tests = tuple(dict.fromkeys(m.name for m in self._sources.tests(file, chosen)))
        if not tests and entry:
            return Found(file, chosen.name, None, ("main",), False, (), imports)
        if not tests and not _uses_framework(imports):
            nearest = self._nearest_classes(chosen.simple_name)
            raise NoSuchTest(f"{chosen.name} ({file}) holds no test and no main method{nearest}")
        return Found(file, chosen.name, None, tests, True, (), imports)

    def _abstract(self, file: str, chosen: JavaClass) -> str:
        """Explain where the tests of an abstract class run."""
        name = chosen.simple_name
        heirs = [
            each.name
            for path in self._sources.grep(rf"extends[[:space:]]+[A-Za-z0-9_.]*{name}\b")
            for each in self._sources.outline(path).classes
            if each.concrete and (each.parent or "").rpartition(".")[2] == name
        ]
        shown = f"; name one of its subclasses: {', '.join(heirs[:NEAREST])}" if heirs else ""
        return f"{chosen.name} ({file}) is abstract, so that no test of it can run{shown}"

    def _require_method(self, file: str, chosen: JavaClass, method: str) -> None:
        """Raise NoSuchTest unless the class has the method, inherits it, or may from a library."""
        family = list(self._sources.family(file, chosen))
        if any(each.method(method) for _, each in family):
            return
        last_file, last = family[-1]
        if last.parent not in (None, *TEST_CASES) or re.search(
            rf"\b{method}\s*\(", self._sources.text(last_file)
        ):
            return
        known = list(dict.fromkeys(m.name for m in self._sources.tests(file, chosen)))
        close = difflib.get_close_matches(method, known, NEAREST, 0.4) or known[:NEAREST]
        nearest = f"; its nearest tests: {', '.join(close)}" if close else "; it holds no tests"
        raise NoSuchTest(f"{chosen.name} ({file}) has no method {method}{nearest}")

    def _nothing(self, named: Named) -> str:
        if not self._sources.paths:
            return "the workspace holds no Java sources"
        what = "main class" if named.main else "test"
        shown = named.name + (f"#{named.method}" if named.method else "")
        simple = re.split(r"[./$]", named.name.removesuffix(".java"))
        return f"there is no {what} {shown}{self._nearest_classes(*simple[-2:])}; {ACCEPTED}"

    def _nearest_classes(self, *names: str) -> str:
        """Sources with similar names; if none is similar, those of tests first."""
        stems = {
            posixpath.basename(path).removesuffix(".java"): path for path in self._sources.paths
        }
        close = [
            match
            for name in reversed(names)
            for match in difflib.get_close_matches(name, stems, NEAREST, 0.6)
        ]
        tests = [stem for stem, path in stems.items() if "test" in path.lower()]
        shown = list(dict.fromkeys([*close, *([] if close else tests or stems)]))[:NEAREST]
        return f"; the nearest: {', '.join(stems[stem] for stem in shown)}" if shown else ""


def _preferred(
    candidates: list[tuple[str, JavaClass, str | None]], module: str | None
) -> tuple[str, JavaClass, str | None]:
    """Choose among classes of the same name: the named module first, then tests, then short
    paths."""

    def rank(candidate: tuple[str, JavaClass, str | None]) -> tuple[bool, bool, int]:
        file = candidate[0]
        elsewhere = module is not None and f"/{module}/" not in f"/{file}"
        return elsewhere, "test" not in file.lower(), len(file)

    return min(candidates, key=rank)


def _uses_framework(imports: tuple[str, ...]) -> bool:
    return any(name.startswith(FRAMEWORKS) for name in imports)
